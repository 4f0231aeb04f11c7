"""Addresses of the default exchange that are the broker's own."""

from __future__ import annotations

import pytest

from forebay.broker.publish.commands import (
    CANCEL_DELAYED,
    COMMIT_OFFSET,
    EXTEND_LEASE,
    MESSAGE,
    REPLY,
    command_at,
)


@pytest.mark.parametrize(
    ("key", "command", "subject"),
    [
        (b"$queue/q/$commit", COMMIT_OFFSET, b"q"),
        (b"$queue/q/$extend", EXTEND_LEASE, b"q"),
        (b"$delayed/cancel/a/b", CANCEL_DELAYED, b"a/b"),
        (b"amq.rabbitmq.reply-to.g1.x", REPLY, b"amq.rabbitmq.reply-to.g1.x"),
        (b"amq.rabbitmq.reply-to", MESSAGE, b""),
        (b"$queue//$commit", MESSAGE, b""),
        (b"$queue/q/a/$commit", MESSAGE, b""),
        (b"$queue/q/$commit/", MESSAGE, b""),
        (b"$queue/q/a", MESSAGE, b""),
        (b"$delayed/5/a", MESSAGE, b""),
        (b"q", MESSAGE, b""),
        (b"", MESSAGE, b""),
    ],
)
def test_commands(key: bytes, command: int, subject: bytes) -> None:
    assert command_at(b"", key) == (command, subject)
    assert command_at(b"amq.direct", key) == (MESSAGE, b"")
