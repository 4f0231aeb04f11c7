"""The MQTT session: whatever a client sends, and however it is cut, the session answers or closes."""

from __future__ import annotations

import tempfile
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from librt.strings import BytesWriter

from forebay.directory.logins.login import Mechanism, SaslExchange
from forebay.session.mqtt.connection import MqttSession
from forebay.session.mqtt.entry.handshake import MqttHandshake
from forebay.session.mqtt.outgoing.deliver import Outbox
from forebay.wire.mqtt import codes
from forebay.wire.mqtt import properties as props
from forebay.wire.mqtt.codes import V5, V311
from forebay.wire.mqtt.encoding import encode_packet, write_publish
from forebay.wire.mqtt.packets import (
    Ack,
    Connack,
    Connect,
    Packet,
    Publish,
    Suback,
    Subscribe,
    decode_packet,
    decode_publish,
    frame,
)
from tests.examples import examples
from tests.sessions import SessionRig

EXAMPLES = 60  # each makes stores on real files
WINDOW = 3
ALIASES = 2
FOREVER_MS = 10**12
OCTETS_MAX = 4096
VERSION = st.sampled_from([V311, V5])
ID = st.integers(1, 6)
TOPIC = st.sampled_from(
    [b"a", b"a", b"a/b", b"$queue/q/x", b"$queue/e", b"$queue/s/x", b"$delayed/1/a", b"$delayed/$cancel", b"$SYS/a",
     b"$queue/", b"nobody"]
)  # fmt: skip
WRONG_TOPIC = st.sampled_from([b"a", b"", b"a/+", b"\xff", b"/" * 200])
FILTER = st.sampled_from(
    [b"a/#", b"a", b"+", b"$queue/q/#", b"$queue/q", b"$queue/s/#", b"$queue/e", b"$dlq/q", b"#/a", b"$queue/+",
     b"$share/g/a", b"$share/g/+", b"$share/+/a", b"$share/g"]
)  # fmt: skip
COMMAND = st.sampled_from([b"$ack", b"$nack", b"$reject", b"$extend", b"$commit", b"$none"])
CODE = st.sampled_from([0, 0, 0, 0x04, 0x10, 0x18, 0x19, 0x80, 0x92])


def user(*pairs: tuple[bytes, bytes]) -> bytes:
    """A block of user properties."""
    return props.encode_properties([props.Property(props.USER_PROPERTY, 0, name, value) for name, value in pairs])


def number(id: int, value: int) -> bytes:
    """A block of one property that is a number."""
    return props.encode_properties([props.Property(id, value, b"", b"")])


def text(id: int, value: bytes) -> bytes:
    return props.encode_properties([props.Property(id, 0, value, b"")])


def any_of(*blocks: bytes) -> st.SearchStrategy[bytes]:
    """A property block with some of these parts."""
    return st.lists(st.sampled_from(blocks), max_size=3, unique=True).map(b"".join)


CONNECT_BLOCK = any_of(
    number(props.SESSION_EXPIRY, 60), number(props.RECEIVE_MAXIMUM, 1), number(props.TOPIC_ALIAS_MAXIMUM, 1),
    number(props.MAXIMUM_PACKET_SIZE, 60), number(props.REQUEST_PROBLEM_INFORMATION, 0), user((b"n", b"v")),
)  # fmt: skip
PUBLISH_BLOCK = any_of(
    number(props.TOPIC_ALIAS, 1), number(props.TOPIC_ALIAS, ALIASES), number(props.MESSAGE_EXPIRY, 0),
    number(props.MESSAGE_EXPIRY, 2), number(props.PAYLOAD_FORMAT, 1), text(props.RESPONSE_TOPIC, b"r"),
    text(props.CORRELATION_DATA, b"\0"), user((b"n", b"v"), (b"delay-id", b"x")),
)  # fmt: skip
WRONG_PUBLISH_BLOCK = any_of(number(props.TOPIC_ALIAS, ALIASES + 1), number(props.SUBSCRIPTION_ID, 1), b"\x01\x02")
WILL_BLOCK = any_of(
    number(props.WILL_DELAY, 0), number(props.WILL_DELAY, 1), number(props.MESSAGE_EXPIRY, 2), user((b"n", b"v"))
)
SUBSCRIBE_BLOCK = any_of(
    number(props.SUBSCRIPTION_ID, props.VARINT_MAX), user((b"consumer-group", b"g")), user((b"stream-offset", b"first"))
)
ACK_BLOCK = any_of(text(props.REASON_STRING, b"because"), user((b"n", b"v")))
LEAVE_BLOCK = any_of(number(props.SESSION_EXPIRY, 9), text(props.REASON_STRING, b"because"))
AUTH_BLOCK = st.sampled_from([b"TALK", b"TALK", b"TALK", b"NONE", b""]).flatmap(
    lambda method: st.sampled_from([b"", text(props.AUTH_DATA, b"more"), text(props.AUTH_DATA, b"guest")]).map(
        lambda data: (text(props.AUTH_METHOD, method) if method else b"") + data
    )
)


class Talk(SaslExchange):
    """A login that goes on until the client says who it is."""

    def step(self, data: bytes) -> bytes:
        self.done = data == b"guest"
        self.user = "guest" if self.done else ""
        return data


class Talking(Mechanism):
    """A mechanism of any number of messages."""

    def start(self) -> SaslExchange:
        return Talk()


def publish(
    topic: bytes, body: bytes, version: int, qos: int = 0, id: int = 1, properties: bytes = b"", bits: int = 0
) -> bytes:
    out = BytesWriter()
    block = properties if version == V5 else b""
    write_publish(out, 0x30 | qos << 1 | bits, topic, id if qos else 0, block, body, version)
    return out.getvalue()


def subscribe(kind: int, filters: list[bytes], options: int, properties: bytes, version: int) -> bytes:
    packet = Subscribe(kind, 1)
    packet.filters = filters
    packet.options = [options] * len(filters)
    packet.properties = properties if version == V5 else b""
    return encode_packet(packet, version)


@st.composite
def connect(draw: st.DrawFn, version: int) -> Connect:
    """A CONNECT, more often acceptable than not."""
    packet = Connect()
    packet.version = version
    packet.client_id = draw(st.sampled_from([b"c-1", b"c-1", b""]))
    packet.clean = draw(st.booleans())
    packet.keep_alive_s = draw(st.sampled_from([0, 5, 65_535]))
    packet.has_will = draw(st.booleans())
    if packet.has_will:
        packet.will_topic = draw(st.sampled_from([b"a", b"a", b"a/b", b"$queue/q/x", b"$queue/", b"$SYS/a", b"a/#"]))
        packet.will_body = draw(st.binary(max_size=20))
        packet.will_qos = draw(st.integers(0, 2))
        packet.will_retain = draw(st.booleans())
    if version == V5:
        packet.properties = draw(CONNECT_BLOCK)
        if draw(st.integers(0, 4)) == 0:
            packet.properties += draw(AUTH_BLOCK)
        if packet.has_will:
            packet.will_properties = draw(WILL_BLOCK)
    return packet


@st.composite
def command(draw: st.DrawFn, version: int) -> bytes:
    """A settlement that may mean something."""
    queue = draw(st.sampled_from([b"q", b"e", b"s", b"none"]))
    offset = draw(st.integers(0, 5))
    block = user(
        (b"message-id", b"%s:%d" % (queue, offset)),
        (b"group-id", draw(st.sampled_from([b"", b"g", b"c", b"none"]))),
        (b"offset", b"%d" % offset),
        (b"delay-ms", draw(st.sampled_from([b"0", b"1", b"x", b"99999999999999999999"]))),
    )
    topic = b"$queue/" + queue + b"/" + draw(COMMAND)
    return publish(topic, b"", version, draw(st.integers(0, 2)), draw(ID), block if version == V5 else b"")


def ack(draw: st.DrawFn, kind: int, id: int, version: int, block: bytes) -> bytes:
    """An acknowledgement, a DISCONNECT or an AUTH; of version 5 with a reason code and properties."""
    if version == V311:
        return encode_packet(Ack(kind, id, 0, b""), version)
    return encode_packet(Ack(kind, id, draw(CODE), block), version)


@st.composite
def last_request(draw: st.DrawFn, version: int) -> bytes:
    """One packet that may end the connection."""
    kind = draw(st.sampled_from([codes.DISCONNECT, codes.AUTH, codes.CONNECT, codes.PUBLISH]))
    if kind == codes.CONNECT:
        return encode_packet(draw(connect(version)), version)
    if kind == codes.PUBLISH:
        return publish(draw(WRONG_TOPIC), b"", version, draw(st.integers(0, 2)), draw(ID), draw(WRONG_PUBLISH_BLOCK))
    if kind == codes.AUTH and version == V311:
        return b"\xf0\x00"
    return ack(draw, kind, 0, version, draw(LEAVE_BLOCK if kind == codes.DISCONNECT else AUTH_BLOCK))


@st.composite
def request(draw: st.DrawFn, version: int) -> bytes:
    """One packet of a client, more often sensible than not."""
    which = draw(st.integers(0, 20))
    if which <= 6:
        qos = draw(st.integers(0, 2))
        bits = draw(st.sampled_from([0, 1, 8, 9] if qos else [0, 1]))
        block = draw(PUBLISH_BLOCK)
        return publish(draw(TOPIC), draw(st.binary(max_size=40)), version, qos, draw(ID), block, bits)
    if which <= 10:
        kind = draw(st.sampled_from([codes.SUBSCRIBE, codes.SUBSCRIBE, codes.UNSUBSCRIBE]))
        filters = draw(st.lists(FILTER, min_size=1, max_size=3))
        more = draw(st.sampled_from([0, 0, 4, 8, 0x10, 0x28])) if version == V5 else 0
        block = draw(SUBSCRIBE_BLOCK) if kind == codes.SUBSCRIBE else b""
        return subscribe(kind, filters, draw(st.integers(0, 2)) | more, block, version)
    if which <= 16:
        kind = draw(st.sampled_from([codes.PUBACK, codes.PUBREC, codes.PUBREC, codes.PUBREL, codes.PUBCOMP]))
        return ack(draw, kind, draw(ID), version, draw(ACK_BLOCK))
    if which <= 18:
        return draw(command(version))
    return b"\xc0\x00" if which == 19 else draw(last_request(version))


class Client(SessionRig):
    """An MQTT client, with a classic queue q and a stream s to talk to."""

    def __init__(self, folder: str, version: int, **options: object) -> None:
        limits = {"mqtt_max_inflight": WINDOW, "mqtt_packet_octets_max": OCTETS_MAX, "mqtt_topic_alias_max": ALIASES}
        options = {**limits, **options}
        super().__init__(folder, "mqtt", **options)
        self.version = version
        self.auth.mechanisms["TALK"] = Talking()
        self.vhost.catalog.declare_queue(b"q", True, False, False, {}, 0)
        self.vhost.catalog.declare_queue(b"s", True, False, False, {"x-queue-type": "stream"}, 0)

    @property
    def outbox(self) -> Outbox:
        """The sending half of the session."""
        assert isinstance(self.session, MqttSession)
        return self.session.outbox

    def log_in(self, packet: Connect | None = None) -> None:
        """Send this CONNECT, or the simplest one."""
        if packet is None:
            packet = Connect()
            packet.version = self.version
            packet.client_id = b"c-1"
            packet.clean = True
        self.send(encode_packet(packet, self.version))

    def packets(self) -> list[Packet | Publish]:
        """What the session has sent since the last call: whole packets, each well-formed."""
        assert isinstance(self.session, MqttSession | MqttHandshake)
        version = int(self.session.version) or V311  # which is what a client of a version unknown is told in
        found: list[Packet | Publish] = []
        at = 0
        while at < len(self.sent):
            where = frame(self.sent, at, len(self.sent), OCTETS_MAX)
            assert where, "the session wrote half a packet"
            start, end, first = at + (where & 7), where >> 3, self.sent[at]
            if first >> 4 == codes.PUBLISH:
                packet = Publish()
                decode_publish(packet, self.sent, first & 15, start, end, version)
                props.check_properties(self.sent, packet.properties_at, packet.properties_end, codes.PUBLISH)
                found.append(packet)
            else:
                found.append(decode_packet(self.sent, first, start, end, version))
            at = end
        self.sent = b""
        return found

    def check_counts(self, sent: int, came: list[Packet | Publish]) -> None:
        """What the session has counted, against what the client has sent and what came to it since the beginning."""
        session, past = self.session, self.broker.stats.past
        bodies = [len(packet.body()) for packet in came if isinstance(packet, Publish)]
        if isinstance(session, MqttHandshake):
            assert (session.packets_received, session.packets_sent, bodies) == (sent, len(came), [])
            return
        assert isinstance(session, MqttSession)
        encoder = session.outbox.encoder
        assert past.packets_received + session.inbox.received + session.others_received == sent
        assert (encoder.sent, encoder.body_octets) == (len(bodies), sum(bodies))
        assert past.packets_sent + encoder.others_sent == len(came) - len(bodies)

    def close(self) -> None:
        """The connection is gone, and when its time is over the session: nothing may be left of it."""
        self.leave()
        self.jump(FOREVER_MS)
        assert not self.vhost.fanout.subscriptions
        assert not self.vhost.sessions.clients
        super().close()


@settings(max_examples=examples(EXAMPLES))
@given(st.data(), VERSION)
def test_any_requests_are_answered_by_whole_packets(data: st.DataObject, version: int) -> None:
    first = data.draw(connect(version))
    turns = data.draw(st.lists(st.lists(request(version), max_size=8), max_size=8))
    with tempfile.TemporaryDirectory() as folder:
        client = Client(folder, version)
        client.log_in(first)
        came: list[Packet | Publish] = []
        for number, requests in enumerate(turns):
            client.send(b"".join(requests))
            client.turn()
            came += client.packets()
            if isinstance(client.session, MqttSession):
                assert client.outbox.window.inflight <= WINDOW
            if not client.session.closing:
                client.check_counts(1 + sum(map(len, turns[: number + 1])), came)
            client.jump(1000)
        client.close()


@settings(max_examples=examples(EXAMPLES))
@given(st.data(), VERSION)
def test_any_cut_of_the_requests_gives_the_same_answers(data: st.DataObject, version: int) -> None:
    octets = encode_packet(data.draw(connect(version)), version)
    octets += b"".join(data.draw(st.lists(request(version), max_size=12)))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(octets)), max_size=6)))
    answers: list[bytes] = []
    for places in ([], cuts):
        with tempfile.TemporaryDirectory() as folder:
            client = Client(folder, version)
            for start, end in pairwise([0, *places, len(octets)]):
                client.send(octets[start:end])
            client.turn()
            answers.append(client.sent)
            client.close()
    assert answers[0] == answers[1]


@settings(max_examples=examples(EXAMPLES))
@given(st.data(), VERSION, st.binary(min_size=1, max_size=3))
def test_damage_ends_in_answers_or_a_close(data: st.DataObject, version: int, damage: bytes) -> None:
    octets = encode_packet(data.draw(connect(version)), version)
    octets += b"".join(data.draw(st.lists(request(version), min_size=1, max_size=6)))
    place = data.draw(st.integers(0, len(octets) - 1))
    with tempfile.TemporaryDirectory() as folder:
        client = Client(folder, version)
        client.send(octets[:place] + damage + octets[place + len(damage) :])
        client.turn()
        client.packets()
        client.close()


@settings(max_examples=examples(EXAMPLES))
@given(st.lists(st.binary(max_size=60), max_size=6), VERSION)
def test_any_octets_end_in_answers_or_a_close(reads: list[bytes], version: int) -> None:
    for connects in (False, True):
        with tempfile.TemporaryDirectory() as folder:
            client = Client(folder, version)
            if connects:
                client.log_in()
            for read in reads:
                client.send(read)
                client.turn()
            client.packets()
            client.close()


@pytest.mark.parametrize("version", [V311, V5])
def test_what_the_window_has_no_room_for_comes_in_order(version: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        client = Client(folder, version)
        client.log_in()
        client.send(subscribe(codes.SUBSCRIBE, [b"a"], 1, b"", version))
        client.send(subscribe(codes.SUBSCRIBE, [b"$queue/q/#"], 1, b"", version))
        client.turn()
        came = client.packets()
        assert isinstance(came[0], Connack)
        for number in range(10):
            client.send(publish(b"a", b"%d" % number, version))
            client.send(publish(b"a", b"%d" % (number + 10), version, 1, number + 1))
            client.send(publish(b"$queue/q/x", b"%d" % number, version, 1, number + 20))
            client.turn()
        got: dict[bytes, list[bytes]] = {b"a": [], b"$queue/q/x": []}
        pending = client.packets()
        while pending:
            came += pending
            for packet in pending:
                if isinstance(packet, Publish):
                    got[packet.topic()].append(packet.body())
                    if packet.qos:
                        client.send(encode_packet(Ack(codes.PUBACK, int(packet.packet_id), 0, b""), version))
            client.turn()
            pending = client.packets()
        direct = [int(body) for body in got[b"a"]]
        assert [number for number in direct if number >= 10] == list(range(10, 20))
        assert [number for number in direct if number < 10] == list(range(10))
        # A version 5 client settles by topic: it gets no more than it may hold unsettled.
        assert [int(body) for body in got[b"$queue/q/x"]] == list(range(WINDOW if version == V5 else 10))
        acknowledged = sum(isinstance(packet, Publish) and packet.qos > 0 for packet in came)
        client.check_counts(3 + 30 + acknowledged, came)
        client.close()


def test_topic_subscribers_lose_the_oldest_beyond_their_message_queue() -> None:
    with tempfile.TemporaryDirectory() as folder:
        client = Client(folder, V311, mqtt_max_mqueue_len=10, mqtt_mqueue_overflow="drop")
        client.log_in()
        client.send(subscribe(codes.SUBSCRIBE, [b"a"], 1, b"", V311))
        for number in range(30):
            client.send(publish(b"a", b"%d" % number, V311, 1, number + 1))
            client.turn()
        mqueue = client.outbox.client.mqueue
        assert (mqueue.dropped, mqueue.count) == (17, 10)
        got: list[int] = []
        pending = client.packets()
        while pending:
            for packet in pending:
                if isinstance(packet, Publish):
                    got.append(int(packet.body()))
                    client.send(encode_packet(Ack(codes.PUBACK, int(packet.packet_id), 0, b""), V311))
            client.turn()
            pending = client.packets()
        assert got == [0, 1, 2, *range(20, 30)]
        assert (mqueue.count, client.outbox.window.inflight) == (0, 0)
        client.close()


def test_a_record_too_large_for_its_consumer_is_settled() -> None:
    with tempfile.TemporaryDirectory() as folder:
        client = Client(folder, V5)
        packet = Connect()
        packet.version = V5
        packet.clean = True
        packet.properties = props.encode_properties([props.Property(props.MAXIMUM_PACKET_SIZE, 200, b"", b"")])
        client.send(encode_packet(packet, V5))
        client.send(subscribe(codes.SUBSCRIBE, [b"$queue/q/#"], 1, b"", V5))
        for octets in (300, 10):
            client.send(publish(b"$queue/q/x", b"x" * octets, V5, 1, octets))
        client.turn()
        bodies = [len(each.body()) for each in client.packets() if isinstance(each, Publish)]
        assert bodies == [10]
        assert client.outbox.encoder.too_large == 1
        client.close()


def test_suback_of_a_version_5_client_names_what_is_wrong() -> None:
    with tempfile.TemporaryDirectory() as folder:
        client = Client(folder, V5)
        client.log_in()
        client.send(subscribe(codes.SUBSCRIBE, [b"$queue/q/#", b"$queue/+"], 0, b"", V5))
        client.turn()
        answer = client.packets()[1]
        assert isinstance(answer, Suback)
        assert list(answer.answers) == [codes.IMPLEMENTATION_ERROR, codes.FILTER_INVALID]
        assert b"QoS 0" in answer.properties
        assert b"'+'" in answer.properties
        client.close()


def test_a_client_that_asks_on_and_never_reads_is_let_go() -> None:
    with tempfile.TemporaryDirectory() as folder:
        client = Client(folder, V5)
        client.log_in()
        client.turn()
        assert isinstance(client.session, MqttSession)
        client.session.unread_octets_max = 100
        client.vhost.pause(1, True)
        closing: list[bool] = []
        for number in range(11):
            if number == 5:  # it read after all
                client.vhost.pause(1, False)
                client.turn()
                client.vhost.pause(1, True)
            client.send(b"\xc0\x00" * 10)
            client.turn()
            closing.append(client.session.closing)
        assert closing == [False] * 10 + [True]
        last = client.packets()[-1]
        assert isinstance(last, Ack)
        assert (last.kind, last.code) == (codes.DISCONNECT, codes.QUOTA_EXCEEDED)
        client.close()
