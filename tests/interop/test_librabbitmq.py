"""librabbitmq, the AMQP client of C, in a program that is compiled here."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.broker_process import BrokerProcess

SOURCE = Path(__file__).with_name("librabbitmq_client.c")
MESSAGES = 2_000
WAIT_S = 60


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The compiled program."""
    made = tmp_path_factory.mktemp("librabbitmq") / "client"
    compiler = next(
        (name for name in (os.environ.get("CC"), "cc", "gcc", "clang") if name and shutil.which(name)), None
    )
    assert compiler is not None, "no C compiler: apt-get install gcc"
    command = [compiler, "-Wall", "-Werror", "-o", str(made), str(SOURCE), "-lrabbitmq"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"apt-get install librabbitmq-dev\n{done.stderr}"
    return made


def test_a_program_in_c(program: Path, broker: BrokerProcess) -> None:
    command = [str(program), str(broker.amqp_port), str(MESSAGES)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"in order {MESSAGES}",
        "content type text/plain",
        "error 404 NOT_FOUND - no queue 'missing' in vhost '/'",
        "committed 1",
    ]
