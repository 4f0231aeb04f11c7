"""The client of the block protocol: against a real broker, and against peers that break off or talk nonsense."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import pika
import pytest

from forebay.client.blocks import BlockClient
from forebay.client.granted import GrantedClient, server_of
from forebay.core.errors import NOT_FOUND, REFUSED, OptionError, OutcomeUnknown, PeerError, RequestError, Unreachable
from forebay.log.block import HEAD_OCTETS, block_octets, parse_whole
from forebay.wire.blocks.frames import BLOCKS, ERROR, PREFACE, REPLY, encode_blocks_head, encode_head, encode_json
from tests.broker_process import BrokerProcess
from tests.waiting import pause

Script = Callable[[socket.socket], None]
READY = PREFACE + encode_json(REPLY, {"user": "guest"})


@pytest.fixture
def peer() -> Iterator[Callable[[Script], str]]:
    """A server that does what a script says with its one connection."""
    threads: list[threading.Thread] = []
    listeners: list[socket.socket] = []

    def start(script: Script) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def run() -> None:
            connection, _ = listener.accept()
            with closing(connection):
                script(connection)
                connection.settimeout(10)
                with suppress(ConnectionResetError):  # the client may leave octets unread
                    while connection.recv(4096):
                        pass

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        threads.append(thread)
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield start
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    for listener in listeners:
        listener.close()


def says(*answers: bytes, close: bool = False) -> Script:
    def script(connection: socket.socket) -> None:
        connection.sendall(READY + b"".join(answers))
        if close:
            connection.shutdown(socket.SHUT_WR)

    return script


def connect(server: str, timeout_s: float = 20) -> BlockClient:
    return BlockClient.connect(server, "guest", "guest", timeout_s)


def records(client: BlockClient, queue: str, first: int, end: int, octets_max: int) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    for fetched in client.fetch(queue, first, end, octets_max):
        octets = fetched.blocks
        while octets:
            length = block_octets(octets[:HEAD_OCTETS])
            block = parse_whole(octets[:length])
            found += [(int(block.base) + at, block.body(at)) for at in range(int(block.count))]
            octets = octets[length:]
    return found


def test_a_real_broker(broker: BrokerProcess) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        for at in range(50):
            channel.basic_publish("", "q", b"%d" % at)
    for port in (broker.amqp_port, broker.mqtt_port):
        with connect(f"127.0.0.1:{port}") as client:
            description = client.describe("q")
            assert (description.queue, description.kind, description.start, description.end) == ("q", "classic", 0, 50)
            expected = [(at, b"%d" % at) for at in range(50)]
            for octets_max in (1, 1000, 1 << 23):
                assert records(client, "q", 0, 50, octets_max) == expected
            assert records(client, "q", 50, 60, 1000) == []
            assert list(client.fetch("q", 5, 5)) == []
            assert client.offset_at("q", 0) == 0
            assert client.offset_at("q", 2**62) == 50
            with pytest.raises(RequestError, match="no queue 'r'") as caught:
                list(client.fetch("r", 0, 1))
            assert caught.value.reason == NOT_FOUND
            assert client.describe("q").end == 50
    with pytest.raises(RequestError, match="Login was refused") as refused:
        BlockClient.connect(f"127.0.0.1:{broker.amqp_port}", "guest", "wrong")
    assert refused.value.reason == REFUSED


def test_what_readers_ask_of_a_real_broker(broker: BrokerProcess) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for name in ("day.1", "day.2", "night"):
            channel.queue_declare(name, durable=True)
        channel.basic_publish("", "day.1", b"a")
        with connect(f"127.0.0.1:{broker.amqp_port}") as client:
            assert [(each.queue, each.end) for each in client.queues(r"day\.\d")] == [("day.1", 1), ("day.2", 0)]
            assert [each.queue for each in client.queues()] == ["day.1", "day.2", "night"]
            with pytest.raises(RequestError, match="pattern"):
                list(client.queues("("))
            known = client.ends({"day.1": 1, "day.2": 0})
            assert {name: (each.start, each.end) for name, each in known.items()} == {"day.1": (0, 1), "day.2": (0, 0)}
            with ThreadPoolExecutor() as others:
                waiting = others.submit(client.ends, {name: each.end for name, each in known.items()}, 30)
                channel.basic_publish("", "night", b"b")
                assert not waiting.done()
                channel.basic_publish("", "day.2", b"c")
                assert waiting.result()["day.2"].end == 1
            assert client.ends({"night": 1}, 0.1)["night"].end == 1
            assert client.hold("day.1", "me", 0, 60) == (0, 0)
            assert channel.basic_get("day.1", auto_ack=True)[2] == b"a"
            assert channel.queue_purge("day.1").method.message_count == 0
            assert records(client, "day.1", 0, 1, 1000) == [(0, b"a")]
            client.release("day.1", "me")
            assert client.describe("day.1").start == 1
            with pytest.raises(RequestError, match="ttl_ms is 0"):
                client.hold("day.1", "me", 0, 0.0001)


def test_a_fetch_that_was_left_makes_the_connection_unusable(broker: BrokerProcess) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.queue_declare("q", durable=True)
        channel.confirm_delivery()
        for _ in range(5):
            channel.basic_publish("", "q", b"x")
    with connect(f"127.0.0.1:{broker.amqp_port}") as client:
        next(client.fetch("q", 0, 5, octets_max=1))
        with pytest.raises(OutcomeUnknown, match="a fetch was left before its end"):
            client.describe("q")


def test_no_broker_at_any_address(peer: Callable[[Script], str]) -> None:
    amqp = peer(lambda connection: connection.sendall(b"AMQP\x00\x00\x09\x01"))
    with pytest.raises(Unreachable, match=rf"127.0.0.1:1: .*refused; {amqp}: no forebay broker: .*'FBLK'"):
        connect(f"127.0.0.1:1, {amqp}")


def test_an_address_that_is_none() -> None:
    with pytest.raises(OptionError, match="'nowhere' is not HOST:PORT"):
        connect("nowhere")


def test_another_version(peer: Callable[[Script], str]) -> None:
    with pytest.raises(Unreachable, match="version 9"):
        connect(peer(lambda connection: connection.sendall(b"FBLK\x09\0\0\0")))


def test_no_answer_in_time(peer: Callable[[Script], str]) -> None:
    with connect(peer(says()), timeout_s=0.2) as client:
        with pytest.raises(OutcomeUnknown, match="no answer in time"):
            client.describe("q")
        with pytest.raises(OutcomeUnknown, match=r"not usable any more: .*no answer in time"):
            client.describe("q")


def test_the_connection_ends_in_the_middle_of_an_answer(peer: Callable[[Script], str]) -> None:
    half = encode_blocks_head(5, 0, 1000) + bytes(10)
    with (
        connect(peer(says(half, close=True))) as client,
        pytest.raises(OutcomeUnknown, match="the broker closed the connection"),
    ):
        list(client.fetch("q", 0, 5))


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"\0" * 8, "frame of kind 0"),
        (encode_json(REPLY, {}), "answer {}: 'id'"),
        (encode_json(REPLY, dict.fromkeys(["queue", "id", "kind", "start", "end", "octets"], -1)), "-1 is no whole"),
        (encode_head(REPLY, 2) + b"[]", "payload is JSON, but no object"),
        (encode_head(REPLY, 1) + b"{", "payload is no JSON"),
        (encode_blocks_head(0, 0, 0), "frame of kind 4 where 2 was due"),
        (encode_head(REPLY, 1 << 23), "frame of 8388608 octets, at most 4194304"),
        (encode_json(ERROR, {"error": "protocol", "reason": "malformed", "text": "go away"}), "go away"),
    ],
)
def test_answers_that_are_none(peer: Callable[[Script], str], answer: bytes, text: str) -> None:
    with connect(peer(says(answer))) as client:
        with pytest.raises(PeerError, match=text):
            client.describe("q")
        with pytest.raises(OutcomeUnknown, match="not usable any more"):
            client.describe("q")


def test_a_frame_of_blocks_without_a_head(peer: Callable[[Script], str]) -> None:
    with (
        connect(peer(says(encode_head(BLOCKS, 4) + b"abcd"))) as client,
        pytest.raises(PeerError, match="only 4 octets"),
    ):
        list(client.fetch("q", 0, 5))


class HastyClient(GrantedClient):
    """One that waits for little."""

    answer_s = 0.3


def test_a_node_that_sends_a_little_now_and_then_is_too_slow(peer: Callable[[Script], str]) -> None:
    head = encode_blocks_head(5, 0, 1000)

    def dribbling(connection: socket.socket) -> None:
        connection.sendall(PREFACE + encode_json(REPLY, {}) + head)
        with suppress(OSError):  # until the client goes
            while True:
                connection.sendall(b".")
                pause(0.02)

    client = HastyClient.open(peer(dribbling), "a token", None)
    client._flags = 0  # as over TLS: what has come is looked at as it comes
    with closing(client), pytest.raises(OutcomeUnknown, match=r"too slow: \d+ octets of an answer"):
        list(client.fetch("q", 0, 5))


def test_a_node_that_knows_no_grant_says_so(peer: Callable[[Script], str]) -> None:
    answer = encode_json(ERROR, {"error": "request", "reason": REFUSED, "text": "no grant"})
    server = peer(lambda connection: connection.sendall(PREFACE + answer))
    with pytest.raises(RequestError, match=f"{server}: no grant"):
        GrantedClient.open(server, "a token", None)


def test_addresses_are_those_for_readers_with_tls_or_without() -> None:
    servers = {"mqtts": "a:8883", "amqp": "a:5672", "mqtt": "a:1883"}
    assert (server_of(servers, False), server_of(servers, True)) == ("a:5672", "a:8883")
    assert server_of({"http": "a:80"}, False) == ""
