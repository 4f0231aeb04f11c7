"""The commands of amqp-tools, as people use them in a shell."""

from __future__ import annotations

import shutil
import subprocess

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess

WAIT_S = 20


def run(broker: BrokerProcess, program: str, *arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    path = shutil.which(program)
    assert path is not None, f"{program} is missing: apt-get install amqp-tools"
    url = f"amqp://guest:guest@127.0.0.1:{broker.amqp_port}"
    command = [path, "-u", url, *arguments]
    return subprocess.run(command, input=stdin, capture_output=True, timeout=WAIT_S, check=False)


def output(broker: BrokerProcess, program: str, *arguments: str, stdin: bytes = b"") -> bytes:
    """What a command prints, which must succeed."""
    done = run(broker, program, *arguments, stdin=stdin)
    assert (done.returncode, done.stderr) == (0, b"")
    return done.stdout


def test_a_queue_from_its_beginning_to_its_end(broker: BrokerProcess) -> None:
    assert output(broker, "amqp-declare-queue", "-d", "-q", "jobs") == b"jobs\n"
    output(broker, "amqp-publish", "-r", "jobs", "-p", "-C", "text/plain", "-b", "page 1")
    output(broker, "amqp-publish", "-r", "jobs", "-p", stdin=b"page 2")
    assert output(broker, "amqp-get", "-q", "jobs") == b"page 1"
    assert output(broker, "amqp-delete-queue", "-q", "jobs") == b"1\n"


def test_nothing_to_get(broker: BrokerProcess) -> None:
    output(broker, "amqp-declare-queue", "-q", "jobs")
    assert run(broker, "amqp-get", "-q", "jobs").returncode == 2


def test_each_line_is_a_message_and_each_message_starts_a_program(broker: BrokerProcess) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(500))
    output(broker, "amqp-declare-queue", "-d", "-q", "lines")
    output(broker, "amqp-publish", "-r", "lines", "-p", "-l", stdin=lines)
    found = output(broker, "amqp-consume", "-q", "lines", "-c", "20", "-p", "5", "cat")
    assert found == lines[: lines.index(b"line 20\n")]
    channel = open_channel(broker)
    assert channel.queue_declare("lines", passive=True).method.message_count == 480


def test_a_program_that_fails_gives_its_message_back(broker: BrokerProcess) -> None:
    output(broker, "amqp-declare-queue", "-d", "-q", "jobs")
    output(broker, "amqp-publish", "-r", "jobs", "-b", "x")
    run(broker, "amqp-consume", "-q", "jobs", "-c", "1", "false")
    found = open_channel(broker).basic_get("jobs")
    assert (found[0].redelivered, found[2]) == (True, b"x")


def test_an_exchange_and_a_binding(broker: BrokerProcess) -> None:
    channel = open_channel(broker)
    channel.queue_declare("q")
    channel.queue_bind("q", "amq.topic", "order.#")
    output(broker, "amqp-publish", "-e", "amq.topic", "-r", "order.paid", "-b", "yes")
    output(broker, "amqp-publish", "-e", "amq.topic", "-r", "user.left", "-b", "no")
    assert output(broker, "amqp-get", "-q", "q") == b"yes"
    assert run(broker, "amqp-get", "-q", "q").returncode == 2


def test_an_error_is_told(broker: BrokerProcess) -> None:
    done = run(broker, "amqp-get", "-q", "missing")
    assert done.returncode == 1
    assert b"NOT_FOUND - no queue 'missing' in vhost '/'" in done.stderr
