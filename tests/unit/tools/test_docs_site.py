"""The site of the docs: where links of the repository lead in it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tools.docs_site import link_in_site, on_page_markdown


@pytest.mark.parametrize(
    ("page", "target", "link"),
    [
        pytest.param("index.md", "reference/queues.md", "reference/queues.md", id="within docs"),
        pytest.param("how-to/install.md", "../reference/spark.md", "../reference/spark.md", id="another group"),
        pytest.param("how-to/install.md", "../../CHANGELOG.md", "../CHANGELOG.md", id="a page of the repository"),
        pytest.param("CHANGELOG.md", "docs/reference/queues.md", "reference/queues.md", id="from there"),
        pytest.param("bench/README.md", "../docs/index.md", "../index.md", id="from a folder there"),
        pytest.param("reference/mqtt-conformance.md", "../../tests/conformance/x.py", None, id="a source"),
    ],
)
def test_links_lead_to_where_a_page_is_in_the_site(page: str, target: str, link: str | None) -> None:
    assert link_in_site(page, target) == link


def test_a_page_has_no_words_for_tests_and_no_links_out_of_the_site() -> None:
    page = cast(Any, SimpleNamespace(file=SimpleNamespace(src_uri="how-to/install.md")))
    text = "[a](../../setup.py) [b](../../CHANGELOG.md#x)\n```bash test broker\n[c](../../setup.py)\n```\n[d](#d)\n"
    assert on_page_markdown(text, page) == "a [b](../CHANGELOG.md#x)\n```bash\n[c](../../setup.py)\n```\n[d](#d)\n"
