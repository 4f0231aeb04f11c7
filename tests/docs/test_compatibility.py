"""The page on RabbitMQ names tests that are there, and all that run beside one."""

from __future__ import annotations

import ast
import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "reference" / "rabbitmq-compatibility.md"
VERDICTS = {"same", "better", "differs"}


def rows() -> list[list[str]]:
    """The cells of each feature."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [row for row in cells if row[0] != "feature"]


def functions(path: Path) -> set[str]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_each_feature_has_a_verdict_and_tests_that_are_there() -> None:
    wrong = []
    for feature, verdict, _, named in rows():
        tests = re.findall(r"`([^`]+)`", named)
        if verdict not in VERDICTS or not tests:
            wrong.append(f"{feature}: {verdict}, {named}")
        for test in tests:
            path, _, name = test.partition("::")
            if not (TESTS / path).is_file() or (name and name not in functions(TESTS / path)):
                wrong.append(f"{feature}: there is no {test}")
    assert not wrong, "\n".join(wrong)


def test_all_that_runs_beside_a_rabbitmq_is_named() -> None:
    named = set(re.findall(r"`peers/(test_\w+\.py)::", PAGE.read_text(encoding="utf-8")))
    assert named == {path.name for path in (TESTS / "peers").glob("test_*.py")}
