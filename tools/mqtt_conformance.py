"""The normative statements of MQTT, the tests that show them, and docs/reference/mqtt-conformance.md."""

from __future__ import annotations

import ast
import tomllib
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
LISTS = ROOT / "tests" / "conformance" / "mqtt"
DECORATOR = "statement"
V311, V5 = 4, 5
VERSIONS = {"V311": V311, "V5": V5}  # the names by which a decorator may say its version
TITLES = {V5: "5.0", V311: "3.1.1"}
FILES = {V5: "statements_v5.toml", V311: "statements_v311.toml"}
CLIENT, SERVER, BOTH = "client", "server", "both"
OF_THE_CLIENT = "binds the client"
INTRODUCTION = """\
OASIS numbers each requirement of the two standards. Here is every one of them in short, whom it binds, and the tests
that show that the broker keeps it: each speaks to a broker process octet by octet. Where there is no test, the reason
stands in its place. What binds both ends is tested for the server's.
"""


@dataclass(frozen=True)
class Statement:
    """A requirement of the standard; `reason` says why no test shows it, where none does."""

    id: str
    side: str
    text: str
    reason: str = ""


@dataclass(frozen=True)
class Marked:
    """A test function and the path of its module from the root."""

    name: str
    path: str


def load(version: int) -> dict[str, Statement]:
    """Every statement of a version by its number, in the standard's order."""
    table = tomllib.loads((LISTS / FILES[version]).read_text(encoding="utf-8"))
    return {id: Statement(id, **fields) for id, fields in table.items()}


STATEMENTS = {version: load(version) for version in TITLES}


def marked_tests() -> dict[tuple[int, str], list[Marked]]:
    """The tests of each (version, statement), found by their decorators without importing them."""
    found: dict[tuple[int, str], list[Marked]] = {}
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        text = path.read_text(encoding="utf-8")
        if f"@{DECORATOR}(" not in text:
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.FunctionDef):
                test = Marked(node.name, path.relative_to(ROOT).as_posix())
                for key in _decorated(node):
                    found.setdefault(key, []).append(test)
    return found


def conformance_page(head: str) -> str:
    """docs/reference/mqtt-conformance.md, which begins with `head`."""
    tests = marked_tests()
    parts = [head, "# Conformance to MQTT\n", INTRODUCTION]
    for version, title in TITLES.items():
        statements = STATEMENTS[version].values()
        shown = sum((version, each.id) in tests for each in statements)
        parts.append(f"## MQTT {title}\n")
        parts.append(f"{len(statements)} statements, {shown} of them with a test.\n")
        rows = [_row(each, tests.get((version, each.id), [])) for each in statements]
        parts.append("\n".join(["| statement | binds | says | shown by |", "|---|---|---|---|", *rows]) + "\n")
    return "\n".join(parts)


def without_reason() -> list[str]:
    """Statements that bind the server and have neither a test nor a reason, or both."""
    tests = marked_tests()
    wrong = []
    for version, statements in STATEMENTS.items():
        for each in statements.values():
            shown = (version, each.id) in tests
            if each.side != CLIENT and not shown and not each.reason:
                wrong.append(f"{TITLES[version]} {each.id}: no test and no reason")
            if shown and each.reason:
                wrong.append(f"{TITLES[version]} {each.id}: a test, and a reason why there is none")
    return wrong


def _decorated(node: ast.FunctionDef) -> list[tuple[int, str]]:
    keys: list[tuple[int, str]] = []
    for each in node.decorator_list:
        if isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == DECORATOR:
            version = V5
            for keyword in each.keywords:
                assert isinstance(keyword.value, ast.Name), f"{node.name}: the version must be V311 or V5"
                version = VERSIONS[keyword.value.id]
            for id in each.args:
                assert isinstance(id, ast.Constant), f"{node.name}: statements must be literals"
                keys.append((version, str(id.value)))
    return keys


def _row(statement: Statement, tests: list[Marked]) -> str:
    links = [f"[{test.name.removeprefix('test_')}](../../{test.path})" for test in tests]
    shown = "<br>".join(links) or statement.reason or (OF_THE_CLIENT if statement.side == CLIENT else "")
    return f"| {statement.id} | {statement.side} | {statement.text.replace('|', chr(92) + '|')} | {shown} |"
