"""Commands in a terminal: passwords are not shown, questions are asked, progress is."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.unit.cli.commands import Forebay
from tests.waiting import readable

WAIT_S_MAX = 60


class Terminal:
    """One command at a terminal."""

    def __init__(self, forebay: Forebay, *arguments: str) -> None:
        self.shown = ""
        self._end, inner = pty.openpty()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "forebay", *arguments],
            env={**forebay.inherited, **forebay.environment, "TERM": "xterm"},
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )
        os.close(inner)

    def wait_for(self, text: str) -> None:
        """Read until this is on the screen."""
        deadline = time.monotonic() + WAIT_S_MAX
        while text not in self.shown:
            assert time.monotonic() < deadline, self.shown
            self._read()

    def type(self, line: str) -> None:
        os.write(self._end, f"{line}\n".encode())

    def end(self) -> int:
        """Read the rest; the exit code."""
        while self._process.poll() is None or readable(self._end, 0):
            if not self._read():
                break
        os.close(self._end)
        return self._process.wait(WAIT_S_MAX)

    def _read(self) -> bool:
        if not readable(self._end, 0.05):
            return True
        try:
            data = os.read(self._end, 65_536)
        except OSError:  # what Linux says when the other end is closed
            return False
        self.shown += data.decode()
        return bool(data)


@pytest.fixture
def forebay(broker: BrokerProcess) -> Forebay:
    return Forebay(broker)


def test_a_password_is_asked_for_twice_and_not_shown(forebay: Forebay) -> None:
    # The blank behind a question comes when nothing is shown any more.
    terminal = Terminal(forebay, "user", "add", "ann", "--tags", "administrator")
    terminal.wait_for("New password of ann: ")
    terminal.type("hush-hush")
    terminal.wait_for("Repeat for confirmation: ")
    terminal.type("hush-hush")
    assert terminal.end() == 0, terminal.shown
    assert "user ann created" in terminal.shown
    assert "hush" not in terminal.shown

    terminal = Terminal(forebay, "queue", "list", "--user", "ann")
    terminal.wait_for("Password of ann: ")
    terminal.type("hush-hush")
    assert terminal.end() == 0, terminal.shown
    assert "unacked" in terminal.shown  # of the heading
    assert "hush" not in terminal.shown


@pytest.mark.parametrize(("answer", "code", "left"), [("n", 1, True), ("y", 0, False)])
def test_what_destroys_is_asked_about(forebay: Forebay, answer: str, code: int, left: bool) -> None:
    forebay("queue", "declare", "q")
    terminal = Terminal(forebay, "queue", "delete", "q")
    terminal.wait_for("Delete queue q with its messages? [y/N]")
    terminal.type(answer)
    assert terminal.end() == code
    assert ("nothing was done" in terminal.shown) == left
    assert ("q" in [each["queue"] for each in forebay.json("queue", "list")]) == left


def test_what_takes_longer_than_a_second_shows_how_far_it_is(forebay: Forebay, tmp_path: Path) -> None:
    forebay("queue", "declare", "dead")
    forebay("publish", "-q", "dead", "x", "-n", "3")
    terminal = Terminal(forebay, "consume", "-q", "dead", "--out", str(tmp_path / "out"), "--wait", "2.5")
    terminal.wait_for("messages")
    assert terminal.end() == 0, terminal.shown
    assert "\x1b[0m 3 \x1b[" in terminal.shown  # between the bar and the time: nobody knows of how many
    assert (tmp_path / "out").read_text().count("\n") == 6


def test_what_is_done_at_once_shows_its_end_alone(forebay: Forebay) -> None:
    forebay("queue", "declare", "dead")
    terminal = Terminal(forebay, "dlq", "redrive", "dead")
    assert terminal.end() == 0, terminal.shown
    assert terminal.shown == "0 messages sent back\r\n"
