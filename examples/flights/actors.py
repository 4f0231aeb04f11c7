"""The actors of the demo: the broker, the publisher, the workers and Spark."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import paho.mqtt.client as mqtt
import pika
from paho.mqtt.enums import CallbackAPIVersion

from examples.flights.account import Counted, DemoError, FlightLedger, Flights, Numbers

STREAM = "flights"
WORKER = Path(__file__).with_name("worker.py")
WORK = "flights-work"
CONFIG = f"""
mqtt_websocket = ""
http = ""
prometheus = ""

[[queues]]
name = "{STREAM}"
type = "stream"
topics = ["$queue/flights/#"]

[[queues]]
name = "{WORK}"
topics = ["$queue/flights/#"]
"""

WINDOW_MESSAGES = 1000  # published and not yet acknowledged
START_S_MAX = 60
STOP_S_MAX = 60


class DemoBroker:
    """`forebay serve` on free ports, as anybody would start it."""

    def __init__(self, folder: Path, config: str = CONFIG) -> None:
        path = folder / "forebay.toml"
        path.write_text(config, encoding="utf-8")
        command = [sys.executable, "-m", "forebay", "serve", "--config", str(path), "--data", str(folder / "data")]
        command += ["--amqp", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"]
        # Options of the surroundings are for another broker.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("FOREBAY_")}
        self.log = folder / "broker.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=environment)
        ready = self._ready()
        self.pid = int(str(ready["pid"]))
        self.amqp = str(ready["amqp"])
        self.mqtt = str(ready["mqtt"])

    def _ready(self) -> dict[str, object]:
        """The broker's ready line, once it accepts connections."""
        assert self.process.stdout is not None
        guard = threading.Timer(START_S_MAX, self.process.kill)
        guard.start()
        try:
            for line in self.process.stdout:
                if line.startswith(b"ready "):
                    answer = json.loads(line.removeprefix(b"ready "))
                    assert isinstance(answer, dict)
                    return answer
        finally:
            guard.cancel()
        self.process.wait()
        raise DemoError(f"the broker did not start:\n{self.log.read_text(errors='replace')[-2000:]}")

    def check(self) -> None:
        if self.process.poll() is not None:
            text = self.log.read_text(errors="replace")[-2000:]
            raise DemoError(f"the broker ended with code {self.process.returncode}:\n{text}")

    def cpu_s(self) -> float:
        """Processor time it has used so far."""
        fields = Path(f"/proc/{self.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def memory_mib_max(self) -> int:
        """The most memory it had in use."""
        for line in Path(f"/proc/{self.pid}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) // 1024
        return 0

    def stop(self) -> int:
        """Ask it to drain and end; its exit code."""
        return end(self.process)


class DemoWorker:
    """One worker process and the log that it writes (see worker.py)."""

    def __init__(self, folder: Path, name: str, amqp: str) -> None:
        host, _, port = amqp.rpartition(":")
        self.name = name
        self.path = folder / f"{name}.log"
        self.errors = folder / f"{name}.err"
        self.read_octets = 0
        command = [sys.executable, str(WORKER), host, port, WORK, str(self.path)]
        with self.errors.open("wb") as errors:
            self.process = subprocess.Popen(command, stderr=errors)

    def check(self) -> None:
        if self.process.poll() is not None:
            text = self.errors.read_text(errors="replace")[-2000:]
            raise DemoError(f"{self.name} ended with code {self.process.returncode}:\n{text}")

    def new_entries(self) -> Numbers:
        """The entries since the last call."""
        if not self.path.exists():
            return np.empty(0, np.int64)
        entries = np.fromfile(self.path, "<u4", offset=self.read_octets).astype(np.int64)
        self.read_octets += 4 * len(entries)
        return entries


class Crew:
    """The workers, of which one is killed and replaced."""

    def __init__(self, folder: Path, amqp: str, size: int) -> None:
        self.folder = folder
        self.amqp = amqp
        self.workers = [DemoWorker(folder, f"worker-{number}", amqp) for number in range(1, size + 1)]
        self.victim: DemoWorker | None = None  # stopped, to be killed
        self.killed: DemoWorker | None = None

    def enter_into(self, ledger: FlightLedger) -> None:
        """Have the ledger count what the workers noted since the last call."""
        for worker in self.workers:
            ledger.enter(worker.new_entries())
        for gone in (self.victim, self.killed):
            if gone is not None:
                ledger.enter(gone.new_entries())

    def check(self) -> None:
        for worker in self.workers:
            worker.check()

    def stall(self) -> None:
        """Stop the first worker: what the broker sends it now stays unread, so that its death leaves work undone."""
        self.victim = self.workers.pop(0)
        self.victim.process.send_signal(signal.SIGSTOP)

    def kill_and_replace(self) -> str:
        """SIGKILL the stalled worker, and start it again; its name."""
        assert self.victim is not None
        self.killed, self.victim = self.victim, None
        self.killed.process.kill()
        self.killed.process.wait()
        self.workers.append(DemoWorker(self.folder, f"{self.killed.name}-again", self.amqp))
        return self.killed.name

    def killed_code(self) -> int:
        """Exit code of the killed worker; 0 if none was killed."""
        return 0 if self.killed is None else self.killed.process.returncode

    def stop(self) -> list[int]:
        """Have the workers give back what they have not noted and end; their exit codes."""
        if self.victim is not None:
            self.victim.process.kill()
            self.victim.process.wait()
        return [end(worker.process) for worker in self.workers]


def end(process: subprocess.Popen[bytes]) -> int:
    """Ask a process to end, wait for it, and kill it if it does not; its exit code."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    if process.stdout is not None:
        process.stdout.close()
    return process.returncode


class FlightPublisher(threading.Thread):
    """Sends every flight at QoS 1 with a window of unacknowledged ones, and waits for the last PUBACK."""

    def __init__(self, address: str, flights: Flights) -> None:
        super().__init__(name="publisher", daemon=True)
        self.address = address
        self.flights = flights
        self.sent = 0
        self.acknowledged = 0
        self.refused = 0
        self.elapsed_s = 0.0
        self.failure = ""
        self.cancelled = False

    def run(self) -> None:
        try:
            self._publish()
        except (OSError, DemoError) as error:
            self.failure = f"publishing failed: {error}"

    def check(self) -> None:
        if self.failure:
            raise DemoError(self.failure)

    def cancel(self) -> None:
        """Stop before the end, if it has not ended."""
        self.cancelled = True
        if self.is_alive():
            self.join()

    def _publish(self) -> None:
        host, _, port = self.address.rpartition(":")
        client = mqtt.Client(CallbackAPIVersion.VERSION2, client_id="forebay-demo", protocol=mqtt.MQTTv5)
        client.username_pw_set("guest", "guest")
        client.max_inflight_messages_set(WINDOW_MESSAGES)
        client.on_publish = self._on_publish
        client.connect(host, int(port))
        while not client.is_connected():
            step(client)
        started = time.monotonic()
        total = len(self.flights)
        while self.acknowledged + self.refused < total and not self.cancelled:
            last = min(total, self.acknowledged + self.refused + WINDOW_MESSAGES)
            while self.sent < last:
                client.publish(self.flights.topics[self.sent], self.flights.bodies[self.sent], qos=1)
                self.sent += 1
            step(client)
        self.elapsed_s = time.monotonic() - started
        client.disconnect()
        while client.want_write():
            step(client)

    def _on_publish(self, _: object, __: object, ___: int, reason: Any, ____: object) -> None:
        if reason.is_failure:
            self.refused += 1
        else:
            self.acknowledged += 1


def step(client: mqtt.Client) -> None:
    """One round of reading and writing; DemoError if the connection is gone."""
    result = client.loop(0.2)
    if result != mqtt.MQTT_ERR_SUCCESS:
        raise DemoError(f"MQTT connection lost: {mqtt.error_string(result)}")


def ready_count(amqp: str) -> int:
    """Messages that are in the work queue, by the broker's own account."""
    host, _, port = amqp.rpartition(":")
    connection = pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))
    try:
        return int(connection.channel().queue_declare(WORK, passive=True).method.message_count)
    finally:
        connection.close()


def count_with_spark(amqp: str, folder: Path) -> Counted:
    """Mean departure delay per carrier and hour over the stream, and how many flights it holds."""
    from pyspark.sql import functions as f

    from forebay.spark import session

    with errors_to(folder / "spark.log"):
        spark = session(app_name="forebay-demo", config={"spark.ui.enabled": "false"})
        try:
            spark.sparkContext.setLogLevel("ERROR")
            counted = Counted()
            begun = time.monotonic()
            stream = spark.read.format("forebay").option("forebay.servers", amqp).option("subscribe", STREAM).load()
            fields = "id INT, carrier STRING, hour INT, dep_delay DOUBLE"
            flight = f.from_json(f.col("value").cast("string"), fields)
            flights = stream.select(flight.alias("flight")).select("flight.*")
            delay = f.col("dep_delay")
            groups = flights.groupBy("carrier", "hour").agg(f.avg(delay), f.count(delay), f.count(f.lit(1))).collect()
            counted.groups = [(row[0], row[1], row[2], row[3], row[4]) for row in groups]
            counted.rows, counted.distinct = flights.agg(f.count(f.lit(1)), f.count_distinct("id")).collect()[0]
            counted.elapsed_s = time.monotonic() - begun
        finally:
            spark.stop()
    return counted


@contextmanager
def errors_to(path: Path) -> Iterator[None]:
    """Send what this process and its children (the JVM) write to standard error to a file instead."""
    sys.stderr.flush()
    kept = os.dup(2)
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 2)
    os.close(log)
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
