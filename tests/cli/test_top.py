"""`forebay top` on a terminal: it resizes, says since when a broker is away, and names slow consumers."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios

import pika
import pytest

from forebay.cli.top.command import keyboard
from tests.broker_process import BrokerProcess
from tests.cli.test_operating import Screen, plain
from tests.unit.cli.commands import Forebay
from tests.waiting import WAIT_S_MAX

HOME = "\x1b[H"


@pytest.fixture
def own(broker: BrokerProcess) -> Forebay:
    """The command line of a broker that is the test's alone."""
    return Forebay(broker)


def resize(screen: Screen, lines: int, columns: int) -> None:
    fcntl.ioctl(screen._end, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
    screen.shown = ""


def test_another_size_is_drawn_at_once_and_names_are_cut(own: Forebay) -> None:
    own("queue", "declare", "a-queue-with-a-rather-long-name-for-a-narrow-terminal")
    screen = Screen(own, "top", "--interval", "30")
    screen.wait_for("…")
    resize(screen, 20, 140)
    screen.wait_for("long-name-for-a-narrow-terminal")
    resize(screen, 20, 60)
    screen.wait_for("…")
    drawn = screen.shown.partition("…")[0].rpartition(HOME)[2]  # before it there may be the rest of the wide picture
    assert max(len(line) for line in plain(drawn).splitlines()) <= 60
    screen.press("q")
    assert screen.end() == 0


@pytest.mark.parametrize("keys", ["", "/text", " "], ids=["table", "finding", "paused"])
def test_a_terminal_that_is_gone_ends_it(own: Forebay, keys: str) -> None:
    screen = Screen(own, "top", "--interval", "30")  # without a terminal of its own: nothing sends it SIGHUP
    screen.wait_for("ready*")
    screen.press(keys)
    if keys:
        screen.wait_for({"/text": "find: text_", " ": "paused"}[keys])
    os.close(screen._end)
    assert screen._process.wait(WAIT_S_MAX) == 1  # as wherever the output goes nowhere


def test_a_letter_that_comes_in_two_parts_is_one_key(monkeypatch: pytest.MonkeyPatch) -> None:
    end, inner = pty.openpty()
    with open(end, "wb", buffering=0) as fingers, open(inner) as terminal:
        monkeypatch.setattr(sys, "stdin", terminal)
        with keyboard() as keys:
            fingers.write(b"\xc3")
            assert keys(WAIT_S_MAX) == ""
            fingers.write(b"\xa4")
            assert keys(WAIT_S_MAX) == "ä"


def test_a_broker_that_goes_is_greyed_out_until_it_is_back(own: Forebay, broker: BrokerProcess) -> None:
    own("queue", "declare", "stays")
    screen = Screen(own, "top", "--interval", "0.3")
    screen.wait_for("stays")
    broker.kill9()
    screen.wait_for("AWAY since ")
    assert "stays" in screen.shown
    screen.shown = ""
    screen.wait_for("\x1b[2m")  # what is known is dim
    broker.start()
    screen.shown = ""
    screen.wait_for("up 0 s")
    screen.press("q")
    assert screen.end() == 0


def test_consumers_that_hold_messages_while_more_wait_are_named(own: Forebay, broker: BrokerProcess) -> None:
    own("queue", "declare", "behind")
    own("publish", "-q", "behind", "x", "-n", "20")
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", broker.amqp_port)) as connection:
        channel = connection.channel()
        channel.basic_qos(prefetch_count=5)
        channel.basic_consume("behind", lambda *_: None, consumer_tag="sleepy")
        connection.process_data_events(0.2)
        (slow,) = own.json("top", "--once", "--interval", "0.3")["slow_consumers"]
        assert (slow["consumer"], slow["queue"], slow["held"], slow["ready"]) == ("sleepy", "behind", 5, 15)
        assert "slow: consumer sleepy of behind holds 5" in own("top", "--interval", "0.3")
        screen = Screen(own, "top", "--interval", "0.3")
        screen.wait_for("1 slow consumers")
        screen.press("c")
        screen.wait_for("sleepy")
        screen.press("q")
        assert screen.end() == 0


def test_lines_of_json_go_on_while_the_broker_is_away(own: Forebay, broker: BrokerProcess) -> None:
    own("queue", "declare", "counted")
    command = [sys.executable, "-m", "forebay", "top", "--json", "--interval", "0.2"]
    watching = subprocess.Popen(
        command, env={**own.inherited, **own.environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert watching.stdout is not None
        first = json.loads(watching.stdout.readline())
        assert [each["queue"] for each in first["queues"]] == ["counted"]
        assert first["broker"]["pid"] == broker.pid
        broker.kill9()
        found: dict[str, object] = first
        while "away_since_ms" not in found:
            found = json.loads(watching.stdout.readline())
        assert set(found) == {"away_since_ms", "error"}
        broker.start()
        while "queues" not in found:
            found = json.loads(watching.stdout.readline())
    finally:
        watching.terminate()
        watching.communicate()
