"""The end of a run: everything is deleted, and nothing of it may be left in the broker."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.conformance.amqp091.raw import method, short
from tests.conformance.mqtt import raw as raw_mqtt
from tests.conformance.mqtt.raw import V5
from tests.simulation.broker import Broker
from tests.simulation.clients.admin import PREFACE, asked
from tests.simulation.clients.channel import DELETE, opening
from tests.simulation.clients.mqtt import RETAIN
from tests.simulation.disk import SimDisk
from tests.simulation.model.promises import check
from tests.stores import TestClock

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation

LONG_MS: Final = 3_600_000  # no memory of publishes, delay or expiry is as long
LONG: Final = 4
IDLE_S: Final = 5  # in which there was nothing to do


def clear_up(simulation: Simulation) -> None:
    """Delete all that clients have made, let time go by, and count what is left."""
    broker = simulation.broker
    for client in simulation.clients():
        client.cut(broker)
    inside = broker.inside()
    users, policies = list(inside.users()), list(inside.policies())
    vhosts = [model.name for model in simulation.vhosts.there() if model.name != "/"]
    names = [name.decode() for name in broker.real.vhosts.by_name[b"/"].catalog.queues]
    say(broker, queues_away(names))
    for client in simulation.sessions():
        say(broker, raw_mqtt.connect(client.client_id, V5) + raw_mqtt.DISCONNECT)
    topics = list(inside.retained(len))
    say(broker, raw_mqtt.connect("last") + b"".join(raw_mqtt.publish(topic, bits=RETAIN) for topic in topics))
    say(broker, PREFACE + b"".join(asked(each) for each in all_away(users, policies, vhosts)))
    fresh = Broker(SimDisk(), TestClock())
    fresh = Broker(disk_of(fresh), TestClock())
    left, first = [idle(each) for each in (broker, fresh)]
    wrong = {name: (count, first[name]) for name, count in left.items() if count > first[name]}
    check(not wrong, f"everything was deleted, and there is more than at first: {wrong}")


def say(broker: Broker, octets: bytes) -> None:
    """Open a connection, say all of this, and go."""
    line = broker.connect()
    broker.receive(line, octets)
    broker.quiet()
    broker.cut(line)
    broker.quiet()


def queues_away(names: list[str]) -> bytes:
    """The octets of a client of AMQP that deletes these queues."""
    octets = opening()
    for name in names:
        octets += method(1, DELETE, b"\0\0" + short(name) + b"\0")
    return octets


def all_away(users: list[str], policies: list[str], vhosts: list[str]) -> list[dict[str, object]]:
    """The requests of an administrator that deletes these."""
    requests: list[dict[str, object]] = [{"op": "auth", "user": "guest", "password": "guest"}]
    for name in users:
        requests.append({"op": "control", "do": "user.delete", "user": name})
    for name in policies:
        requests.append({"op": "control", "do": "policy.clear", "vhost": "/", "policy": name})
    for name in vhosts:
        requests.append({"op": "control", "do": "vhost.delete", "vhost": name})
    return requests


def idle(broker: Broker) -> dict[str, int]:
    """Let the broker do all that comes with time; how many there are then."""
    for _ in range(LONG):
        broker.later(LONG_MS)
        broker.quiet()
    idle_s = 0
    while idle_s < IDLE_S:
        broker.later(1000)
        broker.quiet()
        idle_s = 0 if broker.job is not None else idle_s + 1
        broker.end_job()
    return counted(broker)


def counted(broker: Broker) -> dict[str, int]:
    """How many there are of all that costs memory."""
    node = broker.real
    vhost = node.vhosts.by_name[b"/"]
    sessions = vhost.sessions
    return {
        "connections": len(node.connections) + len(node.open),
        "vhosts": len(node.vhosts.by_name) + len(node.vhosts.by_number) + len(node.vhosts.busy),
        "connections that wait": len(node.dirty) + len(node.waiting) + len(node.endings.farewells),
        "queues": len(vhost.catalog.queues) + len(vhost.catalog.queues_by_id),
        "bindings": len(vhost.catalog.bindings.list_all()),
        "sessions": len(sessions.clients) + len(sessions.by_number) + len(sessions.offline) + len(sessions.connected),
        "subscriptions": len(vhost.fanout.subscriptions),
        "shared subscriptions": len(vhost.shares.members),
        "records for sessions": int(sessions.log.end - sessions.log.start),
        "retained messages": int(vhost.retained.count()),
        "delayed messages": int(vhost.delayed.count()),
        "publishes that are known": len(vhost.deduplication.offsets),
        "users": len(node.vhosts.directory.users.by_name),
        "permissions": len(node.vhosts.directory.users.permissions),
        "policies": len(vhost.catalog.policies.listed(False)),
        "logs": len(node.store.logs.stored),
        "files": len(disk_of(broker).handles),
    }


def disk_of(broker: Broker) -> SimDisk:
    disk = broker.disk
    assert isinstance(disk, SimDisk)
    return disk
