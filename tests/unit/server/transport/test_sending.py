"""Parts of files to sockets, past the event loop: whole and in order, whoever is slow, gone or given up."""

from __future__ import annotations

import os
import queue
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from forebay.server.transport.sending import CHUNK_OCTETS, FileSender
from forebay.session.session import FilePart

WAIT_S = 60


class Rig:
    """A sender, a file, and what came back to the loop."""

    def __init__(self, path: Path) -> None:
        self.octets = os.urandom(3 * CHUNK_OCTETS + 12_345)
        self.path = path
        path.write_bytes(self.octets)
        self.ended: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self.sender = FileSender(self.hand_back)
        self.sockets: list[socket.socket] = []

    def hand_back(self, done: Callable[[bool], None], whole: bool) -> None:
        done(whole)

    def pair(self) -> tuple[socket.socket, socket.socket]:
        """The broker's end, non-blocking, and the client's."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = socket.create_connection(listener.getsockname())
            own, _ = listener.accept()
        own.setblocking(False)
        client.settimeout(WAIT_S)
        self.sockets += [own, client]
        return own, client

    def part(self, position: int = 0, octets: int = -1) -> FilePart:
        handle = os.open(self.path, os.O_RDONLY)
        return FilePart(handle, position, len(self.octets) if octets < 0 else octets)

    def is_open(self, part: FilePart) -> bool:
        try:
            os.fstat(part.handle)
        except OSError:
            return False
        return True


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[Rig]:
    made = Rig(tmp_path / "file")
    yield made
    made.sender.stop()
    for each in made.sockets:
        each.close()


def read(client: socket.socket, octets: int) -> bytes:
    parts: list[bytes] = []
    while octets and (part := client.recv(min(octets, 1 << 20))):
        parts.append(part)
        octets -= len(part)
    return b"".join(parts)


def test_what_goes_before_then_the_file(rig: Rig) -> None:
    own, client = rig.pair()
    part = rig.part()
    rig.sender.begin(own, b"head", part, rig.ended.put)
    assert read(client, 4 + len(rig.octets)) == b"head" + rig.octets
    assert rig.ended.get(timeout=WAIT_S)
    assert not rig.is_open(part)
    rig.sender.begin(own, b"", rig.part(100, 50), rig.ended.put)
    assert read(client, 50) == rig.octets[100:150]
    assert rig.ended.get(timeout=WAIT_S)
    own.sendall(b"mine again")
    assert read(client, 10) == b"mine again"


def test_a_file_that_lost_its_name_is_sent_all_the_same(rig: Rig) -> None:
    own, client = rig.pair()
    rig.sender.begin(own, b"", rig.part(), rig.ended.put)
    rig.path.unlink()
    assert read(client, len(rig.octets)) == rig.octets


def test_who_does_not_read_holds_nobody_up(rig: Rig) -> None:
    slow, slow_client = rig.pair()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    for _ in range(2):  # the kernel takes the first of them, perhaps
        rig.sender.begin(slow, b"", rig.part(), rig.ended.put)
        slow, slow_client = rig.pair()
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65536)
    rig.sender.begin(slow, b"", rig.part(), rig.ended.put)
    quick, client = rig.pair()
    rig.sender.begin(quick, b"", rig.part(), lambda whole: rig.ended.put(whole))
    assert read(client, len(rig.octets)) == rig.octets
    assert rig.ended.get(timeout=WAIT_S)
    assert rig.ended.empty()
    assert read(slow_client, len(rig.octets)) == rig.octets
    assert rig.ended.get(timeout=WAIT_S)


def test_a_client_that_goes(rig: Rig) -> None:
    own, client = rig.pair()
    part = rig.part()
    rig.sender.begin(own, b"", part, rig.ended.put)
    assert read(client, 10) == rig.octets[:10]
    client.close()  # unread octets: the connection is reset
    assert not rig.ended.get(timeout=WAIT_S)
    assert not rig.is_open(part)


def test_given_up(rig: Rig) -> None:
    own, _ = rig.pair()
    part = rig.part()
    sending = rig.sender.begin(own, b"", part, rig.ended.put)
    rig.sender.give_up(sending)
    assert not rig.ended.get(timeout=WAIT_S)
    rig.sender.give_up(sending)
    other, client = rig.pair()
    rig.sender.begin(other, b"", rig.part(0, 5), rig.ended.put)
    assert read(client, 5) == rig.octets[:5]
    assert rig.ended.get(timeout=WAIT_S)
    assert rig.ended.empty()
    assert not rig.is_open(part)


def test_a_file_shorter_than_it_was(rig: Rig) -> None:
    own, client = rig.pair()
    rig.sender.begin(own, b"", rig.part(len(rig.octets) - 3, 10), rig.ended.put)
    assert read(client, 3) == rig.octets[-3:]
    assert not rig.ended.get(timeout=WAIT_S)


def test_the_end_of_the_sender_is_the_end_of_all_it_sends(tmp_path: Path) -> None:
    rig = Rig(tmp_path / "file")
    own, _ = rig.pair()
    parts = [rig.part() for _ in range(2)]
    for part in parts:
        rig.sender.begin(own, b"", part, rig.ended.put)
        own, _ = rig.pair()
    rig.sender.stop()
    assert not any(rig.is_open(part) for part in parts)
    for each in rig.sockets:
        each.close()
