"""The packets of the raw client at version 3.1.1, and its connections."""

from __future__ import annotations

from functools import partial

from tests.broker_process import Dialled
from tests.conformance.mqtt import raw
from tests.conformance.mqtt.raw import PUBCOMP, PUBREC, PUBREL, V311, Raw, acknowledge

connect = partial(raw.connect, version=V311)
connected = partial(raw.connected, version=V311)
publish = partial(raw.publish, version=V311)
subscribe = partial(raw.subscribe, version=V311)
unsubscribe = partial(raw.unsubscribe, version=V311)
will = partial(raw.will, version=V311)


def opened(broker: Dialled, *octets: bytes) -> Raw:
    """A connection on which these octets were sent first."""
    made = Raw(broker, V311)
    made.send(*octets)
    return made


def session(broker: Dialled, client: str, present: bool = False) -> Raw:
    """A connection with CleanSession 0, whose CONNACK must say so of an earlier session."""
    return connected(broker, client, clean=False, present=present)


def mortal(broker: Dialled, client: str, topic: str, body: bytes, flags: int = 4) -> Raw:
    """A connection with a will; `flags` are the will's, of CONNECT."""
    made = opened(broker, connect(client, will=will(topic, body), will_flags=flags))
    made.connack()
    return made


def publish_whole(raw: Raw, topic: str, body: bytes, qos: int = 1, id: int = 1, bits: int = 0) -> None:
    """A publish and all of its exchange: behind it the message is on its way to every subscriber."""
    raw.send(publish(topic, body, qos, id, bits=bits))
    if qos == 0:
        raw.quiet()
    elif qos == 1:
        raw.acked(id)
    else:
        raw.acked(id, kind=PUBREC)
        raw.send(acknowledge(PUBREL, id))
        raw.acked(id, kind=PUBCOMP)
