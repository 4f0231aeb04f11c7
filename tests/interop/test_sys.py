"""The broker's figures under `$SYS`, read with mosquitto_sub as its users do."""

from __future__ import annotations

import subprocess
from collections.abc import Callable

import pytest

from tests.broker_process import BrokerProcess
from tests.interop.test_mosquitto import WAIT_S, command, publish, subscriber

LOADS = ["connections", "sockets", "bytes/received", "bytes/sent"]
LOADS += ["messages/received", "messages/sent", "publish/received", "publish/sent", "publish/dropped"]
NAMES = {
    "bytes/received",
    "bytes/sent",
    "clients/connected",
    "clients/disconnected",
    "clients/expired",
    "clients/maximum",
    "clients/total",
    "heap/current",
    "heap/maximum",
    "messages/received",
    "messages/sent",
    "publish/bytes/received",
    "publish/bytes/sent",
    "publish/messages/dropped",
    *(f"publish/messages/dropped/{reason}" for reason in ("queue_full", "not_read", "expired", "too_large")),
    "publish/messages/received",
    "publish/messages/sent",
    "retained messages/count",
    "delayed messages/count",
    "dead letters/dropped",
    "dead letters/moved",
    "staged batches/count",
    "shared_subscriptions/count",
    "store/messages/bytes",
    "store/messages/count",
    "subscriptions/count",
    "timestamp",
    "uptime",
    "version",
    *(f"load/{name}/{window}" for name in LOADS for window in ("1min", "5min", "15min")),
}

each_version = pytest.mark.parametrize("version", ["mqttv311", "mqttv5"])


def figures(broker: BrokerProcess, version: str, *arguments: str) -> list[list[str]]:
    """What mosquitto_sub prints until it ends by itself: the RETAIN flag, the figure's name, the value."""
    made = [*command("mosquitto_sub", broker, version), "-F", "%r|%t|%p", *arguments]
    done = subprocess.run(made, capture_output=True, timeout=WAIT_S, check=True)
    return [line.replace("$SYS/broker/", "").split("|") for line in done.stdout.decode().splitlines()]


@each_version
def test_all_figures_are_there_at_once(broker: BrokerProcess, version: str) -> None:
    found = figures(broker, version, "-t", "$SYS/#", "-C", str(len(NAMES)))
    assert {name for _, name, _ in found} == NAMES
    assert {flag for flag, _, _ in found} == {"1"}
    values = {name: value for _, name, value in found}
    assert values["version"].startswith("forebay version ")
    assert values["uptime"].endswith(" seconds")
    assert values["load/sockets/15min"].count(".") == 1


def value_of(broker: BrokerProcess, name: str, value: str) -> None:
    """Wait until a figure has this value."""
    made = [*command("mosquitto_sub", broker, "mqttv5"), "-t", f"$SYS/broker/{name}"]
    with subprocess.Popen(made, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        try:
            while (line := process.stdout.readline().decode().strip()) != value:
                assert line, f"mosquitto_sub has ended before {name} was {value}"
        finally:
            process.kill()


def test_figures_are_told_again_when_they_change(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(mqtt_sys_interval_s=1)
    assert publish(broker, "mqttv5", "-t", "a", "-m", "body", "-r", "-q", "1").returncode == 0
    for number in range(1, 4):
        assert publish(broker, "mqttv311", "-t", f"b/{number}", "-m", "x").returncode == 0
    value_of(broker, "publish/messages/received", "4")
    value_of(broker, "publish/bytes/received", "7")
    value_of(broker, "retained messages/count", "1")
    value_of(broker, "store/messages/bytes", "4")
    value_of(broker, "clients/connected", "1")
    value_of(broker, "subscriptions/count", "1")


def test_a_wildcard_alone_does_not_find_them(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(mqtt_sys_interval_s=1)
    publish(broker, "mqttv5", "-t", "kept", "-m", "1", "-r", "-q", "1")
    with subscriber(broker, "mqttv5", "-t", "#", "-t", "+/+/+", "-C", "2", "-F", "%t") as process:
        value_of(broker, "uptime", "3 seconds")  # meanwhile figures have been told
        publish(broker, "mqttv5", "-t", "last", "-m", "1", "-q", "1")
        assert process.communicate(timeout=WAIT_S)[0].decode().split() == ["kept", "last"]


def test_without_an_interval_there_are_none(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(mqtt_sys_interval_s=0)
    publish(broker, "mqttv5", "-t", "kept", "-m", "1", "-r", "-q", "1")
    assert figures(broker, "mqttv5", "-t", "$SYS/#", "-t", "kept", "-C", "1") == [["1", "kept", "1"]]


def test_clients_do_not_publish_there(broker: BrokerProcess) -> None:
    done = publish(broker, "mqttv5", "-t", "$SYS/broker/version", "-m", "mine", "-r", "-q", "1")
    assert b"Not authorized" in done.stderr + done.stdout
    found = figures(broker, "mqttv5", "-t", "$SYS/broker/version", "-C", "1")
    assert found[0][2].startswith("forebay version ")
