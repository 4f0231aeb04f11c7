"""Wills of MQTT 5: at which QoS, retained or not, and after which delay (sections 3.1.2.5, 3.1.3.2)."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.broker_process import AnyBroker, BrokerProcess
from tests.conformance.mqtt.raw import DISCONNECTED, Raw, connect, connected, number, packet, text, user, will
from tests.conformance.mqtt.statements import statement
from tests.conformance.mqtt.v5.flows import LONG_S, expiry, session, subscribed, take


def delay(seconds: int) -> bytes:
    """The Will Delay Interval."""
    return b"\x18" + number(seconds, 4)


def mortal(
    broker: AnyBroker, own: str, flags: int = 0x0C, properties: bytes = b"", lasts_s: int = 0, clean: bool = True
) -> Raw:
    """A client `<own> mortal` with a will on the topic `own`."""
    raw = Raw(broker)
    part = will(own, b"will", properties=properties)
    raw.send(connect(f"{own} mortal", properties=expiry(lasts_s), will=part, will_flags=flags, clean=clean))
    raw.connack()
    return raw


@pytest.fixture
def heir(broker: AnyBroker, own: str) -> Raw:
    """Who hears of the wills of a test."""
    return subscribed(connected(broker, f"{own} heir"), (own, 2))


@statement("MQTT-3.1.2-7", "MQTT-3.1.2-8", "MQTT-3.1.2-14")
@pytest.mark.parametrize("qos", [0, 1, 2])
def test_a_will_is_published_at_its_qos(broker: AnyBroker, own: str, heir: Raw, qos: int) -> None:
    mortal(broker, own, flags=4 | qos << 3).vanish()
    found = take(heir)
    assert (found.topic, found.body, found.qos, found.bits) == (own, b"will", qos, 0)
    subscribed(connected(broker, f"{own} late"), (own, 0)).quiet()  # not retained


@statement("MQTT-3.1.2-15")
def test_a_retained_will(broker: AnyBroker, own: str, heir: Raw) -> None:
    mortal(broker, own, flags=0x2C).vanish()
    assert take(heir).bits == 0
    found = take(subscribed(connected(broker, f"{own} late"), (own, 1)))
    assert (found.body, found.qos, found.bits) == (b"will", 1, 1)


@statement("MQTT-3.1.3-10", "MQTT-3.1.2-8")
def test_the_properties_of_a_will_are_published_with_it(broker: AnyBroker, own: str, heir: Raw) -> None:
    pairs = [("b", "1"), ("a", "2"), ("b", "3"), ("a", "2")]
    properties = b"\x01\x01\x03" + text("t") + b"\x08" + text("r") + b"\x09" + text("d")
    mortal(broker, own, properties=delay(0) + properties + b"".join(user(*pair) for pair in pairs)).vanish()
    found = take(heir).properties
    assert [value for id, value in found if id == 0x26] == pairs
    assert sorted((id, value) for id, value in found if id != 0x26) == [
        (0x01, 1), (0x03, b"t"), (0x08, b"r"), (0x09, b"d")
    ]  # fmt: skip


@statement("MQTT-3.1.2-8")
def test_a_will_waits_for_its_delay(broker: AnyBroker, own: str, heir: Raw) -> None:
    raw = mortal(broker, own, properties=delay(1), lasts_s=LONG_S)
    started = broker.now()
    raw.vanish()
    assert take(heir).body == b"will"
    assert broker.now() - started >= 1


@statement("MQTT-3.1.2-8")
def test_a_will_does_not_wait_beyond_the_session(broker: AnyBroker, own: str, heir: Raw) -> None:
    mortal(broker, own, properties=delay(LONG_S), lasts_s=0).vanish()
    assert take(heir).body == b"will"
    raw = mortal(broker, own, properties=delay(LONG_S), lasts_s=1)
    started = broker.now()
    raw.vanish()
    assert take(heir).body == b"will"
    assert broker.now() - started >= 1


@statement("MQTT-3.1.3-9", "MQTT-3.1.2-8")
def test_who_comes_back_within_the_delay_lives(broker: AnyBroker, own: str, heir: Raw) -> None:
    mortal(broker, own, properties=delay(LONG_S), lasts_s=LONG_S).vanish()
    raw = session(broker, f"{own} mortal", present=True)
    heir.quiet()
    raw.vanish()  # this connection had no will
    heir.quiet()


@statement("MQTT-3.1.2-8")
def test_a_clean_start_within_the_delay_ends_the_session_and_publishes_the_will(
    broker: AnyBroker, own: str, heir: Raw
) -> None:
    mortal(broker, own, properties=delay(LONG_S), lasts_s=LONG_S).vanish()
    connected(broker, f"{own} mortal")
    assert take(heir).body == b"will"
    heir.quiet()


@statement("MQTT-3.1.2-10")
def test_a_will_is_published_once(broker: AnyBroker, own: str, heir: Raw) -> None:
    mortal(broker, own, lasts_s=LONG_S).vanish()
    assert take(heir).body == b"will"
    session(broker, f"{own} mortal", present=True).vanish()
    heir.quiet()


@statement("MQTT-3.1.2-10", "MQTT-3.14.4-3")
def test_disconnect_takes_a_will_with_delay_back(broker: AnyBroker, own: str, heir: Raw) -> None:
    mortal(broker, own, properties=delay(LONG_S), lasts_s=LONG_S).leave()
    connected(broker, f"{own} mortal")  # the session ends here, and would publish it
    heir.quiet()


@statement("MQTT-3.1.2-8")
def test_a_will_that_disconnect_asks_for_waits_for_its_delay_too(broker: AnyBroker, own: str, heir: Raw) -> None:
    raw = mortal(broker, own, properties=delay(LONG_S), lasts_s=LONG_S)
    raw.send(packet(DISCONNECTED, b"\x04"))
    assert raw.ended()
    heir.quiet()
    connected(broker, f"{own} mortal")
    assert take(heir).body == b"will"


@statement("MQTT-3.1.2-7", "MQTT-3.1.2-8")
def test_a_will_that_waits_survives_the_broker(start_process: Callable[..., BrokerProcess]) -> None:
    broker = start_process()
    subscribed(session(broker, "heir"), ("own", 1))
    mortal(broker, "own", properties=delay(1), lasts_s=LONG_S).vanish()
    broker.kill9()
    broker.start()
    assert take(session(broker, "heir", present=True)).body == b"will"


@statement("MQTT-3.1.3-9", "MQTT-3.1.2-8")
@pytest.mark.parametrize("seconds", [0, LONG_S])
def test_a_session_that_is_taken_over(broker: AnyBroker, own: str, heir: Raw, seconds: int) -> None:
    raw = mortal(broker, own, properties=delay(seconds), lasts_s=LONG_S)
    session(broker, f"{own} mortal", present=True)
    raw.refused(0x8E)
    if seconds == 0:  # the connection was closed, and there was nothing to wait for
        assert take(heir).body == b"will"
    heir.quiet()


@statement("MQTT-3.1.2-7")
def test_the_will_of_a_session_is_that_of_its_last_connection(broker: AnyBroker, own: str, heir: Raw) -> None:
    mortal(broker, own, properties=delay(LONG_S), lasts_s=LONG_S).vanish()
    raw = Raw(broker)
    part = will(own, b"another")
    raw.send(connect(f"{own} mortal", properties=expiry(LONG_S), will=part, clean=False))
    raw.connack(present=True)
    raw.vanish()
    assert take(heir).body == b"another"
    heir.quiet()
