"""Tables that fit the terminal: one line a row, numbers whole and to the right, long texts cut visibly with `…`.

The widths are those that a terminal shows: of wide characters (Chinese, emoji) two columns, of combining ones none.
Where even the shortest texts leave no room for all columns, the last ones are left out, and a line says which.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Final

from rich.cells import cell_len, set_cell_size

WIDE: Final = 100_000  # columns without a terminal: a file or another program gets whole lines
GAP: Final = "  "
TEXT_MIN: Final = 8  # columns that a text keeps, however narrow the terminal is
CUT: Final = "…"
TEXT: Final = "text"
WHOLE: Final = "whole"
NUMBER: Final = "number"
BOLD: Final = "\x1b[1m{}\x1b[0m"


def terminal_columns() -> int:
    """Return the width of the terminal in columns, or WIDE if standard output is none."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return WIDE


def fitted(text: str, columns: int) -> str:
    """Return a text cut with `…` if it is wider than `columns`."""
    if cell_len(text) <= columns:
        return text
    return set_cell_size(text, max(columns - 1, 0)).rstrip() + CUT


def padded(text: str, columns: int, right: bool) -> str:
    """Return a text cut or filled with blanks to `columns`; `right` aligns it to the right."""
    shown = fitted(text, columns)
    blanks = " " * (columns - cell_len(shown))
    return blanks + shown if right else shown + blanks


def table_lines(
    heads: Sequence[str], rows: Sequence[Sequence[str]], kinds: Sequence[str], columns: int
) -> tuple[list[str], list[str]]:
    """Return the lines of a table at most `columns` wide, head first, and the heads of columns without room.

    kinds  kind of each column: TEXT, which may be cut, or WHOLE or NUMBER, which are not cut
    """
    widths = [min(max(cell_len(text) for text in column), columns) for column in zip(heads, *rows, strict=True)]
    least = [
        min(width, max(TEXT_MIN, cell_len(head))) if kind == TEXT else width
        for width, kind, head in zip(widths, kinds, heads, strict=True)
    ]
    shown = len(heads)
    while shown > 1 and sum(least[:shown]) + len(GAP) * (shown - 1) > columns:
        shown -= 1
    given = shared(widths[:shown], least[:shown], columns - len(GAP) * (shown - 1))
    lines = []
    for row in (heads, *rows):
        cells = zip(row, given, kinds, strict=False)
        lines.append(GAP.join(padded(text, width, kind == NUMBER) for text, width, kind in cells).rstrip())
    return lines, list(heads[shown:])


def shared(wanted: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """Return column widths that add up to `room`. Shrinks the widest first, and none below its `least` if possible."""
    widths = list(wanted)
    for _ in range(sum(widths) - room):
        loose = [at for at, width in enumerate(widths) if width > least[at]] or [len(widths) - 1]
        widest = max(loose, key=lambda at: widths[at])
        widths[widest] = max(widths[widest] - 1, 1)
    return widths


def print_table(heads: Sequence[str], rows: Sequence[Sequence[str]], kinds: Sequence[str]) -> None:
    """Print a table for people, with its head in bold on a terminal."""
    lines, hidden = table_lines(heads, rows, kinds, terminal_columns())
    bold = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    print(BOLD.format(lines[0]) if bold else lines[0])
    for line in lines[1:]:
        print(line)
    if hidden:
        print(f"({CUT} no room for: {', '.join(hidden)}; a wider terminal or --json has them)")
