"""The options of the Spark source, with the names and meanings of Spark's Kafka source.

Checked before anything is read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final

from forebay.core.errors import OptionError, RequestError
from forebay.spark.access import (
    BROKER_OPTIONS,
    DATA,
    PASSWORD_ENV,
    PASSWORD_FILE,
    READ_FROM,
    SERVERS,
    TLS,
    TLS_CA,
    TLS_CERTIFICATE,
    TLS_KEY,
    USER,
    Access,
    parse_access,
)
from forebay.spark.positions import (
    ENDING_BY_TIMESTAMP,
    ENDING_OFFSETS,
    ENDING_TIMESTAMP,
    LATEST,
    STARTING_BY_TIMESTAMP,
    STARTING_OFFSETS,
    STARTING_TIMESTAMP,
    SUBSCRIBE,
    Position,
    Positions,
    ending_positions,
    integer,
    refuse,
    starting_positions,
)
from forebay.spark.reading.plan import TASK_OCTETS_MAX, BatchLimits

PATTERN: Final = "subscribePattern"
STRATEGY: Final = "startingOffsetsByTimestampStrategy"
MIN_PARTITIONS: Final = "minPartitions"
MAX_RECORDS: Final = "maxRecordsPerPartition"
MAX_PARTITION_BYTES: Final = "maxBytesPerPartition"
FAIL_ON_DATA_LOSS: Final = "failOnDataLoss"
FILTER: Final = "filter"
HEADERS: Final = "includeHeaders"
MAX_OFFSETS: Final = "maxOffsetsPerTrigger"
MAX_BYTES: Final = "maxBytesPerTrigger"
MIN_OFFSETS: Final = "minOffsetsPerTrigger"
MAX_DELAY: Final = "maxTriggerDelay"
GROUP: Final = "groupIdPrefix"
HOLD: Final = "holdMs"
POLL: Final = "pollMs"
RETRY: Final = "retryMs"

ENDINGS: Final = (ENDING_OFFSETS, ENDING_TIMESTAMP, ENDING_BY_TIMESTAMP)
STREAM_ONLY: Final = (MAX_OFFSETS, MAX_BYTES, MIN_OFFSETS, MAX_DELAY, GROUP, HOLD, POLL)
NAMES: Final = (
    *BROKER_OPTIONS,
    DATA,
    SUBSCRIBE,
    PATTERN,
    STARTING_OFFSETS,
    ENDING_OFFSETS,
    STARTING_TIMESTAMP,
    ENDING_TIMESTAMP,
    STARTING_BY_TIMESTAMP,
    ENDING_BY_TIMESTAMP,
    STRATEGY,
    MIN_PARTITIONS,
    MAX_RECORDS,
    MAX_PARTITION_BYTES,
    FAIL_ON_DATA_LOSS,
    FILTER,
    HEADERS,
    RETRY,
    READ_FROM,
    *STREAM_ONLY,
)
# What to use instead of an option of Spark's Kafka source, by its prefix in lower case; the first match counts.
OF_KAFKA: Final = {
    "assign": f"a queue has the one partition 0: give {SUBSCRIBE} instead",
    "kafka.bootstrap.servers": f"give {SERVERS} instead",
    "kafka.group.id": f"a query takes nothing from consumers; {GROUP} names what it holds",
    "kafka.security.protocol": f"give {TLS} instead",
    "kafka.ssl.": f"give {TLS_CA}, {TLS_CERTIFICATE} and {TLS_KEY} instead",
    "kafka.sasl.": f"give {USER} and {PASSWORD_FILE} or {PASSWORD_ENV} instead",
    "kafka.": "it is of Kafka's client, and nothing takes its place",
    "kafkaconsumer.": f"give {RETRY} instead",
    "fetchoffset.": f"give {RETRY} instead",
}
COUNT_MAX: Final = (1 << 63) - 1
PARTITIONS_MAX: Final = 1_000_000
HOLD_MS_MIN: Final = 1000
DAY_MS: Final = 86_400_000
POLL_MS_MAX: Final = 30_000
GROUP_CHARACTERS_MAX: Final = 100
DELAY_S: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86_400.0}


@dataclass(frozen=True, slots=True)
class StreamOptions:
    """The options that only streaming reads have.

    offsets_max, octets_max  upper bounds of a micro-batch in records and bytes, met approximately; 0 is no limit
    offsets_min, delay_s     records a micro-batch waits for, and for how many seconds at most
    group_prefix             prefix of the names of the query's holds
    hold_s                   for how many seconds a hold outlives the query; 0 holds nothing
    poll_s                   how long one poll waits for new records, in seconds
    """

    offsets_max: int = 0
    octets_max: int = 0
    offsets_min: int = 0
    delay_s: float = 900.0
    group_prefix: str = "spark-"
    hold_s: float = 60.0
    poll_s: float = 0.5


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All options of one read, checked.

    queues    in the order of `subscribe`; empty if `pattern` is given
    starting, ending  None if the user gave no position
    latest_if_none    whether a start by time after the last record reads nothing instead of failing
    filter            text of a content filter, or empty
    given             names of the options that were given
    """

    access: Access
    queues: tuple[str, ...]
    pattern: str
    starting: Positions | None
    ending: Positions | None
    limits: BatchLimits
    fail_on_data_loss: bool
    latest_if_none: bool
    filter: str
    headers: bool
    stream: StreamOptions
    given: frozenset[str]

    def start_of(self, queue: str, default: int) -> Position:
        """Return the position at which the read of `queue` starts; offset `default` if no option gives one."""
        return self.starting.of(queue) if self.starting is not None else Position(STARTING_OFFSETS, default)

    def end_of(self, queue: str) -> Position:
        """Return the position at which the read of `queue` ends; the latest offset if no option gives one."""
        return self.ending.of(queue) if self.ending is not None else Position(ENDING_OFFSETS, LATEST)


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """Parse and check the options of a read. Raises OptionError naming the option and its value.

    given  the options as Spark passes them: names in any case
    """
    values = known_options(given, NAMES, "source")
    access = access_of(values)
    queues, pattern = _queues(values), _pattern(values)
    if bool(queues) == bool(pattern):
        what = f"give the name of a queue, or several with commas between; or a regular expression as {PATTERN}"
        raise OptionError(f"{SUBSCRIBE}: {'missing; ' if not queues else f'not beside {PATTERN}; '}{what}")
    return ReadOptions(
        access=access,
        queues=queues,
        pattern=pattern,
        starting=starting_positions(values, queues),
        ending=ending_positions(values, queues),
        limits=BatchLimits(
            tasks_min=_count(values, MIN_PARTITIONS, PARTITIONS_MAX),
            rows_max=_count(values, MAX_RECORDS, COUNT_MAX),
            octets_max=_count(values, MAX_PARTITION_BYTES, COUNT_MAX) or TASK_OCTETS_MAX,
        ),
        fail_on_data_loss=_choice(values, FAIL_ON_DATA_LOSS, "true", "false") == "true",
        latest_if_none=_choice(values, STRATEGY, "error", "latest") == "latest",
        filter=_filter(values),
        headers=_choice(values, HEADERS, "false", "true") == "true",
        stream=_stream(values),
        given=frozenset(values),
    )


def known_options(given: Mapping[str, str], names: Sequence[str], what: str) -> dict[str, str]:
    """Return the options under their proper names.

    what    the kind that the options belong to, for messages: source or sink
    raises  OptionError at an unknown option, suggesting the nearest known one
    """
    known = {name.lower(): name for name in names}
    values: dict[str, str] = {}
    for key, value in given.items():
        name = known.get(key.lower())
        if name is None and (instead := instead_of(key.lower())):
            raise OptionError(f"{key}: no option of the forebay {what}; {instead}")
        if name is None:
            near = get_close_matches(key.lower(), known, n=1, cutoff=0.6)
            hint = f"did you mean {known[near[0]]}?" if near else f"known are {', '.join(names)}"
            raise OptionError(f"{key}: no option of the forebay {what}; {hint}")
        values[name] = str(value)
    return values


def instead_of(key: str) -> str:
    """Return what to use instead of an option of Spark's Kafka source, or "" if `key` is no such option.

    key  the option's name in lower case
    """
    return next((words for start, words in OF_KAFKA.items() if key.startswith(start)), "")


def access_of(values: Mapping[str, str]) -> Access:
    """Return the broker or data directory that the options select.

    values  options under their proper names, from `known_options`
    raises  OptionError unless exactly one of broker and data directory is given
    """
    servers, data = values.get(SERVERS, "").strip(), values.get(DATA, "")
    if bool(servers) == bool(data):
        raise OptionError(f"give either {SERVERS} (HOST:PORT of a broker) or {DATA} (its data directory)")
    if data and READ_FROM in values:
        raise OptionError(f"{READ_FROM}: {values[READ_FROM]!r}: not with {DATA}, which is of one node")
    access = parse_access(values, data, _milliseconds(values, RETRY, Access().retry_s, 0, DAY_MS))
    return replace(access, from_followers=_choice(values, READ_FROM, "followers", "leader") == "followers")


def check_batch(options: ReadOptions) -> None:
    """Raise OptionError if a batch read cannot have these options."""
    for name in STREAM_ONLY:
        if name in options.given:
            raise OptionError(f"{name}: an option of streams only; this is a batch read")
    if options.starting is not None:
        refuse(options.starting, LATEST, "a batch read cannot start there")


def check_stream(options: ReadOptions) -> None:
    """Raise OptionError if a streaming read cannot have these options."""
    for name in ENDINGS:
        if name in options.given:
            raise OptionError(f"{name}: a stream has no end; it is an option of batch reads")


def _queues(values: Mapping[str, str]) -> tuple[str, ...]:
    if SUBSCRIBE not in values:
        return ()
    text = values[SUBSCRIBE].strip()
    names = _names_in_list(text) if text.startswith("[") else tuple(name.strip() for name in text.split(","))
    if not names or not all(names):
        raise OptionError(f"{SUBSCRIBE}: {values[SUBSCRIBE]!r} has an empty name in it")
    for name in names:
        if names.count(name) > 1:
            raise OptionError(f"{SUBSCRIBE}: the queue {name!r} is there twice")
    return names


def _names_in_list(text: str) -> tuple[str, ...]:
    """Return the names in a JSON list, which may contain commas. Raises OptionError if the text is no such list."""
    try:
        names = json.loads(text)
    except ValueError as error:
        why = f"is no list of names in JSON ({error}); a queue whose name begins with [ is given in such a list"
        raise OptionError(f"{SUBSCRIBE}: {text!r} {why}") from None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise OptionError(f"{SUBSCRIBE}: {text!r} is no list of names in JSON")
    return tuple(names)


def _pattern(values: Mapping[str, str]) -> str:
    pattern = values.get(PATTERN, "")
    if PATTERN not in values:
        return ""
    if not pattern:
        raise OptionError(f"{PATTERN}: '' matches no queue")
    from forebay.filter.pattern import Pattern
    from forebay.filter.program import BadPattern

    try:
        Pattern(pattern)
    except BadPattern as error:
        raise OptionError(f"{PATTERN}: {pattern!r} is no regular expression: {error}") from None
    return pattern


def _filter(values: Mapping[str, str]) -> str:
    text = values.get(FILTER, "")
    if FILTER in values:
        from forebay.filter.parser import parse

        try:
            parse(text)
        except RequestError as error:
            raise OptionError(f"{FILTER}: {text!r}: {error.text}") from None
    return text


def _stream(values: Mapping[str, str]) -> StreamOptions:
    plain = StreamOptions()
    prefix = values.get(GROUP, plain.group_prefix)
    if not 0 < len(prefix) <= GROUP_CHARACTERS_MAX:
        raise OptionError(f"{GROUP}: {prefix[:80]!r} is not text of 1 to {GROUP_CHARACTERS_MAX} characters")
    hold_s = _milliseconds(values, HOLD, plain.hold_s, 0, DAY_MS)
    if 0 < hold_s < HOLD_MS_MIN / 1000:
        raise OptionError(f"{HOLD}: {values[HOLD]!r} is neither 0 nor a number from {HOLD_MS_MIN} to {DAY_MS}")
    return StreamOptions(
        offsets_max=_count(values, MAX_OFFSETS, COUNT_MAX),
        octets_max=_count(values, MAX_BYTES, COUNT_MAX),
        offsets_min=_count(values, MIN_OFFSETS, COUNT_MAX),
        delay_s=_delay(values, plain.delay_s),
        group_prefix=prefix,
        hold_s=hold_s,
        poll_s=_milliseconds(values, POLL, plain.poll_s, 0, POLL_MS_MAX),
    )


def _delay(values: Mapping[str, str], default_s: float) -> float:
    """Return `maxTriggerDelay` in seconds.

    The option has the form of Spark's Kafka source: 15m, 10s, 500ms; a bare number is in milliseconds.
    """
    if MAX_DELAY not in values:
        return default_s
    text = values[MAX_DELAY].strip().lower()
    found = re.fullmatch(r"([0-9]{1,12})\s*([a-z]*)", text)
    if found is None or (found[2] or "ms") not in DELAY_S:
        raise OptionError(f"{MAX_DELAY}: {values[MAX_DELAY]!r} is no time such as 500ms, 10s, 15m, 1h")
    return int(found[1]) * DELAY_S[found[2] or "ms"]


def _count(values: Mapping[str, str], option: str, most: int) -> int:
    return integer(option, values[option], 1, most) if option in values else 0


def _milliseconds(values: Mapping[str, str], option: str, default_s: float, least: int, most: int) -> float:
    return integer(option, values[option], least, most) / 1000 if option in values else default_s


def _choice(values: Mapping[str, str], option: str, default: str, other: str) -> str:
    value = values.get(option, default).strip().lower()
    if value not in {default, other}:
        raise OptionError(f"{option}: {values[option]!r} is neither {default} nor {other}")
    return value
