"""Pages that start Spark may take longer: on a busy machine a session alone takes half a minute."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.jvm import prepare_jvms, share_classes

SPARK_S_MAX = 400

prepare_jvms()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Find the pages by what is in them."""
    for item in items:
        if starts_spark(item):
            item.add_marker(pytest.mark.timeout(SPARK_S_MAX))


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Before any fixture: a page may start a JVM."""
    if starts_spark(item):
        share_classes()


def starts_spark(item: pytest.Item) -> bool:
    """Whether a test is of a page that may."""
    call = getattr(item, "callspec", None)
    page = call.params.get("page") if call is not None and item.path.parent == Path(__file__).parent else None
    return isinstance(page, Path) and "spark" in page.read_text(encoding="utf-8")
