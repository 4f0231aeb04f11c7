"""Several vhosts over one store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from forebay.broker.internal_log import SESSIONS_LOG
from forebay.broker.mqtt.client_session import Subscription, Will
from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, NOT_ALLOWED, NOT_FOUND, RequestError
from forebay.core.message import AMQP091, MQTT, UNROUTABLE
from forebay.directory.logins.authorizer import Principal
from tests.vhosts import OneVhost

QOS_1 = MQTT | 1 << 4


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[OneVhost]:
    made = OneVhost(tmp_path, users={"bob": "b"})
    yield made
    made.close()


def handed(rig: OneVhost) -> list[bytes]:
    """End a turn; the bodies that it delivers."""
    return [each.block.body(each.index + at) for each in rig.deliveries() for at in range(each.count)]


def put(vhost: Vhost, queue: bytes, body: bytes) -> None:
    vhost.touch()
    vhost.publishing.publish(vhost.router.route(b"", queue), AMQP091, b"", body)


def drain(rig: OneVhost, vhost: Vhost, queue: bytes) -> list[bytes]:
    consumer = vhost.consumers.consume(queue, 1, 1, b"t", True, False, 0, {})
    vhost.touch()
    bodies = handed(rig)
    vhost.consumers.cancel(consumer)
    return bodies


def test_queues_of_one_name_in_two_vhosts_are_apart_also_after_a_crash(rig: OneVhost) -> None:
    one = rig.vhosts.add(b"one")
    for vhost in rig.vhosts.all():
        vhost.catalog.declare_queue(b"q", True, False, False, {}, 1)
    assert one.catalog.queues[b"q"].id != rig.vhosts.by_name[b"/"].catalog.queues[b"q"].id
    put(one, b"q", b"in one")
    put(rig.vhosts.by_name[b"/"], b"q", b"in the default")
    rig.turn()
    rig.crash()
    assert [vhost.name for vhost in rig.vhosts.all()] == [b"/", b"one"]
    assert drain(rig, rig.vhosts.find(b"one"), b"q") == [b"in one"]
    assert drain(rig, rig.vhosts.by_name[b"/"], b"q") == [b"in the default"]


def test_sessions_and_retained_messages_of_two_vhosts_are_apart_also_after_a_crash(rig: OneVhost) -> None:
    rig.vhosts.add(b"one")
    for vhost in rig.vhosts.all():
        client = vhost.sessions.attach(b"c", 7, False, 1000, None)
        vhost.clients.subscribe(client, Subscription(client, b"t", 1, 0))
        vhost.clients.detach(client, 7)
        vhost.publishing.publish_topic(b"t", QOS_1, b"", b"for " + vhost.name)
        vhost.publishing.retain(b"kept", MQTT, b"", b"kept in " + vhost.name)
        vhost.touch()
    rig.turn()
    rig.crash()
    for vhost in rig.vhosts.all():
        client = vhost.sessions.clients[b"c"]
        assert client.mqueue.count == 1
        log = vhost.sessions.log
        block = log.block(log.start)
        assert block is not None
        assert block.body(0) == b"for " + vhost.name
        message = vhost.retained.message(vhost.retained.numbers(b"kept")[0], rig.clock.us)
        assert message is not None
        assert message.body == b"kept in " + vhost.name


@pytest.mark.parametrize("synced", [True, False])
def test_a_deleted_vhost_is_gone_with_its_logs(rig: OneVhost, synced: bool) -> None:
    one = rig.vhosts.add(b"one")
    queue = one.catalog.declare_queue(b"q", True, False, False, {}, 1)
    put(one, b"q", b"x")
    rig.turn()
    rig.vhosts.delete(b"one")
    assert rig.vhosts.deleted == [one]
    outcome = one.publishing.publish(one.router.route(b"", b"q"), AMQP091, b"", b"of a connection that is not told yet")
    assert outcome.status == UNROUTABLE
    if synced:
        rig.turn()
    rig.crash()
    names = [vhost.name for vhost in rig.vhosts.all()]
    assert names == ([b"/"] if synced else [b"/", b"one"])
    assert (queue.id in rig.store.logs.stored) is not synced
    if synced:
        again = rig.vhosts.add(b"one")
        assert again.number > one.number
        assert not again.catalog.queues


def test_an_exclusive_queue_of_a_deleted_vhost_goes_once(rig: OneVhost) -> None:
    one = rig.vhosts.add(b"one")
    one.catalog.declare_queue(b"mine", False, True, False, {}, 7)
    rig.vhosts.delete(b"one")
    one.session_closed(7)
    rig.turn()
    rig.crash()
    assert [vhost.name for vhost in rig.vhosts.all()] == [b"/"]


def test_numbers_of_vhosts_and_queues_are_never_given_twice(rig: OneVhost) -> None:
    one = rig.vhosts.add(b"one")
    first = one.catalog.declare_queue(b"q", True, False, False, {}, 1).id
    rig.vhosts.delete(b"one")
    rig.turn()
    rig.crash()
    two = rig.vhosts.add(b"two")
    assert two.number == one.number + 1
    assert two.catalog.declare_queue(b"q", True, False, False, {}, 1).id > first


def test_a_log_is_of_the_vhost_that_has_it(rig: OneVhost) -> None:
    one = rig.vhosts.add(b"one")
    queue = one.catalog.declare_queue(b"q", True, False, False, {}, 1)
    put(one, b"q", b"x")
    rig.turn()
    assert rig.vhosts.of_log(queue.id) is one
    assert rig.vhosts.of_log(SESSIONS_LOG) is rig.vhosts.by_name[b"/"]
    assert rig.vhosts.of_log(one.sessions.number) is one
    assert rig.vhosts.of_log(one.delayed.number) is one
    assert rig.vhosts.of_log(12345) is None
    assert rig.vhosts.needed(queue.id, 0, 1) == [(0, 1)]
    assert rig.vhosts.needed(12345, 0, 1) == []


def test_the_room_on_the_disk_is_counted_once_for_all(rig: OneVhost) -> None:
    one = rig.vhosts.add(b"one")
    for vhost in rig.vhosts.all():
        vhost.catalog.declare_queue(b"q", True, False, False, {}, 1)
    rig.turn()
    before = rig.vhosts.shared.room.octets
    put(rig.vhosts.by_name[b"/"], b"q", b"x" * 1000)
    middle = rig.vhosts.shared.room.octets
    put(one, b"q", b"x" * 1000)
    assert before - middle == middle - rig.vhosts.shared.room.octets >= 1000
    assert rig.vhosts.shared.room.gathered() >= 2000


def test_an_idle_vhost_takes_no_part_in_a_turn(rig: OneVhost) -> None:
    one = rig.vhosts.add(b"one")
    rig.turn()
    rig.turn()
    assert rig.vhosts.busy == []
    rig.tick()
    rig.turn()
    assert rig.vhosts.busy == []
    one.catalog.declare_queue(b"q", True, False, False, {}, 1)
    put(one, b"q", b"x")
    rig.turn()
    assert rig.vhosts.busy == [one]


def test_a_vhost_that_takes_part_again_knows_the_time_of_the_turn_before(rig: OneVhost) -> None:
    one = rig.vhosts.add(b"one")
    rig.turn()
    rig.clock.us += 50_000  # and no tick, with which all learn what time it is
    put(rig.vhosts.by_name[b"/"], b"nowhere", b"x")
    rig.turn()
    assert one.now_us() < rig.clock.us
    one.touch()
    assert one.now_us() == rig.clock.us, "or else what has expired since is delivered"


def test_readers_of_a_stream_in_any_vhost_hear_of_what_is_on_disk(rig: OneVhost) -> None:
    one = rig.vhosts.add(b"one")
    one.catalog.declare_queue(b"s", True, False, False, {"x-queue-type": "stream"}, 1)
    consumer = one.consumers.consume(b"s", 1, 1, b"t", False, False, 100, {"x-stream-offset": "first"})
    rig.turn()
    put(one, b"s", b"x")
    found = handed(rig)
    assert rig.vhosts.syncing == []
    assert found + handed(rig) == [b"x"]
    rig.turn()
    assert rig.vhosts.busy == []
    one.consumers.cancel(consumer)


def test_what_time_finds_to_do_in_a_vhost_is_done_though_nobody_touched_it(rig: OneVhost) -> None:
    one = rig.vhosts.add(b"one")
    client = one.sessions.attach(b"c", 7, False, 1000, Will(b"t", b"gone", b"", 1, False, 0))
    watcher = one.sessions.attach(b"w", 8, False, 1000, None)
    one.clients.subscribe(watcher, Subscription(watcher, b"t", 1, 0))
    rig.turn()
    rig.turn()
    one.clients.detach(client, 7)
    was_due = rig.broker.is_due
    rig.tick()
    assert (was_due, rig.broker.is_due) == (False, True), "nobody has said that anything is to be done"
    assert handed(rig) == [b"gone"]


def test_settings_outlive_a_crash(rig: OneVhost) -> None:
    one = rig.vhosts.add(b"one")
    rig.vhosts.change(one, {"description": "for tests", "tags": ["a"], "default_queue_type": "stream", "queues_max": 3})
    rig.turn()
    rig.crash()
    assert rig.vhosts.find(b"one").catalog.settings.fields() == {
        "description": "for tests",
        "tags": ["a"],
        "default_queue_type": "stream",
        "connections_max": -1,
        "queues_max": 3,
        "octets_max": -1,
        "protected": False,
    }


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("description", 1),
        ("tags", "a"),
        ("tags", [1]),
        ("default_queue_type", "bogus"),
        ("connections_max", -2),
        ("queues_max", True),
        ("nonsense", 1),
    ],
)
def test_a_wrong_setting_is_refused_and_changes_nothing(rig: OneVhost, field: str, value: object) -> None:
    one = rig.vhosts.add(b"one")
    before = one.catalog.settings.fields()
    with pytest.raises(RequestError, match=field) as caught:
        rig.vhosts.change(one, {"description": "new", field: value})
    assert caught.value.reason == INVALID
    assert one.catalog.settings.fields() == before


def test_what_cannot_be(rig: OneVhost) -> None:
    with pytest.raises(RequestError, match="vhost nope not found") as caught:
        rig.vhosts.find(b"nope")
    assert caught.value.reason == NOT_ALLOWED
    for name in (b"", b"x" * 256):
        with pytest.raises(RequestError) as caught:
            rig.vhosts.add(name)
        assert caught.value.reason == INVALID
    with pytest.raises(RequestError) as caught:
        rig.vhosts.delete(b"nope")
    assert caught.value.reason == NOT_FOUND
    assert rig.vhosts.add(b"/") is rig.vhosts.by_name[b"/"]


def test_no_more_connections_than_the_limit(rig: OneVhost) -> None:
    one = rig.vhosts.add(b"one")
    rig.vhosts.change(one, {"connections_max": 1})
    rig.vhosts.enter(b"one", Principal("bob"), 1)
    with pytest.raises(RequestError, match=r"refused for user 'bob': connection limit \(1\) is reached") as caught:
        rig.vhosts.enter(b"one", Principal("bob"), 2)
    assert caught.value.reason == NOT_ALLOWED
    one.session_closed(1)
    rig.vhosts.enter(b"one", Principal("bob"), 2)
    assert one.entered == {2}
