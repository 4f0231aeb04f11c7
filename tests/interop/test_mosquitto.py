"""mosquitto_pub and mosquitto_sub, as people use them in a shell."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.interop.mqtt_client import client
from tests.waiting import until

WAIT_S = 20
LINES = 3000
PROBES = itertools.count()

each_version = pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])
each_qos = pytest.mark.parametrize("qos", [0, 1, 2])


def command(program: str, broker: BrokerProcess, version: str, password: str = "guest") -> list[str]:
    path = shutil.which(program)
    assert path is not None, f"{program} is missing: apt-get install mosquitto-clients"
    made = [path, "-V", version, "-p", str(broker.mqtt_port), "-u", "guest", "-P", password]
    if version == "mqttv5" and program == "mosquitto_sub":
        # mosquitto_sub 2.0.11 never gives back at QoS 2 what it announces: it leaves after so many messages.
        made += ["-D", "connect", "receive-maximum", "65535"]
    return made


def publish(
    broker: BrokerProcess, version: str, *arguments: str, password: str = "guest", stdin: bytes = b""
) -> subprocess.CompletedProcess[bytes]:
    made = [*command("mosquitto_pub", broker, version, password), *arguments]
    return subprocess.run(made, input=stdin, capture_output=True, timeout=WAIT_S, check=False)


@contextmanager
def subscriber(broker: BrokerProcess, version: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A subscribed mosquitto_sub."""
    probe = f"probe/{next(PROBES)}"
    made = [*command("mosquitto_sub", broker, version), "-t", probe, "-T", probe, *arguments]
    with subprocess.Popen(made, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            wait_until_subscribed(broker, probe)
            yield process
        finally:
            process.kill()


def wait_until_subscribed(broker: BrokerProcess, probe: str) -> None:
    """Until somebody gets what is published to the topic `probe`, which mosquitto_sub is told not to show."""
    nobody = ReasonCode(PacketTypes.PUBACK, "No matching subscribers")
    with client(broker, "probe") as made:
        until(lambda: made.publish(probe) != nobody, "a subscription of mosquitto_sub")


@each_version
@each_qos
def test_a_message_arrives(broker: BrokerProcess, version: str, qos: int) -> None:
    with subscriber(broker, version, "-t", "a/#", "-q", str(qos), "-C", "1", "-F", "%t|%q|%p") as sink:
        done = publish(broker, version, "-t", "a/b", "-m", "page 1", "-q", str(qos))
        assert (done.returncode, done.stderr) == (0, b"")
        found, _ = sink.communicate(timeout=WAIT_S)
        assert (found, sink.returncode) == (b"a/b|%d|page 1\n" % qos, 0)


@each_version
@each_qos
def test_lines_of_standard_input_are_messages(
    start_broker: Callable[..., BrokerProcess], version: str, qos: int
) -> None:
    broker = start_broker(mqtt_max_mqueue_len=0)  # mosquitto_pub may be faster than mosquitto_sub
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


def subscribe_and_leave(broker: BrokerProcess, version: str, name: str, *arguments: str) -> None:
    """Leave a session behind that is subscribed."""
    made = [*command("mosquitto_sub", broker, version), "-c", "-i", name, *arguments, "-E"]
    subprocess.run(made, capture_output=True, timeout=WAIT_S, check=True)


def read(broker: BrokerProcess, version: str, *arguments: str) -> bytes:
    """What a mosquitto_sub prints until it has what it was told to wait for."""
    made = [*command("mosquitto_sub", broker, version), *arguments]
    return subprocess.run(made, capture_output=True, timeout=WAIT_S, check=True).stdout


@pytest.mark.parametrize("killed", [False, True], ids=["", "killed"])
@pytest.mark.parametrize("qos", ["1", "2"])
@each_version
def test_a_session_keeps_lines_for_its_client(broker: BrokerProcess, version: str, qos: str, killed: bool) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(500))
    subscribe_and_leave(broker, version, "reader", "-t", "a/#", "-q", qos)
    assert publish(broker, version, "-t", "a/b", "-l", "-q", qos, stdin=lines).returncode == 0
    if killed:
        broker.kill9()
        broker.start()
    assert read(broker, version, "-c", "-i", "reader", "-t", "a/#", "-q", qos, "-C", "500") == lines
    # Nothing is left: the next line is the next one that is published.
    assert publish(broker, version, "-t", "a/b", "-m", "last", "-q", qos).returncode == 0
    assert read(broker, version, "-c", "-i", "reader", "-t", "a/#", "-q", qos, "-C", "1") == b"last\n"


@each_version
def test_a_retained_message(broker: BrokerProcess, version: str) -> None:
    for value in ("off", "on"):
        assert publish(broker, version, "-t", "lamps/1", "-m", value, "-r", "-q", "1").returncode == 0
    assert publish(broker, version, "-t", "lamps/2", "-m", "dim", "-r", "-q", "2").returncode == 0
    assert publish(broker, version, "-t", "lamps/1", "-m", "blink", "-q", "1").returncode == 0
    found = read(broker, version, "-t", "lamps/#", "-q", "2", "-C", "2", "-F", "%t|%q|%r|%p")
    assert sorted(found.splitlines()) == [b"lamps/1|1|1|on", b"lamps/2|2|1|dim"]
    assert publish(broker, version, "-t", "lamps/1", "-n", "-r", "-q", "1").returncode == 0
    assert read(broker, version, "-t", "lamps/#", "-C", "1") == b"dim\n"


@each_version
def test_a_will(broker: BrokerProcess, version: str) -> None:
    will = ["--will-topic", "gone", "--will-payload", "farewell", "--will-qos", "2", "--will-retain"]
    with subscriber(broker, version, "-t", "gone", "-q", "2", "-C", "1", "-F", "%q|%r|%p") as watcher:
        with subscriber(broker, version, *will):
            pass  # killed at the end
        found, _ = watcher.communicate(timeout=WAIT_S)
        assert found == b"2|0|farewell\n"
    assert read(broker, version, "-t", "gone", "-C", "1", "-F", "%r|%p") == b"1|farewell\n"


@each_version
def test_members_of_a_group_share_lines(broker: BrokerProcess, version: str) -> None:
    lines = [b"line %d" % number for number in range(60)]  # so few that no window is ever full
    arguments = ["-t", "$share/workers/jobs", "-q", "1", "-C", "30"]
    with subscriber(broker, version, *arguments) as one, subscriber(broker, version, *arguments) as two:
        done = publish(broker, version, "-t", "jobs", "-l", "-q", "1", stdin=b"\n".join(lines) + b"\n")
        assert done.returncode == 0
        shares = [member.communicate(timeout=WAIT_S)[0].splitlines() for member in (one, two)]
    assert sorted(shares[0] + shares[1]) == sorted(lines)
    for share in shares:
        assert share == sorted(share, key=lines.index)


def test_properties_and_subscription_identifiers(broker: BrokerProcess) -> None:
    told = ["-D", "subscribe", "subscription-identifier", "77"]
    with subscriber(broker, "mqttv5", *told, "-t", "a/#", "-C", "1", "-F", "%S|%C|%R|%D|%P|%p") as sink:
        properties = {"content-type": "text/x", "response-topic": "answers", "correlation-data": "7"}
        sent = [word for name, value in properties.items() for word in ("-D", "publish", name, value)]
        sent += ["-D", "publish", "user-property", "colour", "red"]
        assert publish(broker, "mqttv5", "-t", "a/b", "-m", "x", *sent).returncode == 0
        found, _ = sink.communicate(timeout=WAIT_S)
        assert found == b"77|text/x|answers|7|colour:red|x\n"


def test_a_message_expires_while_it_waits(broker: BrokerProcess) -> None:
    subscribe_and_leave(broker, "mqttv5", "reader", "-t", "a", "-q", "1")
    for seconds in ("1", "600"):
        told = ["-D", "publish", "message-expiry-interval", seconds]
        assert publish(broker, "mqttv5", "-t", "a", "-m", seconds, "-q", "1", *told).returncode == 0
    broker.wait_out(1)
    found = read(broker, "mqttv5", "-c", "-i", "reader", "-t", "a", "-q", "1", "-C", "1", "-F", "%E %p").split()
    assert found[1] == b"600"
    assert 0 < int(found[0]) <= 599


def test_an_alias_stands_for_the_topic_of_many_lines(broker: BrokerProcess) -> None:
    lines = b"".join(b"line %d\n" % number for number in range(100))
    with subscriber(broker, "mqttv5", "-t", "long/#", "-C", "100", "-F", "%t %p") as sink:
        told = ["-D", "publish", "topic-alias", "3"]
        assert publish(broker, "mqttv5", "-t", "long/topic", "-l", "-q", "1", *told, stdin=lines).returncode == 0
        found, _ = sink.communicate(timeout=WAIT_S)
        assert found == b"".join(b"long/topic " + line for line in lines.splitlines(keepends=True))


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
