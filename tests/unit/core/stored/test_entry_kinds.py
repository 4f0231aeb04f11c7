"""Kinds of entries of the write-ahead log have one number each, and one place."""

from __future__ import annotations

import re
from pathlib import Path

import forebay
from forebay.core.stored import entry_kinds

SOURCE = Path(forebay.__file__).parent
KINDS = {name: value for name, value in vars(entry_kinds).items() if name.isupper()}


def test_no_two_kinds_have_one_number() -> None:
    assert sorted(KINDS.values()) == list(range(1, len(KINDS) + 1))


def test_no_other_module_numbers_a_kind() -> None:
    numbered = re.compile(rf"^({'|'.join(KINDS)})(: \w+)? = \d+", re.MULTILINE)
    logged = [path for room in ("log", "broker/catalog", "directory", "node") for path in (SOURCE / room).rglob("*.py")]
    assert not [str(path) for path in logged if numbered.search(path.read_text())]
