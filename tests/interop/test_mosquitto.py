"""mosquitto_pub and mosquitto_sub, as people use them in a shell."""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import client

WAIT_S = 20
LINES = 3000

each_version = pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
each_qos = pytest.mark.parametrize("qos", [0, 1, 2])


def command(program: str, broker: BrokerProcess, version: str, password: str = "guest") -> list[str]:
    path = shutil.which(program)
    assert path is not None, f"{program} is missing: apt-get install mosquitto-clients"
    return [path, "-V", version, "-p", str(broker.mqtt_port), "-u", "guest", "-P", password]


def publish(
    broker: BrokerProcess, version: str, *arguments: str, password: str = "guest", stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    made = [*command("mosquitto_pub", broker, version, password), *arguments]
    return subprocess.run(made, input=stdin, capture_output=True, timeout=WAIT_S, check=False)


@contextmanager
def subscriber(broker: BrokerProcess, version: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A subscribed mosquitto_sub."""
    made = [*command("mosquitto_sub", broker, version), "-t", "probe", "-T", "probe", *arguments]
    with subprocess.Popen(made, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            wait_until_subscribed(broker)
            yield process
        finally:
            process.kill()


def wait_until_subscribed(broker: BrokerProcess) -> None:
    """Until somebody gets what is published to `probe`, which mosquitto_sub is told not to show."""
    nobody = ReasonCode(PacketTypes.PUBACK, "No matching subscribers")
    deadline = time.monotonic() + WAIT_S
    with client(broker, "probe") as made:
        while made.publish("probe") == nobody:
            assert time.monotonic() < deadline, "mosquitto_sub does not subscribe"
            time.sleep(0.01)


@each_version
@each_qos
def test_a_message_arrives(broker: BrokerProcess, version: str, qos: int) -> None:
    with subscriber(broker, version, "-t", "a/#", "-q", str(qos), "-C", "1", "-F", "%t|%q|%p") as sink:
        done = publish(broker, version, "-t", "a/b", "-m", "page 1", "-q", str(qos))
        assert (done.returncode, done.stderr) == (0, b"")
        found, _ = sink.communicate(timeout=WAIT_S)
        assert (found, sink.returncode) == (b"a/b|%d|page 1\n" % min(qos, 1), 0)


@each_version
@each_qos
def test_lines_of_standard_input_are_messages(broker: BrokerProcess, version: str, qos: int) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(LINES))
    with subscriber(broker, version, "-t", "lines", "-q", str(qos), "-C", str(LINES)) as sink:
        done = publish(broker, version, "-t", "lines", "-l", "-q", str(qos), stdin=lines)
        assert (done.returncode, done.stderr) == (0, b"")
        found, _ = sink.communicate(timeout=WAIT_S)
        assert found == lines


@each_version
@each_qos
def test_a_file_is_a_payload(broker: BrokerProcess, version: str, qos: int, tmp_path: Path) -> None:
    path = tmp_path / "payload"
    path.write_bytes(bytes(range(256)) * 1200)
    with subscriber(broker, version, "-t", "files", "-q", str(qos), "-C", "1", "-N") as sink:
        done = publish(broker, version, "-t", "files", "-f", str(path), "-q", str(qos))
        assert (done.returncode, done.stderr) == (0, b"")
        found, _ = sink.communicate(timeout=WAIT_S)
        assert found == path.read_bytes()


@each_version
def test_a_queue_keeps_lines_for_a_later_reader(broker: BrokerProcess, version: str) -> None:
    open_channel(broker).queue_declare("jobs", durable=True)
    lines = b"".join(b"line %d\n" % number for number in range(100))
    assert publish(broker, version, "-t", "$queue/jobs/print", "-l", "-q", "1", stdin=lines).returncode == 0
    # At 3.1.1 a PUBACK settles; at 5 mosquitto_sub would hold its first messages for good and get no more.
    reader = [*command("mosquitto_sub", broker, "mqttv311"), "-t", "$queue/jobs/#", "-q", "1", "-C", "100"]
    assert subprocess.run(reader, capture_output=True, timeout=WAIT_S, check=True).stdout == lines


@each_version
def test_a_wrong_password_is_an_error(broker: BrokerProcess, version: str) -> None:
    done = publish(broker, version, "-t", "a", "-m", "x", password="wrong")
    assert done.returncode != 0
    message = done.stderr.decode().lower()
    assert "connection" in message
    assert "user name or password" in message or "authori" in message
