"""The pages name every argument of queues and every key of policies, and no others."""

from __future__ import annotations

import re
from pathlib import Path

from forebay.queue.declaration.arguments import NO_QUEUE, NOBODY, OPERATOR, SETTINGS

DOCS = Path(__file__).parent.parent.parent / "docs" / "reference"
NAMES = re.compile(r"`([a-z-]+)`")


def rows(page: str, heading: str) -> list[list[str]]:
    """Cells of the first table under a heading, without its head."""
    text = (DOCS / page).read_text(encoding="utf-8").split(f"\n## {heading}\n")[1]
    lines = [line for line in text.split("\n## ")[0].splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]


def test_the_page_on_queues_lists_all_arguments() -> None:
    listed = {name for row in rows("queues.md", "Arguments") for name in NAMES.findall(row[0])}
    assert listed == {"x-queue-type"} | {setting.argument for setting in SETTINGS if setting.types != NO_QUEUE}


def test_the_page_on_policies_lists_all_keys_and_says_which_are_operators() -> None:
    listed = {
        name: "operator policies" in row[1] for row in rows("policies.md", "Keys") for name in NAMES.findall(row[0])
    }
    assert listed == {setting.key: setting.policy == OPERATOR for setting in SETTINGS if setting.policy != NOBODY}
