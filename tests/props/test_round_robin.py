"""Consumers that are alike get as many records, give or take one, however the records come."""

from __future__ import annotations

import tempfile

from hypothesis import given, settings
from hypothesis import strategies as st

from forebay.core.message import MQTT
from forebay.queue.declaration.limits import Limits
from forebay.queue.fairness import BURST
from forebay.queue.leases.lease import UNLIMITED, Consumer, Delivery
from forebay.queue.stream.stream_group import StreamGroup
from forebay.queue.work.work_group import WorkGroup
from tests.examples import examples
from tests.logs import memory_log

KINDS = ["work", "ordered", "stream"]


@settings(max_examples=examples(100), deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    count=st.integers(2, 9),
    turns=st.lists(st.lists(st.integers(1, 40), min_size=1, max_size=4), max_size=12),
    window=st.sampled_from([1000, UNLIMITED]),
    no_ack=st.booleans(),
)
def test_counts_differ_by_one_at_most(kind: str, count: int, turns: list[list[int]], window: int, no_ack: bool) -> None:
    with tempfile.TemporaryDirectory() as folder:
        log = memory_log(folder)
        group: WorkGroup | StreamGroup
        if kind == "stream":
            group = StreamGroup(1, b"", b"", log, 0, True)
        else:
            group = WorkGroup(1, b"", b"", log, 0, Limits())
            if kind == "ordered":
                group.ready_queue.make_ordered(False)
        for id in range(count):
            group.add(Consumer(id, 1, 1, id, 0, b"", no_ack, window))
        found = [0] * count
        for blocks in turns:
            for records in blocks:
                for _ in range(records):
                    log.append(MQTT, b"", b"k", b"", b"x")
                log.seal(1)
            log.durable_end = log.end
            assert sum(blocks) < 2 * BURST
            out: list[Delivery] = []
            group.dispatch(1, out)
            for delivery in out:
                found[delivery.consumer.id] += delivery.count
                if delivery.lease is not None:
                    group.ack(delivery.lease, delivery.lease.first, delivery.count)
            assert max(found) - min(found) <= 1
        assert sum(found) == sum(sum(blocks) for blocks in turns)
