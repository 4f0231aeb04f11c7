"""Rude clients of CoAP, six at a time: garbage, floods, halves of bodies, observers that vanish."""

from __future__ import annotations

import statistics
import threading
import time
from pathlib import Path
from random import Random

from tests.admin.clients import mqtt
from tests.broker_process import BrokerProcess, running
from tests.conformance.coap.raw import (
    ACK,
    BLOCK1,
    BLOCK2,
    CHANGED,
    CON,
    GET,
    GUEST,
    NON,
    OBSERVE,
    PUT,
    RST,
    Client,
    Message,
    block,
    client,
    encode,
    metric,
)
from tests.rude import AT_ONCE, SECONDS, SEED
from tests.waiting import until

LATENCY_S_MAX = 1.0  # a guard, where an idle broker takes milliseconds: the machine may be busy
MEMORY = 4 << 20
WAIT_S = 60


def garbage(rude: Client, chance: Random) -> None:
    """Send octets that are nothing, or a request that is cut off, or with a bit turned."""
    octets = bytearray(encode(rude.make(PUT, "publish/rude", GUEST, payload=chance.randbytes(20))))
    way = chance.randrange(3)
    if way == 0:
        octets = bytearray(chance.randbytes(chance.randrange(1, 2000)))
    elif way == 1:
        del octets[chance.randrange(len(octets)) :]
    else:
        octets[chance.randrange(len(octets))] ^= 1 << chance.randrange(8)
    if octets:
        rude.send(bytes(octets))


def flood(rude: Client, chance: Random) -> None:
    """Send many requests at once and hear none of the answers, each with a message ID of its own."""
    for _ in range(100):
        password = chance.choice(("guest", "guest", "wrong"))
        rude.send(encode(rude.make(PUT, "publish/rude", ("user=guest", f"password={password}"), payload=b"x")))


def repeat(rude: Client, chance: Random) -> None:
    """Send the same request many times."""
    octets = encode(rude.make(PUT, "publish/rude", GUEST, payload=b"x", type=chance.choice((CON, NON))))
    for _ in range(50):
        rude.send(octets)


def begin_body(rude: Client, chance: Random) -> None:
    """Send some blocks of a body, perhaps with one left out, and never the last."""
    topic = f"publish/rude/{chance.randrange(1000)}"
    for index in sorted(chance.sample(range(20), chance.randrange(1, 20))):
        options = [(BLOCK1, block(index, True, 6))]
        rude.send(encode(rude.make(PUT, topic, GUEST, options, bytes(1024))))


def observe(rude: Client, chance: Random) -> None:
    """Observe, and acknowledge nothing, or what was never sent."""
    path = chance.choice(("topic/rude", "subscribe/#", "subscribe/rude/+"))
    rude.send(encode(rude.make(GET, path, GUEST, [(OBSERVE, chance.choice((b"", b"\1", b"\7")))])))
    for _ in range(chance.randrange(10)):
        rude.send(encode(Message(chance.choice((ACK, RST)), 0, chance.randrange(65_536), b"")))


def read(rude: Client, chance: Random) -> None:
    """Ask for any block of what is retained."""
    options = [(BLOCK2, block(chance.randrange(1 << 20), False, chance.randrange(7)))]
    rude.send(encode(rude.make(GET, "topic/rude", GUEST, options)))


def hear(rude: Client, chance: Random) -> None:
    """Acknowledge what has come."""
    for _ in range(20):
        found = rude.hear(0.001)
        if found is None:
            return
        if chance.random() < 0.7:
            rude.acknowledge(found)


STEPS = (garbage, flood, repeat, begin_body, observe, read, hear)


def misbehave(port: int, seed: int, ends: float) -> None:
    chance = Random(seed)
    while time.monotonic() < ends:
        rude = Client(port)
        for _ in range(chance.randrange(1, 30)):
            try:
                chance.choice(STEPS)(rude, chance)
            except OSError:  # the kernel has no room, or nobody listens
                break
        rude.close()


def longest_publish(broker: BrokerProcess, ends: float) -> list[float]:
    """How long publishes of an MQTT client take meanwhile."""
    took: list[float] = []
    with mqtt(broker, "polite") as polite:
        while time.monotonic() < ends:
            began = time.monotonic()
            polite.publish("polite", b"x", 1).wait_for_publish(WAIT_S)
            took.append(time.monotonic() - began)
    return took


def test_rude_clients_leave_nothing_behind(tmp_path: Path) -> None:
    print(f"FOREBAY_RUDE_SEED={SEED}")
    options = {"coap": "127.0.0.1:0", "http": "127.0.0.1:0", "coap_octets_max": MEMORY, "coap_exchanges_max": 2000}
    with running(tmp_path, **options) as broker:
        ends = time.monotonic() + SECONDS
        threads = [
            threading.Thread(target=misbehave, args=(broker.port("coap"), SEED + index, ends))
            for index in range(AT_ONCE)
        ]
        for thread in threads:
            thread.start()
        took = longest_publish(broker, ends)
        for thread in threads:
            thread.join()
        assert statistics.median(took) < LATENCY_S_MAX, statistics.median(took)
        assert metric(broker, "forebay_coap_bytes")[""] <= MEMORY
        with client(broker) as polite:
            # As long as the broker is short of memory it answers 4.01, and who is polite asks again.
            until(lambda: polite.publish("a", b"alive", "retain=true").code == CHANGED)
            assert polite.request(GET, "topic/a").payload == b"alive"
        until(lambda: metric(broker, "forebay_coap_exchanges")[""] <= 2000)
        errors = metric(broker, "forebay_internal_errors_total")
        assert not any(errors.values()), broker.log_text()
