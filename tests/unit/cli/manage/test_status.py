"""What `forebay status` says in a line."""

from __future__ import annotations

from forebay.cli.manage.status import clients

QUIET = {
    "connections": 2,
    "connections_max": 10_000,
    "consumers": 0,
    "sessions": 1,
    "slowed_publishers": 0,
    "slow_readers": 0,
    "messages_lost": 0,
    "sessions_over_quota": 0,
}


def test_one_of_something_is_singular() -> None:
    assert clients(QUIET) == "2 of 10,000 connections, 0 consumers, 1 MQTT session"
    slow = {"consumers": 1, "slowed_publishers": 1, "slow_readers": 2, "messages_lost": 1}
    said = "2 of 10,000 connections, 1 consumer, 1 MQTT session, 1 slowed publisher, 2 slow readers"
    assert clients({**QUIET, **slow}) == f"{said}; slow MQTT clients lost 1 message"
