"""Sessions that do not keep up: when others wait for them, and when no more."""

from __future__ import annotations

import pytest

from forebay.broker.mqtt.client_session import ClientSession
from forebay.broker.mqtt.crowding import DURABLE_HOLD_US, Crowding
from forebay.core.message import MQTT
from forebay.log.block import BlockWriter
from forebay.queue.leases.lease import UNLIMITED, Consumer
from forebay.queue.mqueue import LOWEST, MqueueRules

LIMIT = 80
STEP = LIMIT // 8
HOLD_US = 1000
CONSUMER = Consumer(0, 0, 0, 1, 0, b"", True, UNLIMITED)
WRITER = BlockWriter()
WRITER.append(MQTT, b"", b"t", b"", b"x")
BLOCK = WRITER.seal(0, 1, False)


def client(durable: bool = False) -> ClientSession:
    rules = MqueueRules(0, True, {}, LOWEST)
    rules.crowd_at = LIMIT
    made = ClientSession(1, b"c", durable, 600 if durable else 0, rules)
    made.connection = 7
    return made


def crowding(hold_us: int = HOLD_US) -> Crowding:
    made = Crowding()
    made.hold_us = hold_us
    return made


def wait(client: ClientSession, count: int) -> None:
    """Let so many messages wait, no more and no less."""
    more = count - client.mqueue.count
    if more > 0:
        client.mqueue.push(CONSUMER, BLOCK, client.mqueue.count, more, False, 0)
    while client.mqueue.count > count:
        assert client.mqueue.head()
        client.mqueue.take(1)


def test_a_session_is_crowded_above_the_limit_and_relieved_well_below_it() -> None:
    found, who = crowding(), client()
    for count, crowded in [(LIMIT, False), (LIMIT + 1, True)]:
        wait(who, count)
        found.check(who, 0)
        assert (who.crowded, found.count) == (crowded, int(crowded))
    for count, crowded in [(LIMIT - STEP + 1, True), (LIMIT - STEP, False)]:
        wait(who, count)
        found.look(who, 0)
        assert (who.crowded, found.relieved) == (crowded, not crowded)


@pytest.mark.parametrize("durable", [False, True])
def test_a_session_that_gets_no_further_is_given_up(durable: bool) -> None:
    found, who = crowding(10 * DURABLE_HOLD_US), client(durable)
    bound_us = DURABLE_HOLD_US if durable else 10 * DURABLE_HOLD_US
    wait(who, LIMIT + 5)
    found.check(who, 0)
    found.tick(bound_us - 1)
    assert found.count == 1
    found.tick(bound_us)
    assert (who.crowded, who.given_up, found.relieved) == (False, True, True)
    assert who.mqueue.limit == (0 if durable else LIMIT)
    found.check(who, 0)
    assert found.count == 0, "nobody waits twice for one that has not caught up"
    wait(who, LIMIT - STEP)
    found.look(who, 0)
    assert (who.given_up, who.mqueue.limit) == (False, 0)


def test_one_that_gets_further_is_waited_for_however_much_came_meanwhile() -> None:
    found, who = crowding(), client()
    wait(who, LIMIT + 1)
    found.check(who, 0)
    wait(who, 5 * LIMIT)
    found.check(who, 1)
    wait(who, 5 * LIMIT - STEP + 1)
    found.look(who, HOLD_US - 2)
    wait(who, 5 * LIMIT - STEP)
    found.look(who, HOLD_US - 1)
    found.tick(HOLD_US)
    assert found.count == 1
    found.tick(2 * HOLD_US - 1)
    assert who.given_up


def test_a_connection_that_takes_no_more_crowds_its_session() -> None:
    found, who = crowding(), client(True)
    who.full = True
    found.check(who, 0)
    assert who.crowded and who.crowded_until_us == HOLD_US
    found.look(who, 0)
    assert found.count == 1
    who.full = False
    found.look(who, 0)
    assert found.count == 0


def test_where_nobody_is_held_back_the_limit_holds_at_once() -> None:
    found, who = crowding(0), client()
    wait(who, LIMIT + 1)
    found.check(who, 0)
    assert (who.crowded, who.given_up, who.mqueue.limit) == (False, True, LIMIT)


def test_one_whose_connection_is_gone_holds_nobody() -> None:
    found, who = crowding(), client(True)
    wait(who, LIMIT + 1)
    found.check(who, 0)
    found.relieve(who)
    who.connection = 0
    found.check(who, 0)
    assert (found.count, who.crowded) == (0, False)
