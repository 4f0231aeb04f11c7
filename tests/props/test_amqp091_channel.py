"""A channel beside a model: whoever cancels, takes too long or settles in any order, each message is in one place."""

from __future__ import annotations

import tempfile

from hypothesis import given
from hypothesis import strategies as st

from tests.conformance.amqp091 import raw
from tests.conformance.amqp091.raw import long, method, number, publish, short, table
from tests.sessions import SessionRig

TAGS = ("a", "b", "c")
TIMEOUT_MS = 1000


class Channel:
    """A client on one channel, and what it knows: which message is where.

    slow       consumers that may hold a message for TIMEOUT_MS, those that have left included
    held       delivery tag -> (body, consumer)
    late       delivery tags of what was taken back from a consumer, and may be settled once without an effect
    ready      bodies that the queue has
    """

    def __init__(self, folder: str) -> None:
        self.rig = SessionRig(folder, "amqp")
        self.seen = 0
        self.published = 0
        self.ready: set[bytes] = set()
        self.held: dict[int, tuple[bytes, str]] = {}
        self.late: set[int] = set()
        self.unsure: set[bytes] = set()
        self.prefetch: dict[str, int] = {}
        self.consumers: set[str] = set()
        self.slow: set[str] = set()
        self.next_prefetch = 0
        client = {"capabilities": {"consumer_cancel_notify": True}}
        handshake = method(0, raw.START_OK, table(client) + short("PLAIN") + long("\0guest\0guest") + short("en_US"))
        self.rig.send(raw.HEADER + handshake)
        self.rig.send(method(0, raw.TUNE_OK, number(2047, 2) + number(131072, 4) + number(0, 2)))
        self.rig.send(method(0, raw.OPEN, short("/") + b"\0\0") + method(1, raw.CHANNEL_OPEN, b"\0"))
        self.rig.send(method(1, raw.QUEUE_DECLARE, b"\0\0" + short("q") + b"\0" + table()))
        self.turn()

    def send(self, which: raw.Method, args: bytes) -> None:
        self.rig.send(method(1, which, args))

    def turn(self) -> None:
        """End the turn, and take in what it brought."""
        self.rig.turn()
        frames = self.frames()
        for kind, payload in frames:
            if kind == 1 and payload[:4] == b"\0\x3c\0\x1e":  # basic.cancel, which may stand behind what it gave back
                self.lose(payload[5 : 5 + payload[4]].decode())
        for place, (kind, payload) in enumerate(frames):
            assert kind != 1 or payload[:4] not in (b"\0\x14\0\x28", b"\0\x0a\0\x32"), payload  # nothing is closed
            if kind == 1 and payload[:4] == b"\0\x3c\0\x3c":
                tag_end = 5 + payload[4]
                consumer = payload[5:tag_end].decode()
                self.take(int.from_bytes(payload[tag_end : tag_end + 8], "big"), consumer, frames[place + 2][1])

    def frames(self) -> list[tuple[int, bytes]]:
        """Kind and payload of each frame since the last time."""
        data, at = self.rig.sent, self.seen
        found = []
        while at < len(data):
            end = at + 7 + int.from_bytes(data[at + 3 : at + 7], "big")
            found.append((data[at], data[at + 7 : end]))
            at = end + 1
        self.seen = at
        return found

    def lose(self, consumer: str) -> None:
        self.consumers.discard(consumer)
        for tag in [tag for tag, (_, whose) in self.held.items() if whose == consumer]:
            self.ready.add(self.held.pop(tag)[0])
            self.late.add(tag)

    def take(self, tag: int, consumer: str, body: bytes) -> None:
        if body in self.unsure:
            self.unsure.remove(body)
            self.ready.add(body)
        if body not in self.ready:
            # Who has left is not told that what it still held for too long was taken back.
            holder = next(whose for each, whose in self.held.values() if each == body)
            assert holder in self.slow - self.consumers, (body, tag)
            self.lose(holder)
        self.ready.remove(body)
        self.held[tag] = (body, consumer)
        limit = self.prefetch[consumer]
        own = [whose for _, whose in self.held.values() if whose == consumer]
        assert limit == 0 or len(own) <= limit

    def consume(self, tag: str, slow: bool) -> None:
        if tag in self.consumers or tag in {whose for _, whose in self.held.values()}:
            return
        self.consumers.add(tag)
        self.slow.discard(tag)
        if slow:
            self.slow.add(tag)
        self.prefetch[tag] = self.next_prefetch
        arguments = {"x-consumer-timeout": TIMEOUT_MS if slow else 10**9}
        self.send(raw.CONSUME, b"\0\0" + short("q") + short(tag) + b"\0" + table(arguments))

    def cancel(self, tag: str) -> None:
        self.consumers.discard(tag)
        self.send(raw.CANCEL, short(tag) + b"\0")

    def settle(self, how: str, place: int, multiple: bool) -> None:
        tags = sorted({*self.held, *self.late})
        if not tags:
            return
        tag = tags[place % len(tags)]
        for each in [each for each in tags if each == tag or (multiple and how != "reject" and each < tag)]:
            self.late.discard(each)
            if each in self.held:
                body, whose = self.held.pop(each)
                if how in {"nack", "reject"}:
                    self.ready.add(body)
                elif whose in self.slow - self.consumers:
                    self.unsure.add(body)  # taken back without a word if it was held for too long: then it comes again
        if how == "ack":
            self.send(raw.ACK, number(tag, 8) + number(multiple, 1))
        elif how == "reject":
            self.send(raw.REJECT, number(tag, 8) + b"\1")
        else:
            self.send(raw.NACK, number(tag, 8) + number(multiple | 2 if how == "nack" else multiple, 1))

    def recover(self) -> None:
        self.ready |= {body for body, _ in self.held.values()}
        self.held.clear()
        self.late.clear()
        self.send(raw.RECOVER, b"\1")

    def publish(self, count: int) -> None:
        for _ in range(count):
            body = b"%d" % self.published
            self.published += 1
            self.ready.add(body)
            self.rig.send(publish(1, "q", body))

    def finish(self) -> None:
        """Everything that is not settled comes, and nothing else."""
        for tag in TAGS:
            self.cancel(tag)
        if self.held or self.late:
            self.recover()
        self.send(raw.QOS, b"\0\0\0\0" + number(0, 2) + b"\0")
        self.send(raw.QOS, b"\0\0\0\0" + number(0, 2) + b"\1")
        self.turn()
        self.next_prefetch = 0
        self.consume("last", False)
        for _ in range(3):
            self.turn()
        assert not self.ready
        assert {whose for _, whose in self.held.values()} <= {"last"}
        self.rig.close()


STEP = st.one_of(
    st.tuples(st.just("publish"), st.integers(1, 5)),
    st.tuples(st.just("consume"), st.sampled_from(TAGS), st.booleans()),
    st.tuples(st.just("cancel"), st.sampled_from(TAGS)),
    st.tuples(
        st.just("settle"),
        st.sampled_from(["ack", "ack", "nack", "reject", "discard"]),
        st.integers(0, 9),
        st.booleans(),
    ),
    st.tuples(st.just("qos"), st.integers(0, 3), st.booleans()),
    st.tuples(st.just("recover")),
    st.tuples(st.just("wait"), st.sampled_from([600, 1100])),
    st.tuples(st.just("turn")),
)


def do(channel: Channel, step: tuple[object, ...]) -> None:
    name, *args = step
    if name == "wait":
        channel.turn()
        channel.rig.tick(1000 * int(str(args[0])))
        channel.turn()
        channel.turn()  # what a cancelled consumer gave back
    elif name == "qos":
        if not args[1]:
            channel.next_prefetch = int(str(args[0]))
        channel.send(raw.QOS, b"\0\0\0\0" + number(int(str(args[0])), 2) + number(bool(args[1]), 1))
    else:
        getattr(channel, str(name))(*args)


@given(st.integers(0, 3), st.lists(STEP, min_size=6, max_size=40))
def test_each_message_is_in_one_place(prefetch: int, steps: list[tuple[object, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        channel = Channel(folder)
        do(channel, ("qos", prefetch, False))
        channel.consume("a", True)
        channel.publish(5)
        channel.turn()
        for step in steps:
            do(channel, step)
            channel.turn()
        channel.finish()
