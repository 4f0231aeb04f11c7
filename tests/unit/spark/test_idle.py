"""Connections that are kept for the next who asks are few, whatever brokers and users come and go."""

from __future__ import annotations

import os
from dataclasses import replace

from forebay.client.blocks import TIMEOUT_S, BlockClient
from forebay.spark.access import Access
from forebay.spark.idle import IDLE_MAX, IdleConnections
from forebay.spark.reading.logs import RemoteLogs
from tests.broker_process import BrokerProcess


def access_to(broker: BrokerProcess) -> Access:
    return Access(servers=f"127.0.0.1:{broker.amqp_port}")


def test_reads_under_many_names_leave_few_sockets_open(broker: BrokerProcess) -> None:
    access = access_to(broker)
    before = len(os.listdir("/proc/self/fd"))
    for number in range(4 * IDLE_MAX):
        with RemoteLogs(replace(access, retry_s=number)) as logs:
            assert logs.names("x.*") == []
    assert len(os.listdir("/proc/self/fd")) <= before + IDLE_MAX


def test_the_newest_is_taken_and_the_oldest_is_closed(broker: BrokerProcess) -> None:
    kept = IdleConnections[BlockClient](most=2)
    here, there = access_to(broker), replace(access_to(broker), retry_s=0)
    first, second, third = (here.connect(BlockClient, TIMEOUT_S) for _ in range(3))
    kept.leave(here, first)
    kept.leave(there, second)
    kept.leave(here, third)
    assert not first.is_idle
    assert kept.take(here) is third
    assert kept.take(here) is None
    kept.close(there)
    assert kept.take(there) is None
    assert not second.is_idle
    assert list(third.queues()) == []
    third.close()
