"""`forebay top`: queues and rates of a running broker, live on a terminal."""

from __future__ import annotations

import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from forebay.cli.access import AdminAccess, asks_broker
from forebay.cli.as_json import show_json
from forebay.cli.manage.status import oldest_said
from forebay.cli.show import cell, show_table
from forebay.cli.units import octets_said, period_said, rate_said, rates, seconds_between

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

COLUMNS: Final = ("vhost", "queue", "ready", "unacked", "consumers", "in", "out", "acked", "oldest")
# A key, the column that it sorts by, and whether the largest comes first.
ORDERS: Final[dict[str, tuple[str, bool]]] = {
    "r": ("ready", True),
    "u": ("unacked", True),
    "i": ("in", True),
    "o": ("out", True),
    "a": ("oldest_ms", True),
    "n": ("queue", False),
}
HELP: Final = "q quit  r ready  u unacked  i in  o out  a age  n name  / find  space hold"
HEAD_LINES: Final = 6  # above and below the rows
ESCAPE: Final = "\x1b"
ENTER: Final = "\r\n"
DELETE: Final = "\x7f\b"
Row = dict[str, Any]


@asks_broker
def top(
    access: AdminAccess,
    interval: Annotated[
        float, typer.Option("--interval", "-i", metavar="SECONDS", min=0.2, help="How often it looks.")
    ] = 2.0,
    sort: Annotated[str, typer.Option(metavar="KEY", help="r, u, i, o, a or n: as the key of that letter.")] = "r",
    find: Annotated[str, typer.Option(metavar="TEXT", help="Only queues with this in their names.")] = "",
    once: Annotated[bool, typer.Option("--once", help="Print it once, as it does where nobody looks.")] = False,
) -> None:
    """Watch queues and rates: the keys r, u, i, o, a and n sort, / finds, space holds the picture, q ends.

    Example: forebay top --sort o
    """
    if sort not in ORDERS:
        from forebay.core.errors import OptionError

        raise OptionError(f"--sort: {sort!r} is none of {', '.join(ORDERS)}")
    screen = Screen(access, sort, find)
    if once or access.as_json or not (sys.stdin.isatty() and sys.stdout.isatty()):
        screen.look()
        time.sleep(min(interval, 1.0))
        screen.look()
        if access.as_json:
            show_json({"broker": screen.broker, "rates": screen.rates, "queues": screen.chosen()})
        else:
            print(screen.headline())
            show_table(COLUMNS, [screen.cells(each) for each in screen.chosen()])
        return
    watch(screen, interval)


class Screen:
    """The view, and what the keys have chosen.

    broker   the broker's last answer
    rows     its queues, each with its rates since the look before
    finding  whether what is typed is the text to be found
    """

    def __init__(self, access: AdminAccess, order: str, find: str) -> None:
        self.client = access.client
        self.order = order
        self.find = find
        self.finding = False
        self.held = False
        self.broker: Row = {}
        self.rates: dict[str, float] = {}
        self.rows: list[Row] = []
        self._before: dict[tuple[str, str], Row] = {}

    def look(self) -> None:
        """Ask the broker."""
        broker: Row = self.client.run("broker.status")
        known = self.broker or broker
        self.rates = rates(known, broker, seconds_between(known, broker))
        self.broker = broker
        rows: list[Row] = []
        for queue in figures(self.client.run):
            place = (queue["vhost"], queue["queue"])
            before = self._before.get(place, queue)
            rows.append({**queue, **rates(before, queue, seconds_between(before, queue))})
        self.rows = rows
        self._before = {(row["vhost"], row["queue"]): row for row in rows}

    def press(self, key: str) -> bool:
        """Take one key; False where it ends the command."""
        if self.finding:
            if key in ENTER or key == ESCAPE:
                self.finding = False
                self.find = "" if key == ESCAPE else self.find
            elif key in DELETE:
                self.find = self.find[:-1]
            elif key.isprintable():
                self.find += key
        elif key in ORDERS:
            self.order = key
        elif key == "/":
            self.finding = True
            self.find = ""
        elif key == " ":
            self.held = not self.held
        elif key == ESCAPE:
            self.find = ""
        return self.finding or key not in {"q", "Q", "\x03", "\x04"}

    def chosen(self) -> list[Row]:
        """The queues that are asked for, in their order."""
        column, descending = ORDERS[self.order]
        found = [row for row in self.rows if self.find.lower() in row["queue"].lower()]
        if not descending:
            return sorted(found, key=lambda row: (row["queue"], row["vhost"]))
        return sorted(found, key=lambda row: (-(row[column] or 0), row["queue"]))

    def headline(self) -> str:
        """The broker in a line."""
        broker = self.broker
        alarm = f"ALARM: {' and '.join(broker['alarms'])}  " if broker["alarms"] else ""
        return (
            f"{alarm}up {period_said(broker['uptime_s'])}  {broker['connections']:,} connections  "
            f"memory {octets_said(broker['memory_octets'])}  disk {octets_said(broker['disk_free_octets'])} free"
        )

    def cells(self, row: Row) -> dict[str, object]:
        """A row as it is shown."""
        shown = {name: rate_said(row[name]) for name in ("in", "out", "acked")}
        return {**row, **shown, "oldest": oldest_said(row)}

    def view(self, lines: int) -> RenderableType:
        """The whole screen, of so many lines."""
        from rich.console import Group
        from rich.text import Text

        broker = self.broker
        flow = "  ".join(f"{name} {rate_said(rate)}" for name, rate in self.rates.items())
        found = self.chosen()
        room = max(lines - HEAD_LINES, 1)
        head = Text(self.headline(), no_wrap=True, overflow="ellipsis", style="bold")
        sums = Text(
            f"{broker['queues']:,} queues  {broker['ready']:,} ready  {broker['unacked']:,} unacked  {flow}",
            no_wrap=True,
            overflow="ellipsis",
        )
        foot = Text(self.foot(len(found), room), no_wrap=True, overflow="ellipsis", style="dim")
        return Group(head, sums, Text(""), self.table(found[:room]), foot)

    def foot(self, found: int, room: int) -> str:
        if self.finding:
            return f"find: {self.find}_"
        more = f"{found - room} more queues  " if found > room else ""
        return f"{more}{'held  ' if self.held else ''}{'/' + self.find + '  ' if self.find else ''}{HELP}"

    def table(self, rows: Sequence[Row]) -> Table:
        from rich.table import Table
        from rich.text import Text

        made = Table(box=None, pad_edge=False, header_style="bold reverse", expand=True)
        for name in COLUMNS:
            wide = name in {"vhost", "queue"}
            sorts = ORDERS[self.order][0].removesuffix("_ms") == name
            made.add_column(
                f"{name}{'*' if sorts else ''}",
                justify="left" if wide else "right",
                no_wrap=True,
                overflow="ellipsis",
                ratio={"vhost": 1, "queue": 4}.get(name),
            )
        for row in rows:
            cells = self.cells(row)
            made.add_row(*(Text(cell(cells[name])) for name in COLUMNS))
        return made


def figures(run: Callable[..., dict[str, object]]) -> Iterator[Row]:
    """The figures of all queues; each page of them is of one moment."""
    place: object = None
    while True:
        answer: Row = run("queue.figures", **{"from": place, "limit": 1000})
        for item in answer["items"]:
            yield {**item, "time_us": answer["time_us"]}
        place = answer.get("next")
        if place is None:
            return


def watch(screen: Screen, interval_s: float) -> None:
    """Show it until somebody ends it."""
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False, markup=False, emoji=False)
    screen.look()
    due = time.monotonic() + min(interval_s, 1.0)  # the first rates come soon
    with keyboard() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(screen.view(console.size.height), refresh=True)
            for key in keys(max(due - time.monotonic(), 0.0)):
                if not screen.press(key):
                    return
            if time.monotonic() >= due:
                due = time.monotonic() + interval_s
                if not screen.held:
                    screen.look()


@contextmanager
def keyboard() -> Iterator[Callable[[float], str]]:
    """A function that gives the keys pressed within so many seconds; the terminal is as it was afterwards."""
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)

    def keys(wait_s: float) -> str:
        if not select.select([handle], [], [], wait_s)[0]:
            return ""
        return os.read(handle, 64).decode("utf-8", "ignore") or "q"  # nothing: the terminal is gone

    try:
        tty.setcbreak(handle)
        yield keys
    finally:
        termios.tcsetattr(handle, termios.TCSADRAIN, before)
