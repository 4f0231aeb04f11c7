"""mypyc's C, changed so that what one module says does not change the C of another.

mypyc numbers the literals of all modules in one table, CPyStatics: a new literal in one module moves those of all the
modules behind it. Here each C file gets a table of its own, CPyLocal, which the shared C file fills once when the
library is loaded:

    in a module     cpy_r_r6 = CPyLocal[4]; /* 'annotations' */         as fast: an array of the same library
    shared          static const int CPyPlaces_3[] = {29, 3, 57, ...};  what stands in CPyLocal of the third file

Labels and temporary variables are numbered through all modules, too; `own_numbers` numbers them anew in each file.

All modules share one header, of which each needs a small part: `Header.part` is that part, for the key of an object.
"""

from __future__ import annotations

import re

LITERAL = re.compile(r"\bCPyStatics\[(\d+)\]")
NUMBERED = re.compile(r"\b(__LL|__tmp)(\d+)\b")
WORD = re.compile(r"[A-Za-z_]\w*")
TABLE_FILLED = re.compile(r"(if \(CPyStatics_Initialize\(.*?\{\n\s*return -1;\n\s*\}\n)", re.DOTALL)


def own_numbers(code: str) -> str:
    """A module's C with labels and temporary variables that are numbered from 0."""
    numbers: dict[str, int] = {}
    return NUMBERED.sub(lambda match: f"{match[1]}{numbers.setdefault(match[2], len(numbers))}", code)


def own_literals(code: str, number: int) -> tuple[str, list[int]]:
    """A module's C with a table of its own, and which literals of the shared table stand in it, in order."""
    places: dict[int, int] = {}

    def own(match: re.Match[str]) -> str:
        return f"CPyLocal[{places.setdefault(int(match[1]), len(places))}]"

    changed = LITERAL.sub(own, code)
    if not places:
        return code, []
    table = (
        f"static PyObject *CPyLocal[{len(places)}];\n"
        f"void CPyFill_{number}(PyObject **statics, const int *places)\n"
        "{\n"
        f"    for (int i = 0; i < {len(places)}; i++)\n"
        "        CPyLocal[i] = statics[places[i]];\n"
        "}\n"
    )
    after_includes = re.search(r"\A(?:#include [^\n]*\n)+", changed)
    if after_includes is None:
        raise ValueError("C of a module does not begin with its includes")
    end = after_includes.end()
    return changed[:end] + table + changed[end:], list(places)


def fill_literals(code: str, tables: dict[int, list[int]]) -> str:
    """The shared C file, which fills the tables of the modules as soon as its own is complete."""
    lines = []
    calls = []
    for number, places in sorted(tables.items()):
        lines.append(f"static const int CPyPlaces_{number}[] = {{{', '.join(map(str, places))}}};")
        lines.append(f"extern void CPyFill_{number}(PyObject **statics, const int *places);")
        calls.append(f"    CPyFill_{number}(CPyStatics, CPyPlaces_{number});")
    filled = TABLE_FILLED.search(code)
    start = code.find("int CPyGlobalsInit(void)")
    if filled is None or start < 0:
        raise ValueError("the shared C file does not fill CPyStatics as expected")
    before, after = code[: filled.end()], code[filled.end() :]
    return before[:start] + "\n".join(lines) + "\n\n" + before[start:] + "\n".join(calls) + "\n" + after


class Header:
    """The declarations of the headers that all C files share.

    texts  the headers' contents
    """

    def __init__(self, texts: list[str]) -> None:
        self.always: list[str] = []  # includes and conditions
        self.declarations: dict[str, str] = {}
        for text in texts:
            self._read(text)
        self._words = {name: set(WORD.findall(text)) for name, text in self.declarations.items()}

    def part(self, code: str) -> str:
        """The declarations that a C file depends on, directly or by another declaration."""
        needed: set[str] = set()
        wanted = set(WORD.findall(code)) & self.declarations.keys()
        while wanted:
            needed |= wanted
            wanted = {word for name in wanted for word in self._words[name]} & self.declarations.keys() - needed
        return "\n".join(self.always + [self.declarations[name] for name in sorted(needed)])

    def _read(self, text: str) -> None:
        depth = 0
        lines: list[str] = []
        for line in text.splitlines():
            if not lines and (line.startswith("#") or not line.strip()):
                if line.startswith("#include"):
                    self.always.append(line)
                continue
            lines.append(line)
            depth += line.count("{") - line.count("}")
            if depth == 0 and line.rstrip().endswith(";"):
                self._declare("\n".join(lines))
                lines = []
        if lines:
            raise ValueError(f"a declaration without an end: {lines[0]!r}")

    def _declare(self, text: str) -> None:
        """Note a declaration under its name: of a type its last word, else the word before `(`, `[` or the end."""
        if text.startswith("typedef") or "}" in text:
            name = WORD.findall(text[text.rfind("}") :])
        else:
            name = WORD.findall(re.split(r"[(\[]", text, maxsplit=1)[0])
        if not name or name[-1] in self.declarations:
            self.always.append(text)  # seen by all: too much is compiled rather than too little
        else:
            self.declarations[name[-1]] = text
