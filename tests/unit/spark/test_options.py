"""Options of the Spark source: what they mean, and that a bad one is named with its value."""

from __future__ import annotations

import pytest

from forebay.core.errors import OptionError
from forebay.spark.options import EARLIEST, LATEST, Position, ReadOptions, parse_options

BASE = {"forebay.servers": "localhost:5672", "subscribe": "q"}


def parse(**more: str) -> ReadOptions:
    return parse_options({**BASE, **{name.replace("__", "."): value for name, value in more.items()}})


def test_defaults() -> None:
    options = parse()
    assert options == ReadOptions(
        servers="localhost:5672",
        user="guest",
        password="guest",
        data="",
        queues=("q",),
        starting={"q": Position("startingOffsets", EARLIEST)},
        ending={"q": Position("endingOffsets", LATEST)},
        min_partitions=0,
        fail_on_data_loss=True,
        latest_if_none=False,
    )


def test_names_in_any_case() -> None:
    options = parse_options({name.lower(): value for name, value in {**BASE, "failOnDataLoss": "FALSE"}.items()})
    assert not options.fail_on_data_loss


def test_several_queues_and_servers() -> None:
    options = parse(subscribe=" a, b ", forebay__servers="h1:1, [::1]:2")
    assert options.queues == ("a", "b")
    assert set(options.starting) == {"a", "b"}


@pytest.mark.parametrize(
    ("text", "offset"),
    [
        ("earliest", EARLIEST),
        ("5", 5),
        ("0", 0),
        ('{"q": {"0": 7}}', 7),
        ('{"q": {"0": -2}}', EARLIEST),
        (str(2**63 - 1), 2**63 - 1),
    ],
)
def test_starting_offsets(text: str, offset: int) -> None:
    assert parse(startingOffsets=text).starting["q"].offset == offset


@pytest.mark.parametrize(("text", "offset"), [("latest", LATEST), ("-1", LATEST), ('{"q": {"0": 9}}', 9)])
def test_ending_offsets(text: str, offset: int) -> None:
    assert parse(endingOffsets=text).ending["q"].offset == offset


def test_a_time_goes_before_offsets() -> None:
    options = parse(startingTimestamp="1500", startingOffsets="5", endingOffsetsByTimestamp='{"q": {"0": 2000}}')
    assert options.starting["q"] == Position("startingTimestamp", timestamp_us=1_500_000)
    assert options.ending["q"] == Position("endingOffsetsByTimestamp", timestamp_us=2_000_000)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("startingOffsets", "latest", "startingOffsets: latest .* cannot start there"),
        ("startingOffsets", '{"q": {"0": -1}}', "startingOffsets: latest .* for 'q'"),
        ("startingOffsets", "-3", "startingOffsets: '-3' is none of"),
        ("startingOffsets", "soon", "startingOffsets: 'soon' is none of"),
        ("startingOffsets", "9" * 5000, "startingOffsets: '999"),
        ("startingOffsets", "{", "startingOffsets: '{' is not JSON of the form"),
        ("startingOffsets", '{"q": 5}', 'one partition "0"'),
        ("startingOffsets", '{"q": {"1": 5}}', 'one partition "0"'),
        ("startingOffsets", '{"r": {"0": 5}}', "'r' is not among the queues of subscribe: q"),
        ("startingOffsets", "{}", "nothing for q"),
        ("startingOffsets", '{"q": {"0": true}}', "True for 'q' is not a number"),
        ("endingOffsets", "earliest", "endingOffsets: earliest .* cannot end there"),
        ("startingTimestamp", "-1", "startingTimestamp: '-1' is not a number from 0"),
        ("endingTimestamp", "tomorrow", "endingTimestamp: 'tomorrow' is not a number"),
        ("startingTimestamp", str(2**63 - 1), "startingTimestamp: '9223"),
        ("minPartitions", "0", "minPartitions: '0' is not a number from 1"),
        ("minPartitions", "2.5", "minPartitions: '2.5'"),
        ("failOnDataLoss", "yes", "failOnDataLoss: 'yes' is neither true nor false"),
        ("startingOffsetsByTimestampStrategy", "none", "'none' is neither error nor latest"),
        ("subscribe", "a,,b", "subscribe: 'a,,b' has an empty name"),
        ("subscribe", "a,a", "subscribe: the queue 'a' is there twice"),
        ("forebay.servers", "localhost", "forebay.servers: 'localhost' is not HOST:PORT"),
        ("forebay.servers", "a:1,b:x", "forebay.servers: 'b:x' is not HOST:PORT"),
        ("forebay.server", "a:1", "forebay.server: no option of the forebay source; did you mean forebay.servers?"),
        ("colour", "red", "colour: no option of the forebay source; known are forebay.servers"),
        ("startingOffset", "1", "did you mean startingOffsets?"),
        ("forebay.data", "/d", "give either forebay.servers .* or forebay.data"),
    ],
)
def test_a_bad_option_is_named(name: str, value: str, text: str) -> None:
    with pytest.raises(OptionError, match=text):
        parse_options({**BASE, name: value})


def test_missing_options_are_named() -> None:
    with pytest.raises(OptionError, match="subscribe: missing"):
        parse_options({"forebay.servers": "a:1"})
    with pytest.raises(OptionError, match="give either"):
        parse_options({"subscribe": "q"})
