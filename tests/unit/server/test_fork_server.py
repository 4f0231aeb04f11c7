"""The server that forks brokers for tests: they end as others do, and none outlives whoever started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess
from tests.fork_server import FORKS, ROOT
from tests.waiting import until

STARTS_ONE_AND_LEAVES = """
import os, sys
from contextlib import suppress
from pathlib import Path
from tests.broker_process import BrokerProcess
broker = BrokerProcess(Path(sys.argv[1]))
broker.start()
print(broker.pid, flush=True)
os._exit(0)
"""


def test_how_it_ended_is_told() -> None:
    refused = FORKS.run(["serve", "--amqp", "nowhere"], dict(os.environ))
    assert (refused.returncode, refused.stdout) == (2, "") and "amqp" in refused.stderr
    known = FORKS.run(["version"], dict(os.environ))
    assert (known.returncode, known.stderr) == (0, "") and "forebay 0" in known.stdout


def test_a_broker_is_killed_waited_for_and_started_again(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path)
    broker.start()
    first = broker.pid
    broker.kill9()
    with pytest.raises(ProcessLookupError):
        os.kill(first, 0)
    broker.start()
    assert broker.pid != first
    assert os.readlink(f"/proc/{broker.pid}/fd/1") == str(tmp_path / "broker.log")
    os.kill(broker.pid, signal.SIGTERM)
    assert broker.wait() == 0


def test_it_has_no_files_but_its_own(tmp_path: Path) -> None:
    brokers = [BrokerProcess(tmp_path / str(number)) for number in range(3)]
    for broker in brokers:
        broker.start()
    counts = [files_but_of_data(broker) for broker in brokers]
    for broker in brokers:
        broker.finish()
    assert len(set(counts)) == 1


def files_but_of_data(broker: BrokerProcess) -> int:
    """How many files a broker has open, but those of its data: it may be making one."""
    found = 0
    for name in os.listdir(f"/proc/{broker.pid}/fd"):
        with suppress(FileNotFoundError):  # closed by now
            found += not os.readlink(f"/proc/{broker.pid}/fd/{name}").startswith(str(broker.data))
    return found


def test_none_outlives_whoever_started_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", STARTS_ONE_AND_LEAVES, str(tmp_path)]
    pid = int(subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=ROOT).stdout)
    until(lambda: not Path(f"/proc/{pid}").exists(), "the end of a broker whose test has gone")
