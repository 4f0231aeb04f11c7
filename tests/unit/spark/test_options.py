"""Options of the Spark source: what they mean, and that a bad one is named with its value."""

from __future__ import annotations

import json

import pytest

from forebay.core.errors import OptionError
from forebay.spark.access import Access
from forebay.spark.options import (
    STREAM_ONLY,
    ReadOptions,
    StreamOptions,
    check_batch,
    check_stream,
    known_options,
    parse_options,
)
from forebay.spark.positions import EARLIEST, LATEST, Position, subscription_of
from forebay.spark.reading.plan import BatchLimits

BASE = {"forebay.servers": "localhost:5672", "subscribe": "q"}


def parse(**more: str) -> ReadOptions:
    return parse_options({**BASE, **{name.replace("__", "."): value for name, value in more.items()}})


def test_defaults() -> None:
    options = parse()
    assert options == ReadOptions(
        access=Access("localhost:5672", "guest", "guest", "/", "", 30.0),
        queues=("q",),
        pattern="",
        starting=None,
        ending=None,
        limits=BatchLimits(0, 0, 512 << 20),
        fail_on_data_loss=True,
        latest_if_none=False,
        filter="",
        headers=False,
        stream=StreamOptions(0, 0, 0, 900.0, "spark-", 60.0, 0.5),
        given=frozenset({"forebay.servers", "subscribe"}),
    )
    assert options.start_of("q", EARLIEST) == Position("startingOffsets", EARLIEST)
    assert options.start_of("q", LATEST) == Position("startingOffsets", LATEST)
    assert options.end_of("q") == Position("endingOffsets", LATEST)


def test_names_in_any_case() -> None:
    options = parse_options({name.lower(): value for name, value in {**BASE, "failOnDataLoss": "FALSE"}.items()})
    assert not options.fail_on_data_loss


def test_several_queues_and_servers() -> None:
    options = parse(subscribe=" a, b ", forebay__servers="h1:1, [::1]:2")
    assert options.queues == ("a", "b")
    assert options.access.servers == "h1:1, [::1]:2"


@pytest.mark.parametrize("names", [("a,b",), ("a,b", "c", " d "), ("[x",), ('q"1', "é,\\"), ("plain", "other")])
def test_any_name_can_be_subscribed_to(names: tuple[str, ...]) -> None:
    assert parse(subscribe=subscription_of(names)).queues == names
    assert parse(subscribe=f" {json.dumps(names)} ").queues == names
    assert subscription_of(["plain", "other"]) == "plain,other"


def test_a_pattern_instead_of_names() -> None:
    options = parse_options(
        {"forebay.servers": "a:1", "subscribePattern": "s.*", "startingOffsets": '{"s1": {"0": 5}}'}
    )
    assert (options.queues, options.pattern) == ((), "s.*")
    assert options.start_of("s1", LATEST).offset == 5
    assert options.start_of("s2", LATEST).offset == EARLIEST


def test_a_vhost_and_a_filter() -> None:
    options = parse(forebay__vhost="v", filter="/delay > 5 AND routing_key = 'a.b'", includeHeaders="true")
    assert options.access.vhost == "v"
    assert options.filter == "/delay > 5 AND routing_key = 'a.b'"
    assert options.headers


def test_options_of_streams() -> None:
    options = parse(
        maxOffsetsPerTrigger="10",
        maxBytesPerTrigger="1000000",
        minOffsetsPerTrigger="5",
        maxTriggerDelay="2m",
        groupIdPrefix="mine-",
        holdMs="0",
        pollMs="100",
        retryMs="1000",
    )
    assert options.stream == StreamOptions(10, 1_000_000, 5, 120.0, "mine-", 0.0, 0.1)
    assert options.access.retry_s == 1.0


@pytest.mark.parametrize(
    ("text", "delay_s"), [("500ms", 0.5), ("10s", 10.0), ("15 m", 900.0), ("1h", 3600.0), ("7", 0.007)]
)
def test_a_delay(text: str, delay_s: float) -> None:
    assert parse(maxTriggerDelay=text).stream.delay_s == pytest.approx(delay_s)


def test_a_batch_read_does_not_start_at_the_end() -> None:
    for text in ("latest", '{"q": {"0": -1}}'):
        options = parse(startingOffsets=text)
        check_stream(options)
        with pytest.raises(OptionError, match=r"startingOffsets: latest .* cannot start there"):
            check_batch(options)


def test_a_batch_read_has_no_options_of_streams() -> None:
    for name in STREAM_ONLY:
        value = {"groupIdPrefix": "mine-", "maxTriggerDelay": "5s"}.get(name, "1000")
        options = parse(**{name: value})
        check_stream(options)
        with pytest.raises(OptionError, match=f"^{name}: an option of streams only; this is a batch read$"):
            check_batch(options)


def test_how_a_read_is_cut_into_tasks() -> None:
    options = parse(minPartitions="8", maxRecordsPerPartition="100000", maxBytesPerPartition="1000000")
    assert options.limits == BatchLimits(8, 100_000, 1_000_000)
    check_batch(options)
    check_stream(options)


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_a_stream_has_no_end(name: str) -> None:
    value = {"endingOffsets": "5", "endingTimestamp": "5"}.get(name, '{"q": {"0": 5}}')
    options = parse(**{name: value})
    check_batch(options)
    with pytest.raises(OptionError, match=f"{name}: a stream has no end"):
        check_stream(options)


def test_names_of_another_table() -> None:
    assert known_options({"TOPIC": "q"}, ["topic", "exchange"], "sink") == {"topic": "q"}
    with pytest.raises(OptionError, match=r"topics: no option of the forebay sink; did you mean topic\?"):
        known_options({"topics": "q"}, ["topic", "exchange"], "sink")


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
    assert parse(startingOffsets=text).start_of("q", EARLIEST).offset == offset


@pytest.mark.parametrize(("text", "offset"), [("latest", LATEST), ("-1", LATEST), ('{"q": {"0": 9}}', 9)])
def test_ending_offsets(text: str, offset: int) -> None:
    assert parse(endingOffsets=text).end_of("q").offset == offset


def test_a_time_goes_before_offsets() -> None:
    options = parse(startingTimestamp="1500", startingOffsets="5", endingOffsetsByTimestamp='{"q": {"0": 2000}}')
    assert options.start_of("q", EARLIEST) == Position("startingTimestamp", timestamp_us=1_500_000)
    assert options.end_of("q") == Position("endingOffsetsByTimestamp", timestamp_us=2_000_000)


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
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
        ("maxRecordsPerPartition", "0", "maxRecordsPerPartition: '0' is not a number from 1"),
        ("maxBytesPerPartition", "512m", "maxBytesPerPartition: '512m' is not a number from 1"),
        ("maxRecordPerPartition", "5", r"did you mean maxRecordsPerPartition\?"),
        ("failOnDataLoss", "yes", "failOnDataLoss: 'yes' is neither true nor false"),
        ("startingOffsetsByTimestampStrategy", "none", "'none' is neither error nor latest"),
        ("subscribe", "a,,b", "subscribe: 'a,,b' has an empty name"),
        ("subscribe", "a,a", "subscribe: the queue 'a' is there twice"),
        ("subscribe", '["a,b", "a,b"]', "subscribe: the queue 'a,b' is there twice"),
        ("subscribe", '["a", ""]', "has an empty name"),
        ("subscribe", "[]", "has an empty name"),
        ("subscribe", '["a", 1]', "is no list of names in JSON"),
        ("subscribe", "[a]", r"is no list of names in JSON \(.*a queue whose name begins with \["),
        ("forebay.servers", "localhost", "forebay.servers: 'localhost' is not HOST:PORT"),
        ("forebay.servers", "a:1,b:x", "forebay.servers: 'b:x' is not HOST:PORT"),
        ("forebay.server", "a:1", "forebay.server: no option of the forebay source; did you mean forebay.servers?"),
        ("colour", "red", "colour: no option of the forebay source; known are forebay.servers"),
        ("startingOffset", "1", "did you mean startingOffsets?"),
        ("subscribePattern", "q.*", "subscribe: not beside subscribePattern"),
        ("subscribePattern", "(", r"subscribePattern: '\(' is no regular expression: character 2"),
        ("filter", "/a >", "filter: '/a >': "),
        ("filter", "", "filter: ''"),
        ("readFrom", "nearest", "readFrom: 'nearest' is neither followers nor leader"),
        ("includeHeaders", "1", "includeHeaders: '1' is neither false nor true"),
        ("maxOffsetsPerTrigger", "0", "maxOffsetsPerTrigger: '0' is not a number from 1"),
        ("maxBytesPerTrigger", "1g", "maxBytesPerTrigger: '1g' is not a number"),
        ("minOffsetsPerTrigger", "-1", "minOffsetsPerTrigger: '-1' is not a number from 1"),
        ("maxTriggerDelay", "soon", "maxTriggerDelay: 'soon' is no time such as 500ms"),
        ("maxTriggerDelay", "5 weeks", "maxTriggerDelay: '5 weeks' is no time"),
        ("groupIdPrefix", "", "groupIdPrefix: '' is not text of 1 to 100"),
        ("groupIdPrefix", "x" * 101, "groupIdPrefix: 'xxx"),
        ("holdMs", "10", "holdMs: '10' is neither 0 nor a number from 1000"),
        ("holdMs", "86400001", "holdMs: '86400001' is not a number from 0 to 86400000"),
        ("pollMs", "30001", "pollMs: '30001' is not a number from 0 to 30000"),
        ("retryMs", "-1", "retryMs: '-1' is not a number from 0"),
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
    with pytest.raises(OptionError, match=r"forebay\.vhost: 'v': not with forebay\.data"):
        parse_options({"subscribe": "q", "forebay.data": "/d", "forebay.vhost": "v"})


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"forebay.password": "a", "forebay.passwordFile": "b"},
            r"forebay\.passwordFile: not beside forebay\.password",
        ),
        ({"forebay.passwordEnv": ""}, r"forebay\.passwordEnv: '' names nothing"),
        ({"forebay.tls": "yes"}, r"forebay\.tls: 'yes' is neither true nor false"),
        ({"forebay.tls": "false", "forebay.tlsCaFile": "x"}, r"forebay\.tlsCaFile: not with forebay\.tls false"),
        ({"forebay.tlsKey": "x"}, r"forebay\.tlsKey: of no use without forebay\.tlsCertificate"),
    ],
)
def test_secrets_and_certificates_that_cannot_be(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        parse_options({"forebay.servers": "x:1", "subscribe": "q", **given})


def test_a_file_of_tls_turns_it_on() -> None:
    assert parse_options({"forebay.servers": "x:1", "subscribe": "q", "forebay.tlsCaFile": "x"}).access.tls
    assert not parse_options({"forebay.servers": "x:1", "subscribe": "q"}).access.tls


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("assign", r"assign: no option of the forebay source; a queue has the one partition 0: give subscribe instead"),
        ("kafka.bootstrap.servers", r"give forebay\.servers instead"),
        (
            "kafka.ssl.truststore.location",
            r"give forebay\.tlsCaFile, forebay\.tlsCertificate and",
        ),
        ("kafka.sasl.jaas.config", r"give forebay\.user and forebay\.passwordFile or forebay\.passwordEnv instead"),
        ("kafka.fetch.min.bytes", r"it is of Kafka's client, and nothing takes its place"),
        ("kafkaConsumer.pollTimeoutMs", r"give retryMs instead"),
    ],
)
def test_options_of_kafka_say_what_is_used_instead(name: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        parse_options({"forebay.servers": "x:1", "subscribe": "q", name: "x"})
