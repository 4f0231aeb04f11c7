"""Pages made from the code say what the code says."""

from __future__ import annotations

import pytest

from tools.generate_docs import DOCS, PAGES


@pytest.mark.parametrize("name", PAGES)
def test_page_is_as_generated(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"
