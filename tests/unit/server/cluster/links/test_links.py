"""Links between nodes, over real sockets and real TLS."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import socket
from contextlib import ExitStack
from pathlib import Path

import pytest

from forebay.core.errors import OptionError
from forebay.server.cluster.clients.arrivals import Arrivals
from forebay.server.cluster.links import connection as connections
from forebay.server.cluster.links.frames import HELLO, frame
from forebay.server.cluster.links.handshake import BULK
from forebay.server.cluster.links.links import STARTING_MAX, Links
from tests.certificates import Certificates
from tests.links import Noted, TestNode, linked_node, node_settings, now_us
from tests.scenes import run_scene

MIB = 1 << 20


def tls_of(certificates: Certificates, name: str) -> dict[str, object]:
    certificate, key = certificates.issue(name)
    return {"tls_certificate": str(certificate), "tls_key": str(key), "tls_ca": str(certificates.ca)}


async def closed(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the other side ends it, in whatever way."""
    octets = b""
    try:
        while more := await reader.read(65_536):
            octets += more
    except OSError:
        pass
    return octets


def test_two_nodes_have_one_connection_and_messages_keep_their_order() -> None:
    async def scene() -> None:
        async with linked_node("a") as a, linked_node("b") as b:
            a.meet(b)
            b.meet(a)
            await a.until_linked(b)
            await b.until_linked(a)
            sent = [b"%d" % number for number in range(1000)]
            for each in sent:
                assert a.links.send("b", each + b" of a")
                assert b.links.send("a", each + b" of b")
            await a.noted.until(lambda: len(a.noted.all("message")) == len(sent))
            await b.noted.until(lambda: len(b.noted.all("message")) == len(sent))
            assert a.noted.all("message") == [each + b" of b" for each in sent]
            assert b.noted.all("message") == [each + b" of a" for each in sent]
            assert a.noted.all("connected") == ["store of b"]
            assert b.noted.all("connected") == ["store of a"]
            assert not a.noted.all("reset") + b.noted.all("reset")
            link = a.links.links["b"]
            assert [link.main] == link.connections()

    run_scene(scene)


def test_attempts_that_meet_leave_one_link() -> None:
    async def scene() -> None:
        for _ in range(30):
            async with linked_node("a") as a, linked_node("b") as b:
                a.meet(b)
                b.meet(a)
                await a.until_linked(b)
                await b.until_linked(a)

                def answered(a: TestNode = a, b: TestNode = b) -> bool:
                    a.links.send("b", b"are you there")
                    b.links.send("a", b"are you there")
                    return bool(a.noted.all("message") and b.noted.all("message"))

                await a.noted.until(answered)
                ours, theirs = a.links.links["b"].main, b.links.links["a"].main
                assert ours is not None
                assert theirs is not None
                assert ours.connecting != theirs.connecting

    run_scene(scene)


def test_an_attempt_that_is_ended_as_it_begins_closes_no_file_of_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The number of a socket that is closed is soon that of a file: closed once more, the file would be."""
    path = tmp_path / "file"
    ended = 0

    async def scene() -> None:
        async with linked_node("a") as a, linked_node("b") as b:

            def end(connection: connections.NodeConnection) -> None:
                nonlocal ended
                ended += 1
                connection.end("the test ends it")

            monkeypatch.setattr(a.links, "began", end)
            a.meet(b)
            with ExitStack() as opened:
                files = []
                for attempts in range(1, 4):
                    await a.noted.until(lambda expected=attempts: ended >= expected)  # type: ignore[misc]
                    files += [opened.enter_context(path.open("wb")) for _ in range(10)]
                gc.collect()
                for file in files:
                    assert os.fstat(file.fileno()).st_ino == path.stat().st_ino

    run_scene(scene)


def test_an_attempt_that_is_given_up_as_its_handshake_ends_comes_to_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def scene() -> None:
        async with linked_node("a") as a, linked_node("b") as b:
            a.meet(b)
            await a.until_linked(b)
            limit = connections.NodeConnection.limit_silence

            def give_up(connection: connections.NodeConnection) -> None:
                limit(connection)
                if connection.connecting:
                    attempt.cancel()

            monkeypatch.setattr(connections.NodeConnection, "limit_silence", give_up)
            address = a.links.links["b"].address
            attempt = asyncio.ensure_future(a.links.connect(address, "b", BULK))
            with pytest.raises(asyncio.CancelledError):
                await attempt
            assert a.links.links["b"].main is not None

    run_scene(scene)
    assert not [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


def test_a_node_that_is_not_wanted_yet_may_come() -> None:
    async def scene() -> None:
        async with linked_node("a") as a, linked_node("new", store="fresh") as new:
            new.meet(a)
            await a.until_linked(new)
            assert a.noted.heard == [("connected", "new", "fresh")]
            assert a.links.send("new", b"welcome")
            await new.noted.until(lambda: new.noted.all("message") == [b"welcome"])
            new.links.want({})
            await a.noted.until(lambda: a.noted.all("reset"))
            assert a.links.links == {}

    run_scene(scene)


def test_messages_as_long_as_frames_may_be() -> None:
    async def scene() -> None:
        async with linked_node("a") as a, linked_node("b") as b:
            a.meet(b)
            await a.until_linked(b)
            long = bytes(range(256)) * (20 * MIB // 256)
            assert a.links.send("b", long)
            assert a.links.send("b", b"")
            assert a.links.send("b", b"short")
            await b.noted.until(lambda: len(b.noted.all("message")) == 3)
            assert b.noted.all("message") == [long, b"", b"short"]

    run_scene(scene)


def test_a_node_that_nobody_listens_for_is_refused_after_its_link_was_reset() -> None:
    async def scene() -> None:
        async with linked_node("a") as a:
            async with linked_node("b") as b:
                a.meet(b)
                await a.until_linked(b)
                assert not a.noted.all("refused")
                ended_us = now_us()
            await a.noted.until(lambda: len(a.noted.all("refused")) > 1)
            kinds = [kind for kind, _, _ in a.noted.heard]
            assert kinds[:3] == ["connected", "reset", "refused"]
            tried = a.noted.all("refused")
            assert all(isinstance(each, int) and ended_us <= each <= now_us() for each in tried)
            assert tried == sorted(tried)  # type: ignore[type-var]
            assert not a.links.send("b", b"nobody is there")

    run_scene(scene)


def test_a_port_that_does_not_answer_is_no_refusal() -> None:
    async def scene() -> None:
        with socket.create_server(("127.0.0.1", 0), backlog=1) as silent:
            async with linked_node("a") as a:
                a.links.want({"b": f"127.0.0.1:{silent.getsockname()[1]}"})
                await a.noted.until(lambda: a.links.links["b"].tried is not None)
                taken, _ = silent.accept()
                taken.close()
                await a.noted.until(lambda: a.links.links["b"].why)
                assert a.noted.heard == []

    run_scene(scene)


def test_a_name_that_is_not_known_is_no_refusal() -> None:
    async def scene() -> None:
        async with linked_node("a") as a:
            a.links.want({"b": "no-such-host.invalid:7100"})
            await a.noted.until(lambda: a.links.links["b"].why)
            assert a.noted.heard == []

    run_scene(scene)


def test_a_node_that_comes_back_with_another_folder_is_told_apart() -> None:
    async def scene() -> None:
        async with linked_node("b") as b:
            async with linked_node("a", store="first") as a:
                a.meet(b)
                await b.until_linked(a)
                address = a.links.address
            async with linked_node("a", store="second", listen=address) as a:
                a.meet(b)
                await b.noted.until(lambda: b.noted.all("connected") == ["first", "second"])
                assert [kind for kind, _, _ in b.noted.heard] == ["connected", "reset", "connected"]

    run_scene(scene)


def test_a_second_connection_of_a_node_takes_the_place_of_the_first() -> None:
    """The first may be dead without anybody having said so."""

    async def scene() -> None:
        async with (
            linked_node("b") as b,
            linked_node("a", store="first") as a,
            linked_node("a", store="second") as twin,
        ):
            a.meet(b)
            await b.until_linked(a)
            a.links.links["b"].address = "127.0.0.1:1"  # it does not come back
            twin.meet(b)
            await b.noted.until(lambda: b.noted.all("connected") == ["first", "second"])
            assert [kind for kind, _, _ in b.noted.heard] == ["connected", "reset", "connected"]
            await a.noted.until(lambda: a.noted.all("reset"))
            assert b.links.send("a", b"to the second")
            await twin.noted.until(lambda: twin.noted.all("message") == [b"to the second"])
            assert not a.noted.all("message")

    run_scene(scene)


def test_a_node_that_moves_is_found() -> None:
    async def scene() -> None:
        async with linked_node("a") as a:
            a.links.want({"b": "127.0.0.1:1"})
            await a.noted.until(lambda: a.noted.all("refused"))
            async with linked_node("b") as b:
                a.meet(b)
                await a.until_linked(b)

    run_scene(scene)


def test_a_port_that_is_taken_is_an_error_that_names_the_option() -> None:
    async def scene() -> None:
        async with linked_node("a") as a:
            with pytest.raises(OptionError, match=f"cluster.listen: cannot listen on {a.links.address}"):
                async with linked_node("b", listen=a.links.address):
                    pass

    run_scene(scene)


def test_a_dead_line_is_noticed_by_the_system_within_the_replica_timeout() -> None:
    async def scene() -> None:
        async with linked_node("a", replica_timeout_ms=700) as a, linked_node("b", replica_timeout_ms=700) as b:
            a.meet(b)
            await a.until_linked(b)
            await b.until_linked(a)
            for link in (a.links.links["b"], b.links.links["a"]):
                assert link.main is not None
                own = link.main.transport.get_extra_info("socket")
                assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 700
                assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)

    run_scene(scene)


# ---- limits


def test_a_node_that_does_not_read_costs_no_more_memory_than_it_may() -> None:
    async def scene() -> None:
        async with linked_node("a", link_octets_max=MIB) as a, linked_node("b") as b:
            a.meet(b)
            await a.until_linked(b)
            await b.until_linked(a)
            held = b.links.links["a"].main
            assert held is not None
            held.transport.pause_reading()
            sent = 0
            while a.links.send("b", bytes(65_536)):
                sent += 65_536
                await asyncio.sleep(0)
                assert sent < 100 * MIB
            await a.noted.until(lambda: a.noted.all("reset"))
            assert a.noted.all("reset") == [f"more than {MIB} octets wait to be sent, cluster.link_octets_max"]
            await a.until_linked(b)

    run_scene(scene)


def test_bulk_does_not_hold_up_messages() -> None:
    async def scene() -> None:
        async with linked_node("a") as a, linked_node("b") as b:
            a.meet(b)
            await a.until_linked(b)
            await b.until_linked(a)
            assert not a.links.send_bulk("b", b"it is made by this")
            await a.noted.until(lambda: a.noted.all("bulk_ready"))
            assert a.links.send_bulk("b", b"first")
            await b.noted.until(lambda: b.noted.all("message") == [b"first"])
            bulk = b.links.links["a"].bulk_in
            assert bulk is not None
            bulk.transport.pause_reading()
            piece = bytes(MIB)
            count = 0
            while a.links.send_bulk("b", piece):
                count += 1
                await asyncio.sleep(0)
                assert count < 200
            assert count > 8
            ready = len(a.noted.all("bulk_ready"))
            assert a.links.send("b", b"heartbeat")
            await b.noted.until(lambda: b.noted.all("message")[-1] == b"heartbeat")
            assert len(a.noted.all("bulk_ready")) == ready
            assert not a.links.send_bulk("b", piece)
            bulk.transport.resume_reading()
            await b.noted.until(lambda: b.noted.all("message").count(piece) == count)
            await a.noted.until(lambda: len(a.noted.all("bulk_ready")) > ready)
            assert a.links.send_bulk("b", b"last")
            assert b.links.send("a", b"answer")
            await b.noted.until(lambda: b.noted.all("message")[-1] == b"last")
            assert not a.noted.all("reset")

    run_scene(scene)


def test_bulk_that_is_cut_says_that_it_may_go_on() -> None:
    async def scene() -> None:
        async with linked_node("a") as a, linked_node("b") as b:
            a.meet(b)
            await a.until_linked(b)
            await a.noted.until(lambda: a.links.send_bulk("b", b"first"))
            ready = len(a.noted.all("bulk_ready"))
            await b.noted.until(lambda: b.noted.all("message"))
            inner = b.links.links["a"].bulk_in
            assert inner is not None
            inner.end("cut")
            await a.noted.until(lambda: len(a.noted.all("bulk_ready")) > ready)
            await a.noted.until(lambda: a.links.send_bulk("b", b"second"))
            await b.noted.until(lambda: b.noted.all("message")[-1] == b"second")
            assert not a.links.send_bulk("nobody", b"")

    run_scene(scene)


# ---- who may come


def test_a_node_with_another_secret_is_refused_and_both_say_so(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with linked_node("a", secret="another secret of nodes") as a, linked_node("b") as b:
            a.meet(b)
            await a.noted.until(lambda: a.links.links["b"].why)
            assert a.links.links["b"].why == "refused by the other side: node 'a' has another secret"
            assert a.noted.heard == b.noted.heard == []
            assert b.links.refused_count

    with caplog.at_level(logging.WARNING, "forebay"):
        run_scene(scene)
    assert "no link to node b at 127.0.0.1:" in caplog.text
    assert "cluster: a connection to the port for nodes was refused: node 'a' has another secret" in caplog.text


def test_a_reason_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scene() -> None:
        async with linked_node("a", name="shops") as a, linked_node("b") as b:
            a.meet(b)
            await a.noted.until(lambda: b.links.refused_count > 3)

    with caplog.at_level(logging.WARNING, "forebay"):
        run_scene(scene)
    assert len([each for each in caplog.messages if "no link to node b" in each]) == 1
    assert 1 <= len([each for each in caplog.messages if "the port for nodes was refused" in each]) <= 3


def test_tls_with_a_secret_and_certificates_of_any_name(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    tls = tls_of(certificates, "of-all-nodes")

    async def scene() -> None:
        async with linked_node("a", **tls) as a, linked_node("b", **tls) as b:
            a.meet(b)
            b.meet(a)
            await a.until_linked(b)
            await b.until_linked(a)
            await a.noted.until(lambda: a.links.send_bulk("b", b"bulk"))
            long = bytes(5 * MIB)
            assert a.links.send("b", long)
            await b.noted.until(lambda: set(b.noted.all("message")) == {b"bulk", long})
            main = a.links.links["b"].main
            assert main is not None
            assert main.transport.get_extra_info("ssl_object").version() == "TLSv1.3"

    run_scene(scene)


def test_certificates_alone_name_their_nodes(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)

    async def scene() -> None:
        async with (
            linked_node("a", secret="", **tls_of(certificates, "a")) as a,
            linked_node("b", secret="", **tls_of(certificates, "b")) as b,
            linked_node("c", secret="", **tls_of(certificates, "mallory")) as mallory,
        ):
            a.meet(b, mallory)
            b.meet(a)
            mallory.meet(a)
            await a.until_linked(b)
            await a.noted.until(lambda: "mallory" in a.links.links["c"].why)
            assert a.links.links["c"].why == "node 'c' shows a certificate for mallory, mallory.example"
            await a.noted.until(lambda: a.links.refused_count)
            assert not a.is_linked("c")
            assert not mallory.noted.all("connected")

    run_scene(scene)


def test_certificates_of_another_authority_are_refused(tmp_path: Path) -> None:
    ours, theirs = Certificates(tmp_path / "ours"), Certificates(tmp_path / "theirs")

    async def scene() -> None:
        async with linked_node("a", **tls_of(ours, "a")) as a, linked_node("b", **tls_of(theirs, "b")) as b:
            a.meet(b)
            b.meet(a)
            await a.noted.until(lambda: a.links.links["b"].why and b.links.links["a"].why)
            assert "certificate verify failed" in a.links.links["b"].why
            assert a.noted.heard == b.noted.heard == []

    run_scene(scene)


def test_a_port_with_tls_takes_no_connection_without_and_the_other_way_round(tmp_path: Path) -> None:
    tls = tls_of(Certificates(tmp_path), "a")

    async def scene() -> None:
        async with linked_node("a", **tls) as a, linked_node("b") as b:
            a.meet(b)
            b.meet(a)
            await a.noted.until(lambda: a.links.links["b"].why and b.links.links["a"].why)
            assert a.noted.heard == b.noted.heard == []

    run_scene(scene)


def test_strangers_without_a_certificate_get_nothing_and_take_no_place(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)

    async def scene() -> None:
        async with linked_node("a", **tls_of(certificates, "a")) as a:
            host, port = a.links.address.split(":")
            context = certificates.client()
            context.check_hostname = False
            for _ in range(STARTING_MAX + 5):
                reader, writer = await asyncio.open_connection(host, int(port), ssl=context)
                writer.write(frame(HELLO, b"{}"))
                assert await closed(reader) == b""
                writer.close()
            assert a.noted.heard == []
            async with linked_node("b", **tls_of(certificates, "b")) as b:
                b.meet(a)
                await a.until_linked(b)

    run_scene(scene)


@pytest.mark.parametrize(
    ("octets", "words"),
    [
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"a frame of kind 47"),
        (b"\0\0\x10\x01\x01", b"a frame of 4097 octets, at most 4096"),
        (frame(HELLO, b"{}"), b"is no hello"),
        (frame(4, b"message"), b"not due in a handshake"),
    ],
)
def test_strangers_are_told_to_go(octets: bytes, words: bytes) -> None:
    async def scene() -> None:
        async with linked_node("a") as a:
            host, port = a.links.address.split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(octets)
            assert words in await closed(reader)
            writer.close()
            assert a.noted.heard == []
            await a.noted.until(lambda: not a.links.starting)
            assert a.links.links == {}

    run_scene(scene)


def test_strangers_that_say_nothing_are_few_and_do_not_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HANDSHAKE_S", 0.3)

    async def scene() -> None:
        async with linked_node("a") as a:
            host, port = a.links.address.split(":")
            pairs = [await asyncio.open_connection(host, int(port)) for _ in range(STARTING_MAX + 5)]
            for reader, writer in pairs:
                assert await closed(reader) == b""
                writer.close()
            await a.noted.until(lambda: not a.links.starting)

    run_scene(scene)


def test_a_port_is_open_only_once_it_is_told_to_be() -> None:
    async def scene() -> None:
        links = Links(node_settings("a"), "store", Noted(), now_us, bytes, Arrivals())
        assert links.address == ""
        assert links.acceptor is None
        await links.stop()

    run_scene(scene)
