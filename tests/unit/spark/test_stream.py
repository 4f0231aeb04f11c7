"""The streaming reader as Spark drives it, on a real broker but without a JVM."""

from __future__ import annotations

import json
import logging
import pickle
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import pika
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows
from pyspark.sql.types import StructType

from forebay.client.control import ControlClient
from forebay.core.errors import RequestError, Unreachable
from forebay.spark.access import Access
from forebay.spark.options import parse_options
from forebay.spark.reading.logs import DataLost, RemoteLogs
from forebay.spark.reading.stream import ForebayStreamReader
from forebay.spark.schema import TYPES
from tests.broker_process import BrokerProcess
from tests.waiting import until, until_past

WAIT_S = 60
SCHEMA = StructType().add("offset", TYPES["offset"]).add("value", TYPES["value"])
ALL = ReadAllAvailable()
Offsets = dict[str, Any]


class Rig:
    """A broker with a publisher, and readers of its queues."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.broker = broker
        self.server = f"127.0.0.1:{broker.amqp_port}"
        self.connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port))
        self.channel = self.connection.channel()
        self.channel.confirm_delivery()

    def stream(self, *names: str) -> None:
        for name in names:
            self.channel.queue_declare(name, durable=True, arguments={"x-queue-type": "stream"})

    def publish(self, queue: str, count: int) -> None:
        for at in range(count):
            self.channel.basic_publish("", queue, b"%d" % at)

    def reader(self, queue: str = "s", **options: object) -> ForebayStreamReader:
        given: dict[str, object] = {"forebay.servers": self.server, "startingOffsets": "earliest", "pollMs": 50}
        given |= {"subscribe": queue, **options} if queue else options
        parsed = parse_options({name.replace("__", "."): str(value) for name, value in given.items()})
        return ForebayStreamReader(parsed, SCHEMA)

    def holds(self, queue: str = "s") -> dict[str, int]:
        with ControlClient.connect(self.server, "guest", "guest") as client:
            groups = [each for each in client.items("group.list", queue=queue) if each["kind"] == "reader"]
        return {str(each["group"]): int(str(each["cursor"])) for each in groups}

    def truncate(self, queue: str, below: int) -> None:
        with ControlClient.connect(self.server, "guest", "guest") as client:
            client.run("queue.truncate", queue=queue, below=below)


@pytest.fixture
def rig(broker: BrokerProcess) -> Iterator[Rig]:
    made = Rig(broker)
    yield made
    if made.connection.is_open:
        made.connection.close()


def is_in(thread: threading.Thread, function: str) -> bool:
    """Whether a thread is just now in a function of this name."""
    frame = sys._current_frames().get(thread.ident or 0)
    while frame is not None and frame.f_code.co_name != function:
        frame = frame.f_back
    return frame is not None


def ends(offsets: Offsets) -> dict[str, int]:
    return {queue: each["0"] for queue, each in offsets.items()}


def rows(reader: ForebayStreamReader, start: Offsets, end: Offsets) -> list[int]:
    """The offsets of a batch, read by copies of the reader as tasks have them, after a trip through JSON."""
    start, end = json.loads(json.dumps(start)), json.loads(json.dumps(end))
    copy = pickle.loads(pickle.dumps(ForebayStreamReader(reader.options, SCHEMA)))
    found: list[int] = []
    for partition in pickle.loads(pickle.dumps(reader.partitions(start, end))):
        for batch in copy.read(partition):
            found += batch.column(0).to_pylist()
    return sorted(found)


def test_latest_stays_what_it_was_at_first(rig: Rig) -> None:
    rig.stream("s")
    rig.publish("s", 5)
    reader = rig.reader(startingOffsets="latest")
    first = reader.initialOffset()
    rig.publish("s", 3)
    assert reader.initialOffset() == first
    assert ends(first) == {"s": 5}
    end = reader.latestOffset(first, ALL)
    assert rows(reader, first, end) == [5, 6, 7]
    assert reader.reportLatestOffset() == {"s": {"0": 8}}


def test_the_limit_that_spark_is_told(rig: Rig) -> None:
    assert rig.reader().getDefaultReadLimit() == ReadAllAvailable()
    assert rig.reader(maxOffsetsPerTrigger=5, maxBytesPerTrigger=7).getDefaultReadLimit() == ReadMaxRows(5)
    assert rig.reader(maxBytesPerTrigger=7, minOffsetsPerTrigger=3).getDefaultReadLimit() == ReadMaxBytes(7)
    assert rig.reader(minOffsetsPerTrigger=3).getDefaultReadLimit() == ReadMinRows(3)


def test_limits_hold_unless_spark_asks_for_all(rig: Rig) -> None:
    rig.stream("s", "t")
    rig.publish("s", 30)
    rig.publish("t", 10)
    reader = rig.reader("s,t", maxOffsetsPerTrigger=8)
    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    end = reader.latestOffset(start, limit)
    assert ends(end) == {"s": 6, "t": 2}
    assert ends(reader.latestOffset(end, limit)) == {"s": 12, "t": 4}
    assert ends(reader.latestOffset(end, ALL)) == {"s": 30, "t": 10}


def test_nothing_new_is_the_same_text(rig: Rig) -> None:
    rig.stream("s", "t")
    rig.publish("s", 3)
    reader = rig.reader("t,s")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert json.dumps(reader.latestOffset(end, ALL)) == json.dumps(end)
    assert reader.partitions(end, end) == []


def test_records_end_the_wait(rig: Rig) -> None:
    rig.stream("s")
    reader = rig.reader(pollMs=30_000)
    start = reader.initialOffset()
    found: list[Offsets] = []
    thread = threading.Thread(target=lambda: found.append(reader.latestOffset(start, ALL)))
    thread.start()
    until(lambda: is_in(thread, "_ask"), "a request on its way")
    rig.publish("s", 1)
    thread.join(25)  # less than the wait that it has asked for
    assert ends(found[0]) == {"s": 1}


def test_too_few_wait_until_the_delay_is_over(rig: Rig) -> None:
    rig.stream("s")
    rig.publish("s", 4)
    reader = rig.reader(minOffsetsPerTrigger=5, maxTriggerDelay="1h")
    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    assert reader.latestOffset(start, limit) == start
    rig.publish("s", 1)
    assert ends(reader.latestOffset(start, limit)) == {"s": 5}
    hasty = rig.reader(minOffsetsPerTrigger=50, maxTriggerDelay="10ms")
    start = hasty.initialOffset()
    until_past(time.time() + 0.02)
    assert ends(hasty.latestOffset(start, limit)) == {"s": 5}


def test_octets_by_their_mean(rig: Rig) -> None:
    rig.stream("s")
    for _ in range(100):
        rig.channel.basic_publish("", "s", bytes(1000))
    reader = rig.reader(maxBytesPerTrigger=20_000)
    start = reader.initialOffset()
    assert 12 <= ends(reader.latestOffset(start, reader.getDefaultReadLimit()))["s"] <= 20
    least = rig.reader(maxBytesPerTrigger=10)
    assert ends(least.latestOffset(least.initialOffset(), least.getDefaultReadLimit())) == {"s": 1}


def test_available_now_ends_where_it_began(rig: Rig) -> None:
    rig.stream("s")
    rig.publish("s", 5)
    reader = rig.reader(maxOffsetsPerTrigger=4, minOffsetsPerTrigger=4)
    reader.prepareForTriggerAvailableNow()
    rig.publish("s", 5)
    start = reader.initialOffset()
    limit = reader.getDefaultReadLimit()
    first = reader.latestOffset(start, limit)
    second = reader.latestOffset(first, limit)
    assert [ends(first), ends(second)] == [{"s": 4}, {"s": 5}]
    assert reader.latestOffset(second, limit) == second


def test_queues_join_from_their_start(rig: Rig) -> None:
    reader = rig.reader("", subscribePattern="s[0-9]", startingOffsets="latest")
    start = reader.initialOffset()
    assert start == {}
    assert reader.latestOffset(start, ALL) == {}
    rig.stream("s1", "other")
    rig.publish("s1", 3)
    end = reader.latestOffset(start, ALL)
    assert ends(end) == {"s1": 3}
    assert list(rig.holds("s1").values()) == [0]
    assert rows(reader, start, end) == [0, 1, 2]
    rig.publish("s1", 1)
    after = reader.latestOffset(end, ALL)
    assert rows(reader, end, after) == [3]
    # Run again after a restart, a batch is the same.
    assert rows(rig.reader("", subscribePattern="s[0-9]"), start, end) == [0, 1, 2]


def test_what_is_gone_is_said(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.stream("s")
    rig.publish("s", 20)
    strict = rig.reader(holdMs=0)
    lax = rig.reader(holdMs=0, failOnDataLoss=False)
    start = strict.initialOffset()
    assert rig.holds() == {}
    rig.truncate("s", 15)
    with pytest.raises(DataLost, match="offsets 0 to 14 of queue 's' are gone: retention, a purge"):
        strict.latestOffset(start, ALL)
    with caplog.at_level(logging.WARNING, "forebay.spark"):
        end = lax.latestOffset(start, ALL)
    assert "offsets 0 to 14 of queue 's' are gone" in caplog.text
    assert rows(lax, start, end) == [15, 16, 17, 18, 19]
    assert rows(lax, end, lax.latestOffset(end, ALL)) == []


def test_a_queue_that_was_made_anew(rig: Rig, caplog: pytest.LogCaptureFixture) -> None:
    rig.stream("s")
    rig.publish("s", 20)
    strict, lax = rig.reader(), rig.reader(failOnDataLoss=False)
    start = strict.latestOffset(strict.initialOffset(), ALL)
    rig.channel.queue_delete("s")
    with pytest.raises(DataLost, match="queue 's', which was read before, was deleted"):
        strict.latestOffset(start, ALL)
    with caplog.at_level(logging.WARNING, "forebay.spark"):
        assert lax.latestOffset(start, ALL) == start
        assert lax.latestOffset(start, ALL) == start
    assert caplog.text.count("which was read before, was deleted") == 1
    rig.stream("s")
    rig.publish("s", 30)
    with pytest.raises(DataLost, match="queue 's' was deleted and made anew since it was read"):
        strict.latestOffset(start, ALL)
    end = lax.latestOffset(start, ALL)
    assert rows(lax, start, end) == list(range(30))
    rig.publish("s", 1)
    assert rows(lax, end, lax.latestOffset(end, ALL)) == [30]


def test_a_task_reads_no_other_log_of_the_name(rig: Rig) -> None:
    rig.stream("s")
    rig.publish("s", 5)
    reader = rig.reader()
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    rig.channel.queue_delete("s")
    rig.stream("s")
    rig.publish("s", 5)
    with pytest.raises(DataLost, match="queue 's' was deleted and made anew"):
        rows(reader, start, end)
    assert rows(rig.reader(failOnDataLoss=False), start, end) == []


def test_a_hold_follows_what_spark_has_committed(rig: Rig) -> None:
    rig.stream("s")
    rig.publish("s", 10)
    reader = rig.reader(groupIdPrefix="mine-", maxOffsetsPerTrigger=4)
    start = reader.initialOffset()
    (group,) = rig.holds()
    assert group.startswith("mine-")
    end = reader.latestOffset(start, reader.getDefaultReadLimit())
    assert rig.holds() == {group: 0}  # planned is not committed
    reader.latestOffset(end, reader.getDefaultReadLimit())
    until(lambda: rig.holds() == {group: 4})
    rig.truncate("s", 8)
    # A process that is started again has the same hold: it finds what is not read.
    again = rig.reader(groupIdPrefix="mine-")
    assert rows(again, end, again.latestOffset(end, ALL)) == [4, 5, 6, 7, 8, 9]
    assert rig.holds() == {group: 4}


def test_a_hold_is_renewed_and_ends_with_its_time(rig: Rig) -> None:
    rig.stream("s")
    rig.publish("s", 3)
    reader = rig.reader(holdMs=1000)
    reader.initialOffset()
    until_past(time.time() + 2)
    assert rig.holds()
    assert reader.pins is not None
    reader.pins.renew = lambda offsets: None  # type: ignore[method-assign]  # as if the process had died
    until(lambda: not rig.holds())


def test_a_broker_that_comes_back(rig: Rig) -> None:
    rig.stream("s")
    rig.publish("s", 5)
    reader = rig.reader(retryMs=1000 * WAIT_S)
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    rig.connection.close()
    rig.broker.kill9()
    found: list[list[int]] = []
    thread = threading.Thread(target=lambda: found.append(rows(reader, start, end)))
    thread.start()
    rig.broker.wait_for_a_client()
    rig.broker.start()
    thread.join(WAIT_S)
    assert found == [[0, 1, 2, 3, 4]]
    assert reader.latestOffset(end, ALL) == end


def test_a_broker_that_is_away_at_first_is_waited_for(rig: Rig) -> None:
    rig.stream("s")
    rig.publish("s", 5)
    rig.connection.close()
    rig.broker.stop()
    reader = rig.reader(retryMs=1000 * WAIT_S)
    found: list[Offsets] = []
    thread = threading.Thread(target=lambda: found.append(reader.initialOffset()))
    thread.start()
    rig.broker.wait_for_a_client()
    rig.broker.start()
    thread.join(WAIT_S)
    assert rows(reader, found[0], reader.latestOffset(found[0], ALL)) == [0, 1, 2, 3, 4]


def test_a_broker_that_stays_away_is_an_error(caplog: pytest.LogCaptureFixture) -> None:
    options = parse_options({"forebay.servers": "127.0.0.1:1", "subscribe": "s", "retryMs": "300"})
    with pytest.raises(Unreachable, match=r"no broker answers: 127\.0\.0\.1:1"):
        ForebayStreamReader(options, SCHEMA).initialOffset()
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("no broker answers: 127.0.0.1:1")
    assert said.endswith("waiting for up to 0.3 s (retryMs)")
    with pytest.raises(Unreachable), RemoteLogs(Access("127.0.0.1:1", retry_s=0.0)) as logs:
        logs.look("s")


def test_errors_say_who_asked_where(rig: Rig) -> None:
    who = r"\(user 'guest', vhost '/'\)$"
    with pytest.raises(RequestError, match=rf"^{rig.server}: no queue 'nowhere'.* {who}"):
        rig.reader("nowhere").initialOffset()
    with pytest.raises(RequestError, match=rf"^{rig.server}: Login was refused\..* {who}"):
        rig.reader(forebay__password="wrong").initialOffset()
    with pytest.raises(RequestError, match=r"\(user 'guest', vhost 'v'\)$"):
        rig.reader(forebay__vhost="v").initialOffset()


def test_a_filter_lets_less_through_and_goes_as_far(rig: Rig) -> None:
    rig.stream("s")
    rig.publish("s", 10)
    reader = rig.reader(filter="offset >= 7 OR offset = 2")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    assert ends(end) == {"s": 10}
    assert rows(reader, start, end) == [2, 7, 8, 9]


def test_queues_of_a_vhost(rig: Rig) -> None:
    with ControlClient.connect(rig.server, "guest", "guest") as client:
        client.run("vhost.add", vhost="v")
        client.run("permission.set", user="guest", vhost="v", configure=".*", write=".*", read=".*")
    parameters = pika.ConnectionParameters("127.0.0.1", rig.broker.amqp_port, virtual_host="v")
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("s", durable=True, arguments={"x-queue-type": "stream"})
        channel.basic_publish("", "s", b"there")
    reader = rig.reader(forebay__vhost="v")
    start = reader.initialOffset()
    assert rows(reader, start, reader.latestOffset(start, ALL)) == [0]
    with pytest.raises(RequestError, match="no queue 's'"):
        rig.reader().initialOffset()


def test_no_queue_of_that_name(rig: Rig) -> None:
    with pytest.raises(RequestError, match="no queue 'nowhere'"):
        rig.reader("nowhere").initialOffset()
