"""Warnings for the operator: MQTT clients that lost messages or reached their quota, views that keep a log alone."""

from __future__ import annotations

from typing import Final

from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.vhosts import Vhosts
from forebay.management.held_logs import HeldLogs
from forebay.node.telemetry.journal import Journal
from forebay.routing.exchange import text

INTERVAL_US: Final = 10_000_000  # between two warnings about one client


def tell_losses(vhosts: Vhosts, journal: Journal, now_us: int) -> None:
    """Warn of each client that has lost messages since the last warning about it."""
    for vhost in vhosts.all():
        losers = vhost.fanout.losers
        for client in list(losers):
            if client.told and not client.ended and now_us - client.told_us < INTERVAL_US:
                continue
            del losers[client]
            messages, in_all = note_told(client, now_us)
            if messages:
                name = text(client.client_id)
                words = "MQTT client '%s' does not keep up or is away: it has lost %d messages (%d in all), %d wait"
                journal.warning(words, name, messages, in_all, client.mqueue.count)
                fields: dict[str, object] = {"client_id": client.client_id, "messages": messages, "in_all": in_all}
                vhosts.events.note("client.messages_lost", vhost.name, fields)


def tell_quotas(vhosts: Vhosts, journal: Journal) -> None:
    """Warn of each session that has gone over its disk quota, once each time it does."""
    for vhost in vhosts.all():
        quota = vhost.sessions.quota
        for client in list(quota.crossed):
            octets = quota.over[client]
            name = text(client.client_id)
            words = (
                "MQTT client '%s': %d octets wait for it, mqtt_session_octets_max is %d; publishers to it are held back"
            )
            journal.warning(words, name, octets, quota.octets_max)
            fields: dict[str, object] = {"client_id": client.client_id, "octets": octets}
            vhosts.events.note("client.quota_reached", vhost.name, fields)
        quota.crossed.clear()


def tell_held_logs(held_logs: HeldLogs, journal: Journal, now_us: int) -> None:
    """Warn of each view that alone keeps records of a stream, as `held_logs` newly reports it."""
    for held in held_logs.look(now_us):
        words = "stream '%s': view '%s' alone keeps %d messages, %d octets; consume from it, purge it, or delete it"
        journal.warning(words, held.stream, text(held.view.name), held.messages, held.octets)


def sessions_over_quota(vhosts: Vhosts) -> int:
    """Return the number of sessions that have more waiting on the disk than their quota."""
    return sum(len(vhost.sessions.quota.over) for vhost in vhosts.all())


def note_told(client: ClientSession, now_us: int) -> tuple[int, int]:
    """Return the messages a client has lost since the last report and in all, and record this report."""
    lost = int(client.lost())
    messages = lost - int(client.told)
    client.told = lost
    client.told_us = now_us
    return messages, lost


def messages_lost(vhosts: Vhosts) -> int:
    """Return the number of messages that MQTT clients have lost since the start."""
    lost = 0
    for vhost in vhosts.all():
        lost += int(vhost.sessions.dropped + vhost.fanout.dropped)
        lost += sum(int(client.mqueue.dropped) for client in vhost.sessions.by_number.values())
    return lost
