"""Pages made from the code say what the code says."""

from __future__ import annotations

import pytest

from tests.conformance.mqtt.statements import statement
from tools.generate_docs import DOCS, PAGES
from tools.mqtt_conformance import STATEMENTS, V5, V311, marked_tests, without_reason


@pytest.mark.parametrize("name", PAGES)
def test_page_is_as_generated(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name](), "run `make docs`"


def test_every_statement_that_binds_the_server_has_a_test_or_a_reason() -> None:
    assert without_reason() == []


def test_statements_of_the_decorators_are_the_standards() -> None:
    assert [key for key in marked_tests() if key[1] not in STATEMENTS[key[0]]] == []
    assert (len(STATEMENTS[V311]), len(STATEMENTS[V5])) == (141, 251)
    with pytest.raises(ValueError, match=r"MQTT 5\.0 has no statement MQTT-9\.9\.9-9"):
        statement("MQTT-1.5.4-1", "MQTT-9.9.9-9")
