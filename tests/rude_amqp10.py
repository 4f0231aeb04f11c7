"""The dialogue of rude clients over AMQP 1.0: see `tests/rude.py`."""

from __future__ import annotations

from random import Random

from tests.conformance.amqp10 import raw as amqp10
from tests.conformance.amqp10.raw import Described, Symbol, Uint
from tests.rude import GLANCE_S, QUEUES, SIZES, Gone, Line

PAIRED = {Symbol("paired"): True}
COORDINATOR = Described(amqp10.COORDINATOR, [[Symbol("amqp:local-transactions")]])
DYNAMIC = [None, Uint(0), None, Uint(0), True]
STATES = (
    Described(amqp10.ACCEPTED, []),
    Described(amqp10.REJECTED, []),
    Described(amqp10.RELEASED, []),
    Described(amqp10.MODIFIED, [True]),
    Described(amqp10.MODIFIED, [None, True, {Symbol("x-opt-a"): "b" * 100}]),
    Described(amqp10.RECEIVED, [Uint(0), amqp10.Ulong(5)]),
)


def amqp10_dialogue(chance: Random, line: Line) -> None:
    """Log in, begin a session, and work, or do nothing."""
    if chance.random() < 0.2:  # all at once, as some libraries do
        line.send(amqp10.sasl_plain(), amqp10.AMQP_HEADER)
    else:
        line.send(amqp10.sasl_plain())
        line.hear()
        line.send(amqp10.AMQP_HEADER)
    idle = Uint(chance.choice((1000, 60_000)))
    frame_max = Uint(chance.choice((512, 512, 65_536, 0xFFFFFFFF)))
    line.send(amqp10.opened(f"rude-{chance.randrange(4)}", None, frame_max, None, idle))
    line.hear()
    line.send(amqp10.begin(window=chance.choice((0, 1, 3, 1000, 0xFFFFFFFF))))
    line.hear()
    if chance.random() < 0.3:
        raise Gone
    number = 0
    while True:
        number += 1
        line.send(amqp10_act(chance, number))
        if chance.random() < 0.5:
            line.hear(GLANCE_S)


def amqp10_act(chance: Random, number: int) -> bytes:
    """Something that a client may do on channel 0, and perhaps what must not be there."""
    kind = chance.randrange(12)
    handle = chance.randrange(6)
    if kind < 3:
        return attached(chance, handle, number)
    if kind < 6:
        octets = amqp10.message(bytes(chance.choice(SIZES)))[:100_000]
        more, aborted = chance.random() < 0.2, chance.random() < 0.1
        return amqp10.transfer(number, octets, handle, settled=chance.random() < 0.3, more=more, aborted=aborted)
    if kind < 8:
        drain, echo = chance.random() < 0.2, chance.random() < 0.2
        window, credit = chance.choice((0, 1, 100)), chance.choice((0, 1, 10, 0xFFFFFFFF))
        return amqp10.flow(handle, credit, window=window, drain=drain, echo=echo)
    if kind == 8:
        last = chance.choice((None, number, 0xFFFFFFFF))
        return amqp10.disposition(0, last, chance.choice(STATES), chance.random() < 0.7)
    if kind == 9:
        return amqp10.performative(0, amqp10.DETACH, Uint(handle), chance.random() < 0.5)
    if kind == 10:
        body = Described(amqp10.VALUE, chance.choice((None, {}, Described(0x31, []))))
        told = Described(amqp10.PROPERTIES, [number, None, f"/queues/{chance.choice(QUEUES)}", "GET", "$me"])
        return amqp10.transfer(number, amqp10.encode(told) + amqp10.encode(body), handle, settled=True)
    if chance.random() < 0.5:
        return amqp10.EMPTY_FRAME
    end = amqp10.performative(0, chance.choice((amqp10.END, amqp10.END, amqp10.CLOSE)))
    return end + amqp10.begin(window=chance.choice((0, 1, 1000)))


def attached(chance: Random, handle: int, number: int) -> bytes:
    """A link of any kind, which may have the name of another one."""
    name = chance.choice((f"link-{handle}", f"link-{handle}", f"own-{number}"))
    address = chance.choice((f"$queue/{chance.choice(QUEUES)}", "rude/1", "/queues/rude-0", "/queues/none", "rude/+"))
    role = chance.random() < 0.5
    kind = chance.randrange(8)
    if kind == 0:
        node = amqp10.source("/management"), amqp10.target("/management")
        return amqp10.attach(name, handle, role, *node, 1, properties=PAIRED)
    if kind == 1:
        return amqp10.attach(name, handle, amqp10.SENDER, amqp10.source(None), COORDINATOR)
    if kind == 2:
        made = Described(amqp10.SOURCE if role else amqp10.TARGET, DYNAMIC)
        other = amqp10.target(None) if role else amqp10.source(None)
        return amqp10.attach(name, handle, role, made if role else other, other if role else made)
    if role is amqp10.SENDER:
        return amqp10.publisher(address if kind > 3 else None, handle, name=name)
    return amqp10.consumer(address, handle, settled=chance.randrange(2), name=name)
