"""Configuration files: their keys and values, and in which line each key stands.

The path of a key is that of option_table.Problem: `queues[1].retention.max_age_s`.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import yaml

from forebay.core.errors import OptionError

Values = dict[str, object]
Lines = dict[str, int]

OPEN: Final = "[{"
CLOSE: Final = "]}"
NESTING_MAX: Final = 64


def read_lines(path: str) -> tuple[Values, Lines]:
    """Return the unchecked keys and values of a TOML or YAML file, and the line of each key, from 1.

    raises  OptionError: names the file, and the line where it cannot be parsed or has a key twice
    """
    suffix = Path(path).suffix.lower()
    if suffix not in {".toml", ".yaml", ".yml"}:
        raise OptionError(f"{path}: a configuration file ends in .toml, .yaml or .yml")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot be read: {error}") from error
    try:
        values, lines = read_toml(text) if suffix == ".toml" else read_yaml(text, path)
    except (
        yaml.YAMLError,
        ValueError,
        RecursionError,
    ) as error:  # ValueError: no such date or number
        raise OptionError(f"{path}: {error}") from error
    if values is None:
        return {}, {}
    if not isinstance(values, dict):
        raise OptionError(f"{path}: holds no keys and values at its top")
    return values, lines


def line_of(lines: Lines, path: str) -> int:
    """Return the line of a key, or of the nearest enclosing key that has a line; 0 if none has."""
    while path and path not in lines:
        path = path[: max(path.rfind("."), path.rfind("["))] if "." in path or "[" in path else ""
    return lines.get(path, 0)


# ---- YAML


def read_yaml(text: str, path: str) -> tuple[object, Lines]:
    """Return values and lines of a YAML document.

    Raises OptionError for a key that is there twice, and yaml.YAMLError for text that is no YAML.
    """
    loader = yaml.SafeLoader(text)
    try:
        node = loader.get_single_node()
        lines: Lines = {}
        if node is None:
            return None, lines
        note_lines(node, "", lines, path, 0)
        return loader.construct_document(node), lines
    finally:
        loader.dispose()


def note_lines(node: yaml.Node, at: str, lines: Lines, path: str, depth: int) -> None:
    """Note the line of every key below a node, and refuse those that are there twice."""
    if depth > NESTING_MAX:
        raise OptionError(f"{path}:{node.start_mark.line + 1}: {at}: nests more than {NESTING_MAX} deep")
    if isinstance(node, yaml.SequenceNode):
        for place, each in enumerate(node.value):
            lines[f"{at}[{place}]"] = each.start_mark.line + 1
            note_lines(each, f"{at}[{place}]", lines, path, depth + 1)
    elif isinstance(node, yaml.MappingNode):
        seen: set[str] = set()
        for key, value in node.value:
            name = str(key.value)
            below = f"{at}.{name}" if at else name
            line = key.start_mark.line + 1
            if name in seen:
                raise OptionError(f"{path}:{line}: {below}: is there twice, before in line {lines[below]}")
            seen.add(name)
            lines[below] = line
            note_lines(value, below, lines, path, depth + 1)


# ---- TOML


def read_toml(text: str) -> tuple[Values, Lines]:
    """Return values and lines of a TOML document. Raises tomllib.TOMLDecodeError for text that is no TOML."""
    text = text.replace("\r\n", "\n")  # as tomllib does
    values = tomllib.loads(text)
    return values, TomlLines(text).find()


class TomlLines:
    """A finder of each key's line in valid TOML, as tomllib does not tell lines."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: Lines = {}
        self.counts: dict[str, int] = {}  # tables of an array so far

    def find(self) -> Lines:
        """Return the line of every key in the text."""
        table = ""
        while self.skip(" \t\n"):
            if self.text[self.at] == "[":
                table = self.header()
            else:
                self.pair(table)
        return self.lines

    def header(self) -> str:
        """Read a header, `[a.b]` or `[[a.b]]`, and return the path of the table that it begins."""
        line = self.line()
        is_array = self.text.startswith("[[", self.at)
        self.at += 2 if is_array else 1
        names = self.key()
        self.at += 2 if is_array else 1
        path = ""
        for place, name in enumerate(names):
            path = f"{path}.{name}" if path else name
            self.lines.setdefault(path, line)
            is_last = place == len(names) - 1
            if is_array and is_last:
                self.counts[path] = self.counts.get(path, -1) + 1
            if path in self.counts:
                path = f"{path}[{self.counts[path]}]"
        self.lines[path] = line
        return path

    def pair(self, table: str) -> None:
        """Read a pair, `key = value`, and note the line of its key."""
        line = self.line()
        path = table
        for name in self.key():
            path = f"{path}.{name}" if path else name
            self.lines.setdefault(path, line)
        self.skip(" \t")
        self.at += 1  # =
        self.value(path)

    def key(self) -> list[str]:
        """Read a dotted key, and return its names. The TOML parser has accepted the text before."""
        names: list[str] = []
        while True:
            self.skip(" \t")
            quote = self.text[self.at]
            if quote in "\"'":
                start = self.at
                self.string()
                names.append(next(iter(tomllib.loads(f"{self.text[start : self.at]} = 0"))))
            else:
                start = self.at
                while self.at < len(self.text) and (self.text[self.at].isalnum() or self.text[self.at] in "-_"):
                    self.at += 1
                names.append(self.text[start : self.at])
            self.skip(" \t")
            if self.text[self.at : self.at + 1] != ".":
                return names
            self.at += 1

    def value(self, path: str) -> None:
        """Read a value of any kind, and note the keys in its arrays and tables."""
        self.skip(" \t\n")
        first = self.text[self.at]
        if first in "\"'":
            self.string()
        elif first in OPEN:
            self.at += 1
            place = 0
            while self.skip(" \t\n,") and self.text[self.at] not in CLOSE:
                if first == "{":
                    self.pair(path)
                else:
                    self.lines[f"{path}[{place}]"] = self.line()
                    self.value(f"{path}[{place}]")
                    place += 1
            self.at += 1
        else:
            while self.at < len(self.text) and self.text[self.at] not in ",]}\n#":
                self.at += 1

    def string(self) -> None:
        """Skip a string of any of the four kinds."""
        quote = self.text[self.at]
        if self.text.startswith(quote * 3, self.at):
            end = quote * 3
            self.at += 3
        else:
            end = quote
            self.at += 1
        while not self.text.startswith(end, self.at):
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += len(end)
        while len(end) == len('"""') and self.text[self.at : self.at + 1] == quote:
            self.at += 1  # one or two quotes may stand before the closing ones

    def skip(self, blanks: str) -> bool:
        """Skip blanks and comments, and return whether more text follows."""
        while self.at < len(self.text):
            if self.text[self.at] == "#" and "\n" in blanks:
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text[self.at] in blanks:
                self.at += 1
            else:
                return True
        return False

    def line(self) -> int:
        return self.text.count("\n", 0, self.at) + 1
