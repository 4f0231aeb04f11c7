"""Connections that tests leave behind do not stop the clients of later tests."""

from __future__ import annotations

import gc
import socket

import pytest

from tests.open_files import MANY, TOO_MANY, OpenFiles, count


class Client:
    """A connection in a cycle, as those of client libraries are."""

    def __init__(self) -> None:
        self.itself = self
        self.ends = socket.socketpair()

    def close(self) -> None:
        for end in self.ends:
            end.close()


def test_what_nobody_holds_is_closed_before_it_is_too_much() -> None:
    files = OpenFiles()
    gc.collect()
    before = count()  # of tests before this one, too: some are held as long as the worker lives
    gc.disable()
    try:
        for _ in range(MANY):
            Client()
        assert count() >= before + MANY
        files.check()
    finally:
        gc.enable()
    assert count() < before + MANY


def test_what_is_held_is_told() -> None:
    files = OpenFiles()
    held = [Client() for _ in range(TOO_MANY // 2)]
    with pytest.raises(AssertionError, match="files are open in the process of the tests"):
        files.check()
    for client in held:
        client.close()
    files.check()
