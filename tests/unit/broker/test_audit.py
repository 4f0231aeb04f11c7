"""The audit log has every change, and nothing that nobody may read there."""

from __future__ import annotations

import pytest

from forebay.broker.audit import ENTRIES_MAX, LOST, MASK, TEXT_CHARACTERS_MAX, Audit, Origin, masked, without_passwords
from forebay.directory.logins.authorizer import Principal

PASSWORD = "hunter2"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("amqp://ada:hunter2@host:5672/v", "amqp://ada:***@host:5672/v"),
        ("amqp://:hunter2@host", "amqp://:***@host"),
        ("amqp://ada:hunter2/a@b@host", "amqp://ada:***@host"),
        ("amqp://ada:hunter2?x=1@host", "amqp://ada:***@host"),
        ("src-uri: 'amqps://ada:hunter2@host' is no address", "src-uri: 'amqps://ada:***@host' is no address"),
        ("one amqp://a:hunter2@h and two amqp://b:hunter2@h", "one amqp://a:***@h and two amqp://b:***@h"),
        ("https://host/hook?token=hunter2&x=1", "https://host/hook?token=***&x=1"),
        ("https://host/hook?x=1&client_secret=hunter2", "https://host/hook?x=1&client_secret=***"),
        ("amqp://host:5672/v", "amqp://host:5672/v"),
        ("amqp://host", "amqp://host"),
        ("mail to ada@example.com: now", "mail to ada@example.com: now"),
        ("a:b@c", "a:b@c"),
        ("", ""),
    ],
)
def test_addresses_lose_their_passwords(text: str, shown: str) -> None:
    assert without_passwords(text) == shown


def test_a_password_that_is_cut_is_not_shown_up_to_there() -> None:
    for length in range(TEXT_CHARACTERS_MAX - 30, TEXT_CHARACTERS_MAX + 10):
        text = "x" * (length - 20) + " amqp://ada:hunter2hunter2@host/" + "y" * 100
        shown = without_passwords(text)
        assert len(shown) <= TEXT_CHARACTERS_MAX
        assert PASSWORD not in shown


def test_they_are_masked_wherever_they_stand() -> None:
    uri = f"amqp://ada:{PASSWORD}@host"
    value = {
        "src-uri": [uri, uri],
        "deep": {"er": (uri.encode(), {"list": [uri]})},
        "password": PASSWORD,
        "X-Token": PASSWORD,
        "empty-password": "",
        "number": 7,
    }
    shown = masked(value)
    assert PASSWORD not in repr(shown)
    assert isinstance(shown, dict)
    assert (shown["src-uri"], shown["password"], shown["empty-password"]) == (
        [f"amqp://ada:{MASK}@host"] * 2,
        MASK,
        "",
    )


def test_nor_does_what_came_of_it_show_them() -> None:
    audit = Audit()
    origin = Origin(Principal("ada"), "192.0.2.1", "http")
    audit.note(origin, "PUT /api/parameters", {"uri": "x"}, f"uri: 'amqp://ada:{PASSWORD}@host' cannot be")
    assert audit.take()[0].result == f"uri: 'amqp://ada:{MASK}@host' cannot be"


def test_a_text_made_to_be_slow_is_not() -> None:
    for text in ("://:" * 2000, "@" * 8000, "?" * 8000, "?" + "a" * 8000, "://" + "?token" * 2000):
        for _ in range(100):
            without_passwords(text)


def test_changes_that_are_too_many_for_one_turn_are_counted_in_an_entry() -> None:
    audit = Audit()
    origin = Origin(Principal("ada"), "127.0.0.1:1", "http")
    for _ in range(ENTRIES_MAX + 3):
        audit.note(origin, "queue.delete", {})
    entries = audit.take()
    assert len(entries) == ENTRIES_MAX + 1
    assert (entries[-1].what, entries[-1].arguments) == (LOST, {"entries": 3})
    audit.note(origin, "queue.delete", {})
    assert [each.what for each in audit.take()] == ["queue.delete"]
