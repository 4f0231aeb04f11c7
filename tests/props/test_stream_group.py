"""A stream group beside a list of records: whatever comes between, each reader gets what it wants, in order, once."""

from __future__ import annotations

import tempfile

from hypothesis import given
from hypothesis import strategies as st
from mypy_extensions import u8

from forebay.broker.properties import MessageProperties
from forebay.core.message import AMQP091, EXPIRES, MQTT, Properties
from forebay.queue.leases.lease import UNLIMITED, Consumer, Delivery
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.stream.stream_values import Selection, StreamValues
from forebay.wire.amqp091.properties import encode_properties
from forebay.wire.mqtt.properties import encode_neutral
from tests.logs import memory_log

VALUE = st.one_of(st.none(), st.sampled_from(["", "a", "b", "c"]))
NOW_US = 1_500_000
PAST_MS = 1000  # over at NOW_US, if it was published at 1
EXPIRATION = st.sampled_from([None, PAST_MS, 10_000])
RECORDS = st.lists(st.tuples(VALUE, st.booleans(), st.sampled_from([b"k", b"l"]), EXPIRATION), max_size=12)
WANTED = st.one_of(st.none(), st.lists(st.sampled_from(["", "a", "b", "x"]), min_size=1, max_size=3))


def octets(value: str | None, mqtt: bool, expiration_ms: int | None) -> bytes:
    made = Properties()
    made.expiration_ms = expiration_ms
    if value is not None:
        made.headers = [("other", 1), ("x-stream-filter-value", value)]
    return encode_neutral(made) if mqtt else encode_properties(made)


class Reader:
    """One group with one consumer, and what it should be given."""

    def __init__(self, group: StreamGroup, consumer: Consumer) -> None:
        self.group = group
        self.consumer = consumer
        self.due: list[int] = []
        self.late = 0  # records that it would be given if they had not expired
        self.open: list[Delivery] = []

    def take(self, start: int) -> None:
        """Let it have what its credit allows; what retention took away is not owed any more."""
        self.due = [offset for offset in self.due if offset >= start]
        out: list[Delivery] = []
        while self.group.dispatch(NOW_US, out):
            pass
        got = [each.block.base + each.index + step for each in out for step in range(each.count)]
        assert got == self.due[: len(got)]
        self.due = self.due[len(got) :]
        assert not self.due or self.consumer.credit == 0
        self.open += [each for each in out if each.lease is not None]

    def settle(self) -> None:
        for each in self.open:
            assert each.lease is not None
            self.group.ack(each.lease, each.block.base + each.index, each.count)
        self.open = []


@given(st.data())
def test_readers_get_what_they_want(data: st.DataObject) -> None:
    facts = MessageProperties()
    streams = StreamValues(facts)
    retained = False
    with tempfile.TemporaryDirectory() as folder:
        log = memory_log(folder)
        readers: list[tuple[Reader, list[str] | None, bool, bytes]] = []
        for number in range(data.draw(st.integers(1, 4))):
            wanted, unfiltered = data.draw(WANTED), data.draw(st.booleans())
            filter = data.draw(st.sampled_from([b"", b"k"]))
            group = StreamGroup(number, b"g", filter, log, 0, True, None, facts)
            if wanted is not None:
                group.select(Selection([value.encode() for value in wanted], unfiltered, streams))
            credit = data.draw(st.sampled_from([1, 2, 7, UNLIMITED]))
            consumer = Consumer(number, 1, number, 1, 0, b"", credit == UNLIMITED, credit)
            group.add(consumer)
            readers.append((Reader(group, consumer), wanted, unfiltered, filter))
        for _ in range(data.draw(st.integers(1, 8))):
            step = data.draw(st.sampled_from(["publish", "publish", "read", "settle", "retain"]))
            if step == "publish":
                offset = log.end
                for value, mqtt, key, expiration_ms in data.draw(RECORDS):
                    format = (MQTT if mqtt else AMQP091) | (0 if expiration_ms is None else EXPIRES)
                    log.append(u8(format), b"", key, octets(value, mqtt, expiration_ms), b"x")
                    for reader, wanted, unfiltered, filter in readers:
                        if (not filter or key == b"k") and (
                            wanted is None or (unfiltered if value is None else value in wanted)
                        ):
                            if expiration_ms == PAST_MS:
                                reader.late += 1
                            else:
                                reader.due.append(offset)
                    offset += 1
                log.seal(1)
            elif step == "retain":
                log.truncate(data.draw(st.integers(0, log.end)))
                retained = True
            for reader, *_ in readers:
                if step == "settle":
                    reader.settle()
                if step in {"read", "settle"}:
                    reader.take(log.start)
        for reader, *_ in readers:
            while reader.due:
                reader.settle()
                reader.take(log.start)
            reader.settle()
            reader.take(log.start)  # and what has expired behind the last that is due
            assert reader.group.counts.expired == reader.late or retained
            assert reader.group.counts.expired <= reader.late
