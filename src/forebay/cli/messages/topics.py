"""The meaning of MQTT topics given with `--topic` to `forebay publish` and `forebay consume`, in AMQP's terms."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

from forebay.client.messaging import SWAPPED, TOPIC_EXCHANGE
from forebay.core.errors import OptionError
from forebay.core.message import Properties

QUEUE: Final = "$queue/"
DEAD_LETTERS: Final = "$dlq/"
DELAYED: Final = "$delayed/"
CANCEL: Final = "$delayed/$cancel"
SHARE: Final = "$share/"
SETTLING: Final = ("$ack", "$nack", "$reject")
ABSOLUTE_MIN: Final = 42_949_670  # smaller values are seconds from now, others since 1970, as in the broker
SECONDS_MAX: Final = 253_402_300_799  # the end of the year 9999
DELAY_MS_MAX: Final = 100 * 366 * 86_400_000


@dataclass
class Destination:
    """The destination of published messages.

    delay_s   delay before the messages are delivered
    until_s   time before which they are not delivered, in seconds since 1970; 0 for none
    cancels   whether each message cancels the delayed messages with its `delay-id`, and is not delivered
    """

    exchange: str
    key: str
    delay_s: int = 0
    until_s: int = 0
    cancels: bool = False


def place_of(topic: str) -> Destination:
    """Return the destination of a topic, as an MQTT client would publish to it. Raises OptionError if it is invalid."""
    if topic == CANCEL:
        return Destination("", "", cancels=True)
    if topic.startswith(DELAYED):
        return delayed_place(topic)
    if topic.startswith(QUEUE):
        if not topic[len(QUEUE) :].partition("/")[0]:
            raise OptionError(f"--topic: {topic!r} names no queue")
        if topic.rpartition("/")[2] in SETTLING:
            raise OptionError(f"--topic: {topic!r} is for the connection that holds the message")
        return Destination("", topic)
    if topic.startswith((SHARE, DEAD_LETTERS)):
        raise OptionError(f"--topic: {topic!r} is none that messages are published to")
    return Destination(TOPIC_EXCHANGE, topic.translate(SWAPPED))


def delayed_place(topic: str) -> Destination:
    """Return the destination of `$delayed/<n>/<topic>`. Raises OptionError if delay or topic is invalid."""
    digits, _, target = topic[len(DELAYED) :].partition("/")
    if not (digits.isascii() and digits.isdigit()) or int(digits) > SECONDS_MAX:
        raise OptionError(f"--topic: {topic!r}: {digits!r} is no number of seconds from 0 to {SECONDS_MAX}")
    if not target or target.startswith((DELAYED, "$SYS/")) or target.rpartition("/")[2] in ("$commit", "$extend"):
        raise OptionError(f"--topic: {topic!r}: {target!r} cannot be published to with a delay")
    place = place_of(target)
    seconds = int(digits)
    if seconds < ABSOLUTE_MIN:
        place.delay_s = seconds
    else:
        place.until_s = seconds
    return place


def heed_delay(place: Destination, properties: Properties) -> None:
    """Add the delay headers that a destination needs. Raises OptionError if a cancellation lacks its `delay-id`."""
    names = [str(value) for name, value in properties.headers if name == "delay-id"]
    if place.cancels:
        if not names:
            raise OptionError("--topic: $delayed/$cancel needs --header delay-id=NAME")
        place.key = f"$delayed/cancel/{names[-1]}"
        return
    wait_s = place.until_s - time.time() if place.until_s else place.delay_s
    if wait_s > 0:
        properties.headers.append(("x-delay", min(int(wait_s * 1000), DELAY_MS_MAX)))
        properties.headers += [("x-delay-id", name) for name in names[-1:]]


def consumed_address(topic: str) -> str | None:
    """Return the queue address that a topic filter stands for. Returns None for a filter of topics.

    Raises OptionError for a filter that only MQTT clients can subscribe to.
    """
    if topic.startswith((QUEUE, DEAD_LETTERS)):
        return topic
    if topic.startswith((SHARE, DELAYED)):
        raise OptionError(f"--topic: {topic!r}: only clients of MQTT can subscribe to it")
    return None
