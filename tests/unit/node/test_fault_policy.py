"""An error in the midst of a change of what all connections share stops the broker, and any other error does not."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from forebay.core.errors import RequestError
from forebay.core.message import AMQP091
from forebay.node.fault_policy import stops_broker
from forebay.node.ready import OWN_STATE
from forebay.session.amqp091.modes import on_tx_commit
from tests.conformance.amqp091 import raw as amqp
from tests.node_rig import NodeRig
from tests.vhosts import OneVhost

Change = Callable[[OneVhost], object]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[OneVhost]:
    made = OneVhost(tmp_path)
    made.declare(b"q")
    yield made
    made.close()


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[NodeRig]:
    made = NodeRig(tmp_path)
    yield made
    made.close()


def publish(broker: OneVhost) -> None:
    route = broker.vhost.router.route(b"", b"q")
    cast(Any, route).queues = [broker.vhost.catalog.queues[b"q"], object()]  # the second takes nothing
    broker.vhost.publishing.publish(route, AMQP091, b"", b"body")


def ack(broker: OneVhost) -> None:
    broker.publish(b"", b"q", b"body")
    lease = broker.taken(b"q")
    cast(Any, broker.vhost.catalog.queues_by_id)[int(lease.consumer.queue)] = object()
    broker.vhost.settling.ack(lease, 0, 1)


def consume(broker: OneVhost) -> None:
    cast(Any, broker.vhost.consumers.by_session)[1] = object()
    broker.vhost.consumers.consume(b"q", 1, 1, b"c", False, False, 0, {})


def bind(broker: OneVhost) -> None:
    cast(Any, broker.vhost.catalog.bindings.exchanges)[b"amq.direct"] = object()
    broker.vhost.catalog.bind(b"q", b"amq.direct", b"k", {})


def purge(broker: OneVhost) -> None:
    cast(Any, broker.vhost.catalog.queues[b"q"].groups)[1] = object()
    broker.vhost.upkeep.purge(b"q")


def delete_vhost(broker: OneVhost) -> None:
    broker.broker.vhosts.add(b"other")
    cast(Any, broker.broker.vhosts.by_name)[b"other"] = object()
    broker.broker.vhosts.delete(b"other")


@pytest.mark.parametrize("change", [publish, ack, consume, bind, purge, delete_vhost])
def test_an_error_in_the_midst_of_a_change_stops_the_broker(broker: OneVhost, change: Change) -> None:
    with pytest.raises((AttributeError, TypeError)) as found:
        change(broker)
    assert stops_broker(found.value)


@pytest.mark.parametrize(
    "read",
    [
        lambda broker: broker.vhost.catalog.is_topic_exchange(cast(Any, [])),
        lambda broker: broker.vhost.catalog.queue(cast(Any, 7)),
        lambda broker: broker.vhost.router.route(b"", cast(Any, 7)),
    ],
)
def test_an_error_where_nothing_is_changed_does_not(broker: OneVhost, read: Change) -> None:
    with pytest.raises((AttributeError, TypeError)) as found:
        read(broker)
    assert not stops_broker(found.value)


def test_a_refusal_changes_nothing_and_does_not(broker: OneVhost) -> None:
    with pytest.raises(RequestError) as found:
        broker.vhost.upkeep.purge(b"nothing of that name")
    assert not stops_broker(found.value)


def test_half_a_transaction_stops_the_broker(rig: NodeRig) -> None:
    with amqp.connect(rig) as client:
        client.send(amqp.method(1, (90, 10), b""))  # tx.select
        client.expect(1, (90, 11))
        session: Any = rig.lines[0].session
        channel = session.channels[1]
        channel.transaction.settlements.append(object())
        with pytest.raises((AttributeError, TypeError)) as found:
            on_tx_commit(session, channel)
        assert stops_broker(found.value)
        rig.broker.failed(rig.lines[0], found.value)
        ready = rig.node.turn()
        assert ready.stop is not None and ready.stop.why == OWN_STATE and ready.commit is None
