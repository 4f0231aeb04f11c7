"""Shared subscriptions: queues that come and go with their members."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.broker.consuming.shares import share_filter
from forebay.core.errors import RequestError
from forebay.core.option_names import SHARED_STRATEGIES
from tests.conformance.mqtt.raw import (
    PINGREQ,
    PINGRESP,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Delivery,
    Raw,
    acknowledge,
    unsubscribe,
    user,
)
from tests.conformance.mqtt.v5.flows import (
    LONG_S,
    bodies,
    ids_of,
    message_expiry,
    publish_whole,
    receive_maximum,
    settle,
    subscribed,
    subscription_id,
    take,
)
from tests.mqtt_rig import MqttRig

SHARE = "$share/g/a"


def deliveries(rig: MqttRig, client: Raw) -> list[Delivery]:
    """What has come, not acknowledged."""
    rig.turn()
    client.send(PINGREQ)
    found: list[Delivery] = []
    while (each := client.packet())[0] != PINGRESP[0]:
        found.append(client.parsed(*each))
    return found


def numbered(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


@pytest.mark.parametrize(
    ("filter", "topics"),
    [(b"$share/g/a", b"a"), (b"$share/g/a/#", b"a/#"), (b"$share/g//", b"/"), (b"$share/g/+", b"+")],
)
def test_the_topics_of_a_share(filter: bytes, topics: bytes) -> None:
    assert share_filter(filter) == topics


@pytest.mark.parametrize("filter", [b"$share/", b"$share/g", b"$share/g/", b"$share//a", b"$share/+/a", b"$share/#/a"])
def test_what_is_no_share(filter: bytes) -> None:
    with pytest.raises(RequestError, match=r"not \$share/NAME/FILTER"):
        share_filter(filter)


def test_a_share_goes_with_its_last_member(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    first = subscribed(rig.connected("c0"), (SHARE, 1))
    second = subscribed(rig.durable("c1"), (SHARE, 1))
    first.vanish()
    second.vanish()
    rig.turn()
    assert rig.vhost.catalog.queues
    second = rig.durable("c1", True)
    second.send(unsubscribe(3, SHARE))
    assert second.granted(3, 0xB0) == [0]
    assert not rig.vhost.catalog.queues
    rig.close()


@pytest.mark.parametrize("ends", ["unsubscribes", "expires"])
def test_a_durable_share_whose_only_member_was_a_connection_is_gone_after_a_crash(tmp_path: Path, ends: str) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.connected("clean"), (SHARE, 1))
    last = subscribed(rig.durable("last"), (SHARE, 1))
    if ends == "expires":
        last.vanish()
        rig.later(1000 * LONG_S)
    else:
        last.send(unsubscribe(3, SHARE))
        last.granted(3, 0xB0)
    assert rig.vhost.catalog.queues
    rig.crash()
    assert not rig.vhost.catalog.queues and not rig.vhost.shares.members
    rig.crash()
    assert not rig.vhost.catalog.queues
    rig.close()


def test_a_durable_member_takes_what_is_ready_along(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    first = subscribed(rig.connected("clean", receive_maximum(1)), (SHARE, 1))
    source = rig.connected("source")
    for number in range(4):
        publish_whole(source, "a", b"%d" % number, properties=message_expiry(100))
    held = first.delivery()
    assert held.body == b"0"
    rig.later(10_000)
    second = subscribed(rig.durable("durable"), (SHARE, 1))
    settle(first, held)
    rig.crash()
    second = rig.durable("durable", True)
    found = [take(second) for _ in range(3)]
    assert [each.body for each in found] == numbered(1, 4)
    assert [dict(each.properties)[2] for each in found] == [90] * 3
    second.quiet()
    rig.close()


def test_what_members_with_filters_passed_over_goes_along_too(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    first = rig.connected("clean")
    first.subscribe(SHARE, properties=user("filter", "/n >= 4"))
    source = rig.connected("source")
    for number in range(6):
        publish_whole(source, "a", b'{"n": %d}' % number)
    assert sorted(take(first).body for _ in range(2)) == [b'{"n": 4}', b'{"n": 5}']
    second = rig.durable("durable")
    second.subscribe(SHARE, properties=user("filter", "/n = 2"))
    assert take(second).body == b'{"n": 2}'
    publish_whole(source, "a", b'{"n": 7}')
    assert take(first).body == b'{"n": 7}'  # it has its filter on the new queue as well
    rig.crash()
    second = rig.durable("durable", True)
    second.subscribe(SHARE)
    assert [take(second).body for _ in range(3)] == [b'{"n": 0}', b'{"n": 1}', b'{"n": 3}']
    rig.close()


def test_what_a_member_left_unacknowledged_goes_to_another(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    members = [subscribed(rig.durable(f"d{number}"), (SHARE, 1)) for number in range(2)]
    source = rig.connected("source")
    for number in range(4):
        publish_whole(source, "a", b"%d" % number)
    mine = deliveries(rig, members[0])
    assert len(mine) == 2
    for each in deliveries(rig, members[1]):
        settle(members[1], each)
    settle(members[0], mine[0])
    members[0].vanish()
    assert take(members[1]).body == mine[1].body
    members[1].quiet()
    rig.close()


@pytest.mark.parametrize("strategy", SHARED_STRATEGIES)
def test_every_strategy_gives_all_messages_to_members_with_room(tmp_path: Path, strategy: str) -> None:
    rig = MqttRig(tmp_path, mqtt_shared_strategy=strategy)
    members = [subscribed(rig.connected(f"c{number}", receive_maximum(2)), ("$share/g/+", 1)) for number in range(3)]
    source = rig.connected("source")
    for number in range(7):
        publish_whole(source, f"t{number % 4}", b"%d" % number)
    found = [deliveries(rig, member) for member in members]
    assert [len(each) for each in found] == [2, 2, 2]
    settle(members[1], found[1][0])
    found[1] += deliveries(rig, members[1])
    assert sorted(each.body for some in found for each in some) == numbered(0, 7)
    rig.close()


@pytest.mark.parametrize(
    ("strategy", "one_topic", "one_client", "all_alike"),
    [("hash_topic", 1, 3, False), ("hash_clientid", 3, 1, False), ("sticky", 1, 1, True), ("round_robin", 3, 3, True)],
)
def test_what_a_strategy_keeps_together(
    tmp_path: Path, strategy: str, one_topic: int, one_client: int, all_alike: bool
) -> None:
    """How many of three members get 12 messages of one topic from 12 clients, and of 12 topics from one client."""
    rig = MqttRig(tmp_path, mqtt_shared_strategy=strategy)
    members = [subscribed(rig.connected(f"c{number}"), ("$share/g/#", 1)) for number in range(3)]
    assert receivers(rig, members, [(f"from {n}", "topic") for n in range(12)]) == one_topic
    assert receivers(rig, members, [("source", f"topic {n}") for n in range(12)]) == one_client
    assert all_alike or one_topic != one_client
    rig.close()


def receivers(rig: MqttRig, members: list[Raw], publishes: list[tuple[str, str]]) -> int:
    for client, topic in publishes:
        publish_whole(rig.connected(client), topic)
    count = 0
    for member in members:
        found = deliveries(rig, member)
        for each in found:
            settle(member, each)
        count += bool(found)
    return count


def test_the_member_with_the_fewest_unacknowledged_is_next(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path, mqtt_shared_strategy="least_inflight")
    members = [subscribed(rig.connected(f"c{number}"), (SHARE, 1)) for number in range(2)]
    source = rig.connected("source")
    for number in range(4):
        publish_whole(source, "a", b"%d" % number)
    for each in deliveries(rig, members[1]):
        settle(members[1], each)
    publish_whole(source, "a", b"4")
    publish_whole(source, "a", b"5")
    assert [each.body for each in deliveries(rig, members[1])] == numbered(4, 6)
    rig.close()


def test_qos_2_moves_to_the_session_of_a_durable_member_and_is_in_one_place_after_a_crash(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    members = [subscribed(rig.durable(f"d{number}"), (SHARE, 2)) for number in range(2)]
    publish_whole(rig.connected("source"), "a", b"x", 2)
    found = [deliveries(rig, member) for member in members]
    chosen = 0 if found[0] else 1
    rig.crash()
    members = [rig.durable(f"d{number}", True) for number in range(2)]
    again = members[chosen].delivery()
    assert (again.id, again.body, again.bits) == (found[chosen][0].id, b"x", 8)
    settle(members[chosen], again)
    for member in members:
        member.quiet()
    rig.close()


@pytest.mark.parametrize("ends", ["vanishes", "unsubscribes", "subscribes again"])
def test_qos_2_that_a_clean_member_was_sent_goes_to_nobody_else(tmp_path: Path, ends: str) -> None:
    rig = MqttRig(tmp_path)
    first = subscribed(rig.connected("c0"), (SHARE, 2))
    publish_whole(rig.connected("source"), "a", b"x", 2)
    found = first.delivery()
    second = subscribed(rig.connected("c1"), (SHARE, 2))
    if ends == "vanishes":
        first.vanish()
    elif ends == "unsubscribes":
        first.send(unsubscribe(3, SHARE))
        first.granted(3, 0xB0)
    else:
        subscribed(first, (SHARE, 2))
    second.quiet()
    if ends != "vanishes":
        first.send(acknowledge(PUBREC, found.id))
        first.acked(found.id, kind=PUBREL)
        first.send(acknowledge(PUBCOMP, found.id))
        first.quiet()
    rig.close()


def test_a_repeated_subscription_changes_qos_and_identifier_of_what_comes_later(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    member = subscribed(rig.connected("c"), (SHARE, 2), properties=subscription_id(5))
    source = rig.connected("source")
    publish_whole(source, "a", b"0", 2)
    first = member.delivery()
    subscribed(member, (SHARE, 1), properties=subscription_id(6))
    publish_whole(source, "a", b"1", 2)
    second = take(member)
    assert [(each.qos, ids_of(each)) for each in (first, second)] == [(2, [5]), (1, [6])]
    settle(member, first)
    member.quiet()
    rig.close()


def test_a_share_survives_a_crash_with_what_its_members_are_owed(tmp_path: Path) -> None:
    rig = MqttRig(tmp_path)
    subscribed(rig.durable("d"), (SHARE, 1)).vanish()
    source = rig.connected("source")
    for number in range(5):
        publish_whole(source, "a", b"%d" % number)
        if number == 2:
            rig.checkpoint()
    rig.crash()
    assert bodies(rig.durable("d", True), 5) == numbered(0, 5)
    rig.close()
