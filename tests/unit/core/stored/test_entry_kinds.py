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
    numbered = re.compile(r"^[A-Z_]+(: \w+)? = \d+ .*(kind of entry|kinds of entries)", re.MULTILINE)
    found = [
        str(path)
        for path in SOURCE.rglob("*.py")
        if path.name != "entry_kinds.py" and numbered.search(path.read_text())
    ]
    assert not found
