"""Start and end of a read for each queue, parsed from the words, numbers, times and JSON of Spark's Kafka source."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from forebay.core.errors import OptionError

EARLIEST: Final = -2
LATEST: Final = -1

SUBSCRIBE: Final = "subscribe"
STARTING_OFFSETS: Final = "startingOffsets"
ENDING_OFFSETS: Final = "endingOffsets"
STARTING_TIMESTAMP: Final = "startingTimestamp"
ENDING_TIMESTAMP: Final = "endingTimestamp"
STARTING_BY_TIMESTAMP: Final = "startingOffsetsByTimestamp"
ENDING_BY_TIMESTAMP: Final = "endingOffsetsByTimestamp"

OFFSET_MAX: Final = (1 << 63) - 1
MILLISECONDS_MAX: Final = OFFSET_MAX // 1000


@dataclass(frozen=True, slots=True)
class Position:
    """Start or end of a read of one queue: EARLIEST, LATEST, an offset, or a time in microseconds.

    option  the option that gave the position, for messages
    """

    option: str
    offset: int = EARLIEST
    timestamp_us: int | None = None


@dataclass(frozen=True, slots=True)
class Positions:
    """A position for each queue.

    option    the option that gave the positions, for messages
    each      the position of queues that are not in `by_queue`; None if each queue must be named
    """

    option: str
    each: Position | None
    by_queue: dict[str, Position] = field(default_factory=dict)

    def of(self, queue: str) -> Position:
        """Return the position of one queue. Raises OptionError if there is none."""
        position = self.by_queue.get(queue, self.each)
        if position is None:
            raise OptionError(f"{self.option}: nothing for {queue}; name every queue that is read")
        return position

    def all(self) -> list[tuple[str, Position]]:
        """Return every position with its queue; the name is "" for the position of all queues not named."""
        return [*self.by_queue.items(), *([("", self.each)] if self.each is not None else [])]


def subscription_of(queues: Sequence[str]) -> str:
    """Return the value of the option `subscribe` that names exactly these queues."""
    is_plain = all(name == name.strip() and "," not in name and not name.startswith("[") for name in queues)
    return ",".join(queues) if is_plain else json.dumps(list(queues), ensure_ascii=False)


def starting_positions(values: Mapping[str, str], queues: tuple[str, ...]) -> Positions | None:
    """Return where a read starts in each queue, or None if no option gives a start.

    As in Spark's Kafka source the most specific option wins: one time, times by queue, then offsets.

    queues  the queues that JSON must name; empty if the queues are found by a pattern
    """
    found = _by_time(values, queues, STARTING_TIMESTAMP, STARTING_BY_TIMESTAMP)
    if found is not None or STARTING_OFFSETS not in values:
        return found
    return _offsets(values[STARTING_OFFSETS], queues, STARTING_OFFSETS)


def ending_positions(values: Mapping[str, str], queues: tuple[str, ...]) -> Positions | None:
    """Return where a read ends in each queue, or None if no option gives an end.

    queues  the queues that JSON must name; empty if the queues are found by a pattern
    """
    found = _by_time(values, queues, ENDING_TIMESTAMP, ENDING_BY_TIMESTAMP)
    if found is not None or ENDING_OFFSETS not in values:
        return found
    found = _offsets(values[ENDING_OFFSETS], queues, ENDING_OFFSETS)
    refuse(found, EARLIEST, "a read cannot end there")
    return found


def refuse(positions: Positions, offset: int, why: str) -> None:
    """Raise OptionError if the position of any queue is `offset`, which is EARLIEST or LATEST.

    why  the reason, for the message
    """
    for queue, position in positions.all():
        if position.timestamp_us is None and position.offset == offset:
            word = "earliest" if offset == EARLIEST else "latest"
            whose = f" for {queue!r}" if queue else ""
            raise OptionError(f"{positions.option}: {word} ({offset}){whose}: {why}")


def _by_time(values: Mapping[str, str], queues: tuple[str, ...], one: str, by_queue: str) -> Positions | None:
    if one in values:
        timestamp_us = integer(one, values[one], 0, MILLISECONDS_MAX) * 1000
        return Positions(one, Position(one, timestamp_us=timestamp_us))
    if by_queue in values:
        times = _by_partition(by_queue, values[by_queue], queues, 0, MILLISECONDS_MAX)
        return Positions(
            by_queue, None, {queue: Position(by_queue, timestamp_us=time * 1000) for queue, time in times.items()}
        )
    return None


def _offsets(text: str, queues: tuple[str, ...], option: str) -> Positions:
    """Parse positions given as "earliest", "latest", a number for all queues, or JSON by queue."""
    text = text.strip()
    word = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if word is not None:
        return Positions(option, Position(option, word))
    if text.startswith("{"):
        offsets = _by_partition(option, text, queues, EARLIEST, OFFSET_MAX)
        # The user cannot name every queue that a pattern will find.
        each = None if queues else Position(option, EARLIEST)
        return Positions(option, each, {queue: Position(option, offset) for queue, offset in offsets.items()})
    try:
        offset = integer(option, text, EARLIEST, OFFSET_MAX)
    except OptionError:
        raise OptionError(
            f'{option}: {text!r} is none of earliest, latest, a number and {{"queue": {{"0": number}}}}'
        ) from None
    return Positions(option, Position(option, offset))


def _by_partition(option: str, text: str, queues: tuple[str, ...], least: int, most: int) -> dict[str, int]:
    """Parse numbers by queue from JSON as in Spark's Kafka source: {"queue": {"0": number}}.

    A queue has one partition, 0.

    Raises OptionError if the text has another form, a number is out of bounds, or a queue is missing or unknown.
    """
    wanted = f'{option}: {text!r} is not JSON of the form {{"queue": {{"0": number}}}}'
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{wanted}: {error}") from None
    if not isinstance(parsed, dict):
        raise OptionError(wanted)
    found: dict[str, int] = {}
    for queue, by_partition in parsed.items():
        if queues and queue not in queues:
            raise OptionError(f"{option}: {queue!r} is not among the queues of {SUBSCRIBE}: {', '.join(queues)}")
        if not isinstance(by_partition, dict) or list(by_partition) != ["0"]:
            raise OptionError(f'{wanted}: a queue has the one partition "0"')
        value = by_partition["0"]
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise OptionError(f"{option}: {value!r} for {queue!r} is not a number from {least} to {most}")
        found[queue] = value
    missing = [queue for queue in queues if queue not in found]
    if missing:
        raise OptionError(f"{option}: nothing for {', '.join(missing)}; name every queue of {SUBSCRIBE}")
    return found


def integer(option: str, text: str, least: int, most: int) -> int:
    """Parse an option's value as a whole number. Raises OptionError if it is none or out of bounds."""
    text = text.strip()
    # At most 19 digits, which hold any i64: int() of a very long text is slow, and fails above a length limit.
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not least <= int(text) <= most:
        raise OptionError(f"{option}: {text[:80]!r} is not a number from {least} to {most}")
    return int(text)
