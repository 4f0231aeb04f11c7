"""Clients of Node come to a node of the cluster that does not lead, and see one broker."""

from __future__ import annotations

import pytest

from tests.cluster.nodes import Cluster
from tests.interop import npm, test_amqplib, test_mqttjs


def test_amqplib_works_by_way_of_a_follower(cluster: Cluster) -> None:
    package = npm.installed("amqplib", test_amqplib.VERSION)
    first, second = cluster.followers()
    test_amqplib.test_a_work_queue(package, first)
    test_amqplib.test_questions_and_answers(package, second)
    test_amqplib.test_what_fails(package, first)


@pytest.mark.parametrize("version", [4, 5])
def test_mqttjs_works_by_way_of_followers(cluster: Cluster, version: int) -> None:
    package = npm.installed("mqtt", test_mqttjs.VERSION)
    first, second = cluster.followers()
    with (
        test_mqttjs.connection(package, first, "reader", version) as reader,
        test_mqttjs.connection(package, second, "writer", version, "mqtt_websocket") as writer,
    ):
        for qos in (1, 2):
            reader.subscribe(f"a/{qos}", qos)
            writer.answer(writer.count(f"a/{qos}", 200, qos))
            assert reader.numbers(200) == list(range(200))
