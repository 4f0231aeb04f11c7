"""rhea, the AMQP 1.0 client of Node, as people use it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess, running
from tests.certificates import Certificates
from tests.interop import npm
from tests.interop.amqp10.rhea_client import WS_VERSION, run


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that the tests of this module share."""
    folder: Path = tmp_path_factory.mktemp("rhea")
    with running(folder) as made:
        yield made


def texts(*bodies: str) -> list[dict[str, object]]:
    return [{"body": ["string", body]} for body in bodies]


def test_a_wrong_password(broker: BrokerProcess) -> None:
    assert "auth" in run(broker, "login")["error"].lower()


def test_what_is_not_there(broker: BrokerProcess) -> None:
    assert run(broker, "missing", address="/queues/none") == ["amqp:not-found", "no queue 'none' in vhost '/'"]


def test_five_thousand_messages(broker: BrokerProcess) -> None:
    """rhea keeps 2,048 deliveries a direction, and stops where their outcomes do not come."""
    assert run(broker, "many", address="$queue/many", count=5000) == {"settled": 5000, "got": 5000}


def test_credit_and_drain(broker: BrokerProcess) -> None:
    bodies = [str(number) for number in range(8)]
    assert run(broker, "send", address="$queue/drained", messages=texts(*bodies)) == ["accepted"] * 8
    assert run(broker, "drain", address="$queue/drained", count=8) == {"found": bodies, "credit": 0}


def test_questions_and_answers(broker: BrokerProcess) -> None:
    assert run(broker, "questions", address="$queue/questions") == [["a", "A"], ["b", "B"], ["c", "C"]]


def test_outcomes(broker: BrokerProcess) -> None:
    run(broker, "send", address="$queue/tried", messages=texts("a", "b"))
    found = run(broker, "outcomes", address="$queue/tried", outcomes=["release", "modify", "accept", "accept"])
    assert found == [["a", 0], ["a", 0], ["a", 1], ["b", 0]], "a release does not count"


def test_bodies_up_to_10_mb(broker: BrokerProcess) -> None:
    lengths = [0, 1, 255, 256, 65_535, 131_072, 10_000_000]
    messages = [{"length": length} for length in lengths]
    assert run(broker, "send", address="$queue/long", messages=messages) == ["accepted"] * len(lengths)
    assert run(broker, "receive", address="$queue/long", count=len(lengths), lengths=True) == lengths


@pytest.mark.parametrize("secure", [False, True])
def test_websocket(tmp_path: Path, secure: bool) -> None:
    certificates = Certificates(tmp_path / "certificates")
    with running(tmp_path / "broker", **certificates.options(mqtt_websocket_tls="127.0.0.1:0")) as broker:
        listener, scheme = ("mqtt_websocket_tls", "wss") if secure else ("mqtt_websocket", "ws")
        url = f"{scheme}://localhost:{broker.port(listener)}/amqp"
        websocket = {"url": url, "package": str(npm.installed("ws", WS_VERSION)), "ca": str(certificates.ca)}
        lengths = [0, 1, 125, 65_536, 3_000_000]
        messages = [{"length": length} for length in lengths]
        sent = run(broker, "send", address="$queue/web", messages=messages, websocket=websocket)
        assert sent == ["accepted"] * len(lengths)
        more = {"count": len(lengths), "lengths": True, "websocket": websocket}
        assert run(broker, "receive", address="$queue/web", **more) == lengths
        assert run(broker, "many", address="$queue/many", count=3000, websocket=websocket)["got"] == 3000


def test_a_browser_and_a_message_that_is_undeliverable_to_one(broker: BrokerProcess) -> None:
    run(broker, "send", address="$queue/looked-at", messages=texts("a", "b"))
    shown = run(broker, "receive", address="$queue/looked-at", count=2, copy=True)
    assert [each["body"] for each in shown] == ["a", "b"]
    found = run(broker, "outcomes", address="$queue/looked-at", outcomes=["refuse", "release", "accept"])
    assert found == [["a", 0], ["b", 0], ["b", 0]], "the first does not come back to this receiver"
    assert [each["body"] for each in run(broker, "receive", address="$queue/looked-at", count=1)] == ["a"]
