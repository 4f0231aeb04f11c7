"""Publishes of an MQTT client to `$delayed/`: a message for later, or the end of one.

$delayed/<n>/<topic>  n < 42949670: seconds from now; else seconds since 1970-01-01 UTC
                      user property delay-id (may be absent): its name, which replaces one of that name
$delayed/$cancel      user property delay-id: the name, or the number that the broker gave the message
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.broker.publish.commands import topic_command_at
from forebay.broker.publish.delayed import Delayed
from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from forebay.core.units import US_PER_S
from forebay.message.formats.table import TOPIC_FORMAT
from forebay.routing.topic_trie import check_topic
from forebay.session.mqtt.incoming.commands import shown

DELAYED_PREFIX: Final = b"$delayed/"
CANCEL_TOPIC: Final = b"$delayed/$cancel"
DELAY_ID: Final = b"delay-id"
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

    raises  RequestError(INVALID), with the value: no number, or a topic that nothing can be published to
    """
    cut: i64 = topic.find(b"/", PREFIX_OCTETS)
    digits = topic[PREFIX_OCTETS:] if cut < 0 else topic[PREFIX_OCTETS:cut]
    if not digits.isdigit() or len(digits) > DIGITS_MAX or int(digits) > SECONDS_MAX:
        raise RequestError(INVALID, f"topic: {shown(digits)} is no number of seconds from 0 to {SECONDS_MAX}")
    target = b"" if cut < 0 else topic[cut + 1 :]
    if not target:
        raise RequestError(INVALID, f"topic: {shown(topic)} names no topic behind the delay")
    check_topic(target)
    if target.startswith(NO_TARGETS) or topic_command_at(target):
        raise RequestError(INVALID, f"topic: {shown(target)} cannot be published to with a delay")
    seconds: i64 = int(digits)
    if seconds < ABSOLUTE_MIN:
        return now_us + seconds * US_PER_S, target
    return seconds * US_PER_S, target


def delay_id(block: bytes) -> bytes:
    """The name that a publish gives its message in a checked property block; empty for none."""
    return TOPIC_FORMAT.header(block, DELAY_ID) or b""


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
