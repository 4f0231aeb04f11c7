"""Publishes of an MQTT client to `$delayed/`: a message for later, or the end of one.

$delayed/<n>/<topic>  n < 42949670: seconds from now; else seconds since 1970-01-01 UTC
                      user property delay-id (may be absent): its name, which replaces one of that name
$delayed/$cron/<topic>  user properties cron, time-zone (UTC if absent) and delay-id: at the times of the expression,
                      until it is cancelled
$delayed/$cancel      user property delay-id: the name, or the number that the broker gave the message
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64, u8

from forebay.broker.contract import VhostContract
from forebay.broker.publish.commands import topic_command_at
from forebay.broker.publish.delayed import Delayed
from forebay.broker.publish.outcome import PublishOutcome
from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from forebay.core.units import US_PER_S
from forebay.message.formats.table import TOPIC_FORMAT
from forebay.message.recurrence import next_time_us, recurrence_of
from forebay.routing.topic_trie import check_topic
from forebay.session.mqtt.incoming.commands import shown

DELAYED_PREFIX: Final = b"$delayed/"
CANCEL_TOPIC: Final = b"$delayed/$cancel"
CRON_PREFIX: Final = b"$delayed/$cron/"
DELAY_ID: Final = b"delay-id"
CRON: Final = b"cron"
CRON_ZONE: Final = b"time-zone"
CRON_NAMES: Final = ("cron", "time-zone", "delay-id")
NO_TARGETS: Final = (DELAYED_PREFIX, b"$SYS/")
PREFIX_OCTETS: Final = 9
ABSOLUTE_MIN: Final = 42_949_670  # a number below it is a delay; the border is EMQX's
SECONDS_MAX: Final = 253_402_300_799  # the end of the year 9999: beyond it somebody meant milliseconds
DIGITS_MAX: Final = 12


def delayed_at(topic: bytes) -> bool:
    """True if a publish to this topic is for `parse_delayed` or `cancel_delayed`."""
    return topic.startswith(DELAYED_PREFIX)


def parse_delayed(topic: bytes, now_us: i64) -> tuple[i64, bytes]:
    """The time at which a publish to `$delayed/<n>/<topic>` is due, in microseconds, and its topic then.

    The time is 0 for one to `$delayed/$cron/<topic>`: see `recurrence_in`.

    raises  RequestError(INVALID), with the value: no number, or a topic that nothing can be published to
    """
    if topic.startswith(CRON_PREFIX):
        target = topic[len(CRON_PREFIX) :]
        check_target(topic, target)
        return 0, target
    cut: i64 = topic.find(b"/", PREFIX_OCTETS)
    digits = topic[PREFIX_OCTETS:] if cut < 0 else topic[PREFIX_OCTETS:cut]
    if not digits.isdigit() or len(digits) > DIGITS_MAX or int(digits) > SECONDS_MAX:
        raise RequestError(INVALID, f"topic: {shown(digits)} is no number of seconds from 0 to {SECONDS_MAX}")
    target = b"" if cut < 0 else topic[cut + 1 :]
    check_target(topic, target)
    seconds: i64 = int(digits)
    if seconds < ABSOLUTE_MIN:
        return now_us + seconds * US_PER_S, target
    return seconds * US_PER_S, target


def check_target(topic: bytes, target: bytes) -> None:
    """Refuse a topic that nothing can be published to later: RequestError(INVALID)."""
    if not target:
        raise RequestError(INVALID, f"topic: {shown(topic)} names no topic behind the delay")
    check_topic(target)
    if target.startswith(NO_TARGETS) or topic_command_at(target):
        raise RequestError(INVALID, f"topic: {shown(target)} cannot be published to with a delay")


def recurrence_in(block: bytes) -> bytes:
    """Return the recurrence that a checked property block asks for; RequestError(INVALID) if it is none."""
    expression = TOPIC_FORMAT.header(block, CRON)
    try:
        return recurrence_of(expression, TOPIC_FORMAT.header(block, CRON_ZONE), delay_id(block), CRON_NAMES)
    except RequestError as error:
        raise RequestError(INVALID, error.text) from None


def delay_id(block: bytes) -> bytes:
    """The name that a publish gives its message in a checked property block; empty for none."""
    return TOPIC_FORMAT.header(block, DELAY_ID) or b""


def delay_publish(
    vhost: VhostContract, format: u8, due_us: i64, target: bytes, properties: bytes, body: bytes
) -> PublishOutcome:
    """Keep a publish until its time, or for the times at which it recurs.

    due_us  0 for one that recurs
    """
    recurrence = b""
    if due_us == 0:
        recurrence = recurrence_in(properties)
        due_us = next_time_us(recurrence, vhost.now_us())
    key = delay_id(properties)
    return vhost.messages.delay(key, due_us, format, target, properties, body, b"", recurrence)


def cancels_delayed(topic: bytes) -> bool:
    """True if a publish to this topic ends a message that waits."""
    return topic == CANCEL_TOPIC


def cancel_delayed(delayed: Delayed, block: bytes) -> None:
    """Do what a publish to `$delayed/$cancel` with this checked property block asks for.

    raises  RequestError: INVALID without a delay-id, NOT_FOUND if nothing waits under it
    """
    name = delay_id(block)
    if not name:
        raise RequestError(INVALID, "delay-id: missing")
    if not delayed.cancel(name):
        raise RequestError(NOT_FOUND, f"delay-id: no delayed message {shown(name)}")
