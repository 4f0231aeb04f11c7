"""What leads messages into an exchange takes leave to publish there, under the key that they will have."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.broker.catalog.declare_rights import check_bind_exchange, check_declare_exchange, check_declare_queue
from forebay.broker.vhost import Vhost
from forebay.core.errors import REFUSED, RequestError
from forebay.directory.permissions import Grants, Permission, Rights, TopicPermission
from tests.vhosts import OneVhost


@pytest.fixture
def vhost(tmp_path: Path) -> Vhost:
    return OneVhost(tmp_path / "data").vhost


def held(**topics: str) -> Rights:
    """Somebody who may do everything, and on these exchanges write and read only such topics."""
    given = {name.replace("_", ".").encode(): TopicPermission(each, each) for name, each in topics.items()}
    return Rights("ada", b"/", Grants(Permission(".*", ".*", ".*"), given))


def allowed(check: Callable[[], None]) -> bool:
    try:
        check()
    except RequestError as error:
        assert error.reason == REFUSED  # noqa: PT017
        return False
    return True


@pytest.mark.parametrize("argument", [7, None, b"octets"])
def test_an_argument_that_is_no_name_needs_no_right(vhost: Vhost, argument: object) -> None:
    rights = Rights("ada", b"/", Grants(Permission("^c", "", ""), {}))
    check_declare_queue(vhost.catalog, rights, b"c", {"x-dead-letter-exchange": argument})
    check_declare_exchange(vhost.catalog, rights, b"c", {"alternate-exchange": argument})


@pytest.mark.parametrize(
    ("exchange", "key", "may"),
    [
        ("amq.topic", "open.1", True),
        ("amq.topic", "secret", False),
        ("amq.topic", None, False),
        ("amq.direct", None, True),
        ("later", "open.1", True),
        ("later", None, False),
    ],
)
def test_dead_letters_go_where_their_queue_is_declared_by_who_may_publish_there(
    vhost: Vhost, exchange: str, key: str | None, may: bool
) -> None:
    rights = held(amq_topic="^open", later="^open", amq_direct="^open")
    arguments: dict[str, object] = {"x-dead-letter-exchange": exchange}
    if key is not None:
        arguments["x-dead-letter-routing-key"] = key
    assert allowed(lambda: check_declare_queue(vhost.catalog, rights, b"q", arguments)) is may


@pytest.mark.parametrize(("pattern", "may"), [("^open", False), (".*", True)])
def test_what_an_exchange_routes_nowhere_may_have_any_key(vhost: Vhost, pattern: str, may: bool) -> None:
    arguments: dict[str, object] = {"alternate-exchange": "amq.topic"}
    rights = held(amq_topic=pattern)
    assert allowed(lambda: check_declare_exchange(vhost.catalog, rights, b"x", arguments)) is may


@pytest.mark.parametrize(
    ("source", "key", "may"),
    [
        (b"amq.direct", b"open.1", True),
        (b"amq.direct", b"secret", False),
        (b"amq.fanout", b"open.1", False),
        (b"amq.headers", b"open.1", False),
        (b"amq.topic", b"open.1", True),
    ],
)
def test_through_a_binding_come_the_keys_that_it_says(vhost: Vhost, source: bytes, key: bytes, may: bool) -> None:
    vhost.catalog.declare_exchange(b"x", b"topic", False, False, False, {})
    rights = held(x="^open")
    assert allowed(lambda: check_bind_exchange(vhost.catalog, rights, b"x", source, key)) is may


def test_what_comes_from_topics_must_be_let_be_read(vhost: Vhost) -> None:
    rights = held(amq_topic="^open")
    check_bind_exchange(vhost.catalog, rights, b"amq.fanout", b"amq.topic", b"open.1")
    with pytest.raises(RequestError, match="read access to topic 'secret'"):
        check_bind_exchange(vhost.catalog, rights, b"amq.fanout", b"amq.topic", b"secret")
