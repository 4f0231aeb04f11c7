"""Whether an installed forebay works: start a broker, send messages through it over AMQP and MQTT, stop it.

Run by the Python of the environment that it is installed in. Ends with an error where anything is not as it should be.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from forebay.client.mqtt import MqttClient

WAIT_S = 60
COMMAND = str(Path(sys.executable).parent / "forebay")
ANY_PORT = "127.0.0.1:0"


def forebay(*arguments: str) -> str:
    """What a command prints."""
    done = subprocess.run([COMMAND, *arguments], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, f"forebay {' '.join(arguments)}: {done.stdout}{done.stderr}"
    return done.stdout


def ready(broker: subprocess.Popen[str]) -> dict[str, str]:
    """Where the broker listens, as it says itself."""
    assert broker.stdout is not None
    for line in broker.stdout:
        if line.startswith("ready "):
            told: dict[str, str] = json.loads(line.removeprefix("ready "))
            return told
    raise AssertionError(f"the broker ended with {broker.wait()} before it was ready")


def through_amqp(server: str) -> None:
    """A message by the command line."""
    forebay("queue", "declare", "smoke", "--server", server)
    forebay("publish", "--queue", "smoke", "over AMQP", "--server", server)
    got = forebay("consume", "--queue", "smoke", "--count", "1", "--output", "lines", "--server", server)
    assert got == "over AMQP\n", got


def through_mqtt(address: str, server: str) -> None:
    """Messages at QoS 1: to a subscriber, and to a queue that is read over AMQP."""
    client = MqttClient.connect(address, "guest", "guest", "smoke")
    try:
        client.subscribe("smoke/#")
        client.publish(b"smoke/1", b"over MQTT")
        client.publish(b"$queue/smoke/1", b"from one to the other")
        client.settle(0)
        assert client.next(WAIT_S) == b"over MQTT"
    finally:
        client.close()
    got = forebay("consume", "--queue", "smoke", "--count", "1", "--output", "lines", "--server", server)
    assert got == "from one to the other\n", got


def main() -> None:
    """Do all of it."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile("w+") as log:
        command = [COMMAND, "serve", "--data", folder, "--amqp", ANY_PORT, "--mqtt", ANY_PORT]
        others = dict.fromkeys(("FOREBAY_HTTP", "FOREBAY_MQTT_WEBSOCKET", "FOREBAY_PROMETHEUS"), ANY_PORT)
        own = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True, env={**own, **others}) as broker:
            try:
                at = ready(broker)
                through_amqp(at["amqp"])
                through_mqtt(at["mqtt"], at["amqp"])
                broker.send_signal(signal.SIGTERM)
                code = broker.wait(WAIT_S)
                assert code == 0, f"the broker ended with {code}"
            except BaseException:
                log.seek(0)
                print(log.read(), file=sys.stderr)
                raise
            finally:
                broker.kill()
    print(f"{forebay('version').strip()}: starts, takes and gives messages over AMQP and MQTT, stops")


if __name__ == "__main__":
    main()
