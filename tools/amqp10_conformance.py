"""The statements of AMQP 1.0 that bind a broker, the tests that show them, and docs/reference/amqp10-conformance.md."""

from __future__ import annotations

import ast
import functools
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDER = "tests/conformance/amqp10"
STATEMENTS_FILE = ROOT / FOLDER / "statements.toml"
SEPARATOR = "::"
INTRODUCTION = """\
The standard, OASIS AMQP 1.0, does not number its requirements. Here are those that bind a broker, in short and in the
standard's order, with the section that each is from and the tests that show that the broker keeps it: each speaks to a
broker octet by octet, with a codec of its own. Where there is no test, the reason stands in its place. The last ones
are those of the binding to WebSocket.

Suites of others were run by hand, with python-qpid-proton 0.40 and rhea 3.0.5. Qpid Proton 0.40's examples for
Python: 17 of 17. qpid-interop-test 2.0.0: types, 88 of 88, of which it knows 6 to lose digits in JavaScript; large
content up to 10 MB, with frames of 4 KiB to 1 MiB, 128 of 128; headers, 40 of 44: the others expect that a delivery
which is the first is not called so (`first-acquirer`) if its publisher did not. Its JMS tests need Java, and were not
run.
"""


@dataclass(frozen=True)
class BrokerStatement:
    """A requirement of the standard.

    tests   `module.py::name`, the name without `test_`
    reason  why no test shows it; "" if one does
    """

    id: str
    text: str
    tests: list[str] = field(default_factory=list)
    reason: str = ""


@functools.cache
def statements() -> list[BrokerStatement]:
    """Return every statement, in the standard's order."""
    table = tomllib.loads(STATEMENTS_FILE.read_text(encoding="utf-8"))
    return [BrokerStatement(id, **fields) for id, fields in table.items()]


@functools.cache
def tests_of(module: str) -> set[str]:
    """Return the names of the tests of a module, without `test_`."""
    path = ROOT / FOLDER / module
    if not path.is_file():
        return set()
    functions = [node for node in ast.parse(path.read_text(encoding="utf-8")).body if isinstance(node, ast.FunctionDef)]
    return {each.name.removeprefix("test_") for each in functions if each.name.startswith("test_")}


def faults() -> list[str]:
    """Return what is wrong with the list: tests that are not there, statements without a test or a reason."""
    found = []
    for each in statements():
        if bool(each.tests) == bool(each.reason):
            found.append(f"{each.id}: either tests or a reason why there is none")
        for test in each.tests:
            module, _, name = test.partition(SEPARATOR)
            if name not in tests_of(module):
                found.append(f"{each.id}: no test {test}")
    return found


def amqp10_conformance_page(head: str) -> str:
    """Return docs/reference/amqp10-conformance.md, which begins with `head`."""
    shown = sum(bool(each.tests) for each in statements())
    rows = [f"| {each.id} | {each.text} | {shown_by(each)} |" for each in statements()]
    count = f"{len(statements())} statements, {shown} of them with a test.\n"
    table = "\n".join(["| statement | says | shown by |", "|---|---|---|", *rows]) + "\n"
    return f"{head}\n# Conformance to AMQP 1.0\n\n{INTRODUCTION}\n{count}\n{table}"


def shown_by(statement: BrokerStatement) -> str:
    """Return the links to the tests of a statement, or the reason why it has none."""
    links = []
    for test in statement.tests:
        module, _, name = test.partition(SEPARATOR)
        links.append(f"[{name}](../../{FOLDER}/{module})")
    return "<br>".join(links) or statement.reason
