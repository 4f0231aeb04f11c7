"""amqplib, the AMQP client of Node."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import BrokerProcess
from tests.interop import npm

VERSION = "2.3.1"
SCRIPT = Path(__file__).with_name("amqplib_client.js")
WAIT_S = 60


@pytest.fixture(scope="module")
def package() -> Path:
    """Folder with amqplib."""
    return npm.installed("amqplib", VERSION)


def run(package: Path, broker: BrokerProcess, what: str) -> Any:
    """What the program of that name in amqplib_client.js prints."""
    node = shutil.which("node")
    assert node is not None, "node is missing: apt-get install nodejs"
    url = f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}"
    command = [node, str(SCRIPT), str(package), url, what]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_work_queue(package: Path, broker: BrokerProcess) -> None:
    found = run(package, broker, "work")
    assert found == {"bodies": [str(number) for number in range(100)], "headers": list(range(100))}


def test_callbacks(package: Path, broker: BrokerProcess) -> None:
    assert run(package, broker, "callbacks") == "hello"


def test_confirms(package: Path, broker: BrokerProcess) -> None:
    found = run(package, broker, "confirms")
    assert found == {"one": None, "messageCount": 50, "full": ["taken", "message nacked"]}


def test_questions_and_answers(package: Path, broker: BrokerProcess) -> None:
    assert run(package, broker, "rpc") == [["a", "A"], ["b", "B"], ["c", "C"]]


def test_exchanges_behind_exchanges(package: Path, broker: BrokerProcess) -> None:
    assert run(package, broker, "exchanges") == {"orders": "order.paid", "lost": "user.left", "more": False}


def test_what_fails(package: Path, broker: BrokerProcess) -> None:
    assert run(package, broker, "errors") == {
        "replyCode": 312,
        "replyText": "NO_ROUTE",
        "error": "Channel closed by server: 404 (NOT-FOUND) with message "
        "\"NOT_FOUND - no queue 'missing' in vhost '/'\"",
    }


def test_priorities_and_retries(package: Path, broker: BrokerProcess) -> None:
    assert run(package, broker, "retries") == {"order": ["5", "3", "1"], "attempts": 3}
