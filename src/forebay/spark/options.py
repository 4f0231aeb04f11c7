"""The options of the Spark source: names and meanings of Spark's Kafka source, checked before anything is read."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

from forebay.core.errors import OptionError
from forebay.core.options import split_address

EARLIEST: Final = -2
LATEST: Final = -1

SERVERS: Final = "forebay.servers"
USER: Final = "forebay.user"
PASSWORD: Final = "forebay.password"
DATA: Final = "forebay.data"
SUBSCRIBE: Final = "subscribe"
STARTING_OFFSETS: Final = "startingOffsets"
ENDING_OFFSETS: Final = "endingOffsets"
STARTING_TIMESTAMP: Final = "startingTimestamp"
ENDING_TIMESTAMP: Final = "endingTimestamp"
STARTING_BY_TIMESTAMP: Final = "startingOffsetsByTimestamp"
ENDING_BY_TIMESTAMP: Final = "endingOffsetsByTimestamp"
STRATEGY: Final = "startingOffsetsByTimestampStrategy"
MIN_PARTITIONS: Final = "minPartitions"
FAIL_ON_DATA_LOSS: Final = "failOnDataLoss"

NAMES: Final = (
    SERVERS,
    USER,
    PASSWORD,
    DATA,
    SUBSCRIBE,
    STARTING_OFFSETS,
    ENDING_OFFSETS,
    STARTING_TIMESTAMP,
    ENDING_TIMESTAMP,
    STARTING_BY_TIMESTAMP,
    ENDING_BY_TIMESTAMP,
    STRATEGY,
    MIN_PARTITIONS,
    FAIL_ON_DATA_LOSS,
)
OFFSET_MAX: Final = (1 << 63) - 1
MILLISECONDS_MAX: Final = OFFSET_MAX // 1000
PARTITIONS_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Position:
    """Where a read of one queue begins or ends: EARLIEST, LATEST, an offset, or a time in microseconds.

    option  the option that said so, for messages
    """

    option: str
    offset: int = EARLIEST
    timestamp_us: int | None = None


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All options of one read, checked.

    servers  empty where `data` is given, and the other way round
    queues   in the order of `subscribe`
    starting, ending  by queue
    latest_if_none    a start by time after the last record reads nothing instead of failing
    """

    servers: str
    user: str
    password: str
    data: str
    queues: tuple[str, ...]
    starting: dict[str, Position]
    ending: dict[str, Position]
    min_partitions: int
    fail_on_data_loss: bool
    latest_if_none: bool


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """The options of a read; OptionError naming the option and its value.

    given  as Spark hands them over: names in any case
    """
    known = {name.lower(): name for name in NAMES}
    values: dict[str, str] = {}
    for key, value in given.items():
        name = known.get(key.lower())
        if name is None:
            near = get_close_matches(key.lower(), known, n=1, cutoff=0.6)
            hint = f"did you mean {known[near[0]]}?" if near else f"known are {', '.join(NAMES)}"
            raise OptionError(f"{key}: no option of the forebay source; {hint}")
        values[name] = str(value)
    servers, data = values.get(SERVERS, "").strip(), values.get(DATA, "")
    if bool(servers) == bool(data):
        raise OptionError(f"give either {SERVERS} (HOST:PORT of a broker) or {DATA} (its data directory)")
    for server in servers.split(",") if servers else []:
        try:
            split_address(server.strip())
        except OptionError as error:
            raise OptionError(f"{SERVERS}: {error}") from None
    queues = _queues(values)
    return ReadOptions(
        servers=servers,
        user=values.get(USER, "guest"),
        password=values.get(PASSWORD, "guest"),
        data=data,
        queues=queues,
        starting=_starting(values, queues),
        ending=_ending(values, queues),
        min_partitions=_integer(MIN_PARTITIONS, values[MIN_PARTITIONS], 1, PARTITIONS_MAX)
        if MIN_PARTITIONS in values
        else 0,
        fail_on_data_loss=_choice(values, FAIL_ON_DATA_LOSS, "true", "false") == "true",
        latest_if_none=_choice(values, STRATEGY, "error", "latest") == "latest",
    )


def _queues(values: Mapping[str, str]) -> tuple[str, ...]:
    if SUBSCRIBE not in values:
        raise OptionError(f"{SUBSCRIBE}: missing; give the name of a queue, or several with commas between")
    names = tuple(name.strip() for name in values[SUBSCRIBE].split(","))
    if not all(names):
        raise OptionError(f"{SUBSCRIBE}: {values[SUBSCRIBE]!r} has an empty name in it")
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"{SUBSCRIBE}: the queue {name!r} is there twice")
    return names


def _starting(values: Mapping[str, str], queues: tuple[str, ...]) -> dict[str, Position]:
    """As in Spark's Kafka source the most specific option wins: one time, times by queue, then offsets."""
    found = _by_time(values, queues, STARTING_TIMESTAMP, STARTING_BY_TIMESTAMP)
    if found is not None:
        return found
    found = _offsets(values.get(STARTING_OFFSETS, "earliest"), queues, STARTING_OFFSETS)
    for queue, position in found.items():
        if position.offset == LATEST:
            raise OptionError(f"{STARTING_OFFSETS}: latest ({LATEST}) for {queue!r}; a batch read cannot start there")
    return found


def _ending(values: Mapping[str, str], queues: tuple[str, ...]) -> dict[str, Position]:
    found = _by_time(values, queues, ENDING_TIMESTAMP, ENDING_BY_TIMESTAMP)
    if found is not None:
        return found
    found = _offsets(values.get(ENDING_OFFSETS, "latest"), queues, ENDING_OFFSETS)
    for queue, position in found.items():
        if position.offset == EARLIEST:
            raise OptionError(f"{ENDING_OFFSETS}: earliest ({EARLIEST}) for {queue!r}; a batch read cannot end there")
    return found


def _by_time(values: Mapping[str, str], queues: tuple[str, ...], one: str, by_queue: str) -> dict[str, Position] | None:
    if one in values:
        timestamp_us = _integer(one, values[one], 0, MILLISECONDS_MAX) * 1000
        return {queue: Position(one, timestamp_us=timestamp_us) for queue in queues}
    if by_queue in values:
        times = _by_partition(by_queue, values[by_queue], queues, 0, MILLISECONDS_MAX)
        return {queue: Position(by_queue, timestamp_us=times[queue] * 1000) for queue in queues}
    return None


def _offsets(text: str, queues: tuple[str, ...], option: str) -> dict[str, Position]:
    """Positions from "earliest", "latest", a number for all queues, or JSON by queue."""
    text = text.strip()
    word = {"earliest": EARLIEST, "latest": LATEST}.get(text.lower())
    if word is not None:
        return {queue: Position(option, word) for queue in queues}
    if text.startswith("{"):
        offsets = _by_partition(option, text, queues, EARLIEST, OFFSET_MAX)
        return {queue: Position(option, offsets[queue]) for queue in queues}
    try:
        offset = _integer(option, text, EARLIEST, OFFSET_MAX)
    except OptionError:
        raise OptionError(
            f'{option}: {text!r} is none of earliest, latest, a number and {{"queue": {{"0": number}}}}'
        ) from None
    return {queue: Position(option, offset) for queue in queues}


def _by_partition(option: str, text: str, queues: tuple[str, ...], least: int, most: int) -> dict[str, int]:
    """Numbers from JSON as in Spark's Kafka source, {"queue": {"0": number}}; there is one partition, 0."""
    wanted = f'{option}: {text!r} is not JSON of the form {{"queue": {{"0": number}}}}'
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise OptionError(f"{wanted}: {error}") from None
    if not isinstance(parsed, dict):
        raise OptionError(wanted)
    found: dict[str, int] = {}
    for queue, by_partition in parsed.items():
        if queue not in queues:
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


def _integer(option: str, text: str, least: int, most: int) -> int:
    text = text.strip()
    # Longer than any i64: int() of a very long text is slow, and refused from some length on.
    if not re.fullmatch(r"[+-]?[0-9]{1,19}", text) or not least <= int(text) <= most:
        raise OptionError(f"{option}: {text[:80]!r} is not a number from {least} to {most}")
    return int(text)


def _choice(values: Mapping[str, str], option: str, default: str, other: str) -> str:
    value = values.get(option, default).strip().lower()
    if value not in {default, other}:
        raise OptionError(f"{option}: {values[option]!r} is neither {default} nor {other}")
    return value
