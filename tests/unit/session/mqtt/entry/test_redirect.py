"""Where a client is sent instead of being served."""

from __future__ import annotations

import pytest

from forebay.core.options import make_options
from forebay.session.mqtt.entry.redirect import redirect_answer


def test_clients_are_served_where_no_other_server_is_named() -> None:
    assert redirect_answer(make_options({})) is None
    assert redirect_answer(make_options({"mqtt_redirect_code": "moved"})) is None


@pytest.mark.parametrize(("values", "code"), [({}, 0x9C), ({"mqtt_redirect_code": "moved"}, 0x9D)])
@pytest.mark.parametrize("server", ["broker.example:1883", "[2001:db8::1]:8883"])
def test_another_server_and_for_how_long(values: dict[str, object], code: int, server: str) -> None:
    reference = server.encode()
    block = b"\x1c" + len(reference).to_bytes(2, "big") + reference
    assert redirect_answer(make_options({"mqtt_redirect": server, **values})) == (code, block)
