#!/usr/bin/env python3
"""CPU of a message where few come, beside the least that a broker can do, and of a broker where nothing happens.

usage: bench/lone.py [--rounds 3] [--seconds 4] [--beside VENV/bin/python ...]

Messages of 1 KiB with confirms, each acknowledged by itself, at a fixed rate, in alternation: against this build, each
build that `--beside` names by its Python, and bench/load/floor_broker.c, which parses, writes, syncs and answers on one
thread. CPU is that of the broker's process. A sync that the kernel does is in the machine's, and so are the load
generator and whatever else runs. At last, what the broker takes while 1,000 MQTT clients do nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from connections import packet, text

HERE = Path(__file__).resolve().parent
RATES = (500, 5_000, 50_000)
IDLE_CLIENTS = 1_000
IDLE_S = 20
FLOOR_PORT = 25_671
TICKS = os.sysconf("SC_CLK_TCK")
MICROSECONDS = 1_000_000
OFF = dict.fromkeys(("mqtt_websocket", "http", "prometheus"), "")


class Target:
    """A broker that is measured: its process and its ports."""

    def __init__(self, name: str, process: subprocess.Popen[str], amqp: int, mqtt: int = 0) -> None:
        self.name = name
        self.process = process
        self.amqp = amqp
        self.mqtt = mqtt

    def cpu_s(self) -> float:
        """User and system time until now."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def start(python: str, folder: Path) -> Target:
    """A broker of this Python's build, on free ports."""
    config = folder / "options.yaml"
    listeners = {"amqp": "127.0.0.1:0", "mqtt": "127.0.0.1:0"}
    config.write_text(json.dumps({**OFF, **listeners}), encoding="utf-8")  # JSON is YAML
    command = [python, "-m", "forebay", "serve", "--config", str(config), "--data", str(folder / "data")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=folder)
    assert process.stdout is not None
    line = process.stdout.readline()
    while not line.startswith("ready "):
        assert line, f"{python} starts no broker"
        line = process.stdout.readline()
    ready = json.loads(line.removeprefix("ready "))
    return Target(python, process, port_of(ready["amqp"]), port_of(ready["mqtt"]))


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def start_floor(binary: Path, folder: Path) -> Target:
    """The C program, which syncs before it confirms."""
    command = [str(binary), "amqp", str(FLOOR_PORT), str(folder / "floor.log"), "sync"]
    process = subprocess.Popen(command, stderr=subprocess.DEVNULL, text=True)
    while True:
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", FLOOR_PORT)) == 0:
                return Target("floor", process, FLOOR_PORT)
        time.sleep(0.05)


def machine_cpu_s() -> float:
    """Time that all cores were busy until now."""
    words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()
    user, nice, system, idle, waiting, *rest = map(int, words[1:9])
    del idle, waiting
    return (user + nice + system + sum(rest)) / TICKS


def load(binary: Path, target: Target, rate: int, seconds: str) -> dict[str, float]:
    """One run: broker's and machine's CPU in microseconds a message, and the median latency in milliseconds."""
    command = [str(binary), "--port", str(target.amqp), "--pid", str(target.process.pid), "--rate", str(rate)]
    command += ["--size", "1024", "--ack-batch", "1", "--prefetch", "500", "--duration", seconds, "--warmup", "0.5"]
    before = machine_cpu_s()
    run = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()[-1])
    assert run["ok"], run
    machine = (machine_cpu_s() - before) / run["received"] * MICROSECONDS
    return {"broker": run["broker_us_msg"], "machine": machine, "p50": run["lat_ms"]["p50"]}


def idle_share(target: Target) -> float:
    """Percent of a core that a broker takes with many clients that do nothing."""
    clients = []
    for number in range(IDLE_CLIENTS):
        client = socket.create_connection(("127.0.0.1", target.mqtt))
        login = text("guest") + text("guest")
        client.sendall(packet(0x10, text("MQTT") + b"\x04\xc2\0\0" + text(f"idle-{number}") + login))
        clients.append(client)
    for client in clients:
        assert client.recv(4) == b"\x20\x02\0\0"
    time.sleep(2)
    before = target.cpu_s()
    time.sleep(IDLE_S)
    took = target.cpu_s() - before
    for client in clients:
        client.close()
    return 100 * took / IDLE_S


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", default="4")
    parser.add_argument("--beside", nargs="*", default=[], help="the Python of another build")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="forebay-lone-", dir=".") as made:
        folder = Path(made).resolve()
        for name in ("amqp091_load", "floor_broker"):
            subprocess.run(["cc", "-O2", "-o", str(folder / name), str(HERE / "load" / f"{name}.c")], check=True)
        targets = [start_floor(folder / "floor_broker", folder)]
        for number, python in enumerate([sys.executable, *options.beside]):
            own = folder / str(number)
            own.mkdir(mode=0o700)
            targets.append(start(python, own))
        try:
            measure(targets, folder / "amqp091_load", options.rounds, options.seconds)
        finally:
            for target in targets:
                target.process.kill()
                target.process.wait()


def measure(targets: list[Target], binary: Path, rounds: int, seconds: str) -> None:
    print("| 1 KiB, messages a second | broker | broker's µs a message | of the floor's | machine's µs | p50 ms |")
    print("|---|---|---:|---:|---:|---:|")
    for rate in RATES:
        runs: dict[str, list[dict[str, float]]] = {target.name: [] for target in targets}
        for _ in range(rounds):
            for target in targets:
                runs[target.name].append(load(binary, target, rate, seconds))
        floor = statistics.median(run["broker"] for run in runs["floor"])
        for name, measured in runs.items():
            broker, machine, p50 = (statistics.median(run[key] for run in measured) for key in measured[0])
            print(
                f"| {rate:,} | {name} | {broker:.1f} | {broker / floor:.1f}x | {machine:.1f} | {p50:.2f} |", flush=True
            )
    for target in targets[1:]:
        print(f"{target.name} with {IDLE_CLIENTS:,} idle clients: {idle_share(target):.2f} % of a core", flush=True)


if __name__ == "__main__":
    main()
