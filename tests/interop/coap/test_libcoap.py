"""libcoap's client, as Debian has it: publishes, long bodies, retained messages, observation, the Echo option."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess, running
from tests.conformance.coap.raw import CHANGED, GET, Client, bodies, client, metric, operate
from tests.waiting import until

COMMAND = "coap-client-notls"
LOGIN = "user=guest&password=guest"


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running(tmp_path_factory.mktemp("libcoap"), coap="127.0.0.1:0", http="127.0.0.1:0") as broker:
        yield broker


def command(broker: BrokerProcess, path: str, *arguments: str, query: str = "") -> list[str]:
    return [COMMAND, *arguments, f"coap://127.0.0.1:{broker.port('coap')}/{path}?{LOGIN}{query}"]


def run(broker: BrokerProcess, path: str, *arguments: str, query: str = "") -> str:
    """What it prints."""
    words = command(broker, path, *arguments, query=query)
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout + done.stderr


def test_it_publishes_confirmable_and_not(broker: BrokerProcess) -> None:
    operate(broker, "queue.declare", queue="q")
    assert "2.04" in run(broker, "publish/%24queue/q", "-v", "6", "-m", "put", "-e", "con")
    assert "2.04" in run(broker, "publish/%24queue/q", "-v", "6", "-N", "-m", "post", "-e", "non")
    assert bodies(broker, "q") == ["con", "non"]


def test_bodies_come_and_go_in_blocks(broker: BrokerProcess, tmp_path: Path) -> None:
    sent, back = tmp_path / "sent", tmp_path / "back"
    sent.write_bytes(bytes(index % 251 for index in range(30_000)))
    run(broker, "publish/long", "-m", "put", "-f", str(sent), query="&retain=true")
    run(broker, "topic/long", "-m", "get", "-o", str(back))
    assert back.read_bytes() == sent.read_bytes()
    run(broker, "topic/long", "-m", "get", "-b", "64", "-o", str(back))
    assert back.read_bytes() == sent.read_bytes()


def test_it_observes(broker: BrokerProcess, tmp_path: Path) -> None:
    words = command(broker, "subscribe/seen/%2B", "-m", "get", "-s", "30", "-o", str(tmp_path / "seen"))
    observing = subprocess.Popen(words)
    try:
        until(lambda: metric(broker, "forebay_coap_observations")[""] == 1)
        with client(broker) as other:
            other.publish("seen/a", b"on")
            assert other.publish("seen/b", b"x" * 1020).code == CHANGED
        seen = tmp_path / "seen"
        until(lambda: seen.exists() and len(seen.read_bytes()) > 1060)
        text = seen.read_text(encoding="utf-8")
        assert json.loads(text[: text.index("}") + 1])["payload"] == "on"
    finally:
        observing.kill()
        observing.wait()


def test_it_sends_an_echo_option_back(tmp_path: Path) -> None:
    with running(tmp_path, coap="127.0.0.1:0", http="127.0.0.1:0", login_failures_free=3) as broker:
        with client(broker) as guessing:
            while not is_challenged(guessing):
                continue
        before = metric(broker, "forebay_coap_refused_total")['{why="unproven"}']
        assert "2.04" in run(broker, "publish/a", "-v", "6", "-m", "put", "-e", "x")
        assert metric(broker, "forebay_coap_refused_total")['{why="unproven"}'] == before + 1


def is_challenged(guessing: Client) -> bool:
    answer = guessing.request(GET, "topic/a", ("user=guest", "password=wrong"))
    return answer.option(252) is not None
