#!/usr/bin/env python3
"""What three nodes do, beside one node and, if asked, RabbitMQ's three: rates, latency, failover, take-over, catch-up.

usage: bench/cluster.py [--rounds 3] [--seconds 3] [--failovers 5] [--messages 1000000] [--queues 1000]
                        [--only SUBSTRING] [--beside rmqc] [--json FILE] [--keep]

Needs etcd (apt-get install etcd-server etcd-client), a C compiler and the compiled build. Everything is started on
fresh folders and stopped at the end; RabbitMQ by bench/load/peers.sh (root, Debian; installed on first use). Prints a
table in Markdown; `--json` appends each run as a line. CPU is that of all nodes of a target together, without etcd's.

    rate 1-1, rate 10 queues   1 KiB, durable, confirms, one publisher and one consumer a queue
    latency 2000/s             1 KiB, from publish to delivery
    relayed                    as rate 1-1, by way of a follower, beside the same at the leader
    failover                   SIGKILL to the leader, until the first confirm on a new connection
    take-over                  the same with many ready messages: from the record's change to the first delivery
    catch-up                   a follower was away for a while: the leader's rate before, and while it comes back
    readers                    20,000 a second, then as rate 1-1: in turns without others, and beside two readers of a
                               stream at the followers and at the leader
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from nodes import Alone, Cluster, Rabbit, Target, wait_for
from readers import FOLLOWERS, LEADER, readers

from forebay.client.amqp import AmqpClient
from forebay.core.errors import ForebayError
from forebay.log import block

HERE = Path(__file__).resolve().parent
LOAD = HERE / "load" / "amqp091_load.c"
RATE = ["--size", "1024", "--window", "1000", "--prefetch", "500", "--ack-batch", "50"]
TEN = [*RATE, "--pubs", "10", "--subs", "10", "--queues", "10"]
SLOW = ["--size", "1024", "--rate", "2000", "--prefetch", "500", "--ack-batch", "10"]
# About a seventh of full speed: it leaves the readers, which share the two cores, enough of them.
PACED = ["--size", "1024", "--rate", "20000", "--prefetch", "500", "--ack-batch", "50"]
PROPERTIES = b"\x10\0\x02"  # persistent
HEADING = "| scenario | target | messages/s | CPU µs/message | p50 ms | p99 ms | |"
CONNECT_S = 5.0
READERS = 2
WARMUP_S = 1
Run = dict[str, Any]


class Bench:
    """One run of all scenarios.

    runs  one record each, in the order in which they were made
    """

    def __init__(self, options: argparse.Namespace, folder: Path) -> None:
        self.options = options
        self.folder = folder
        self.tool = str(folder / "load")
        subprocess.run(["cc", "-O2", "-o", self.tool, str(LOAD)], check=True)
        self.runs: list[Run] = []

    def note(self, scenario: str, target: str, run: Run) -> None:
        run = {"scenario": scenario, "target": target, **run}
        self.runs.append(run)
        if self.options.json:
            with Path(self.options.json).open("a", encoding="utf-8") as out:
                out.write(json.dumps(run) + "\n")
        said = {name: value for name, value in run.items() if isinstance(value, float | int) and name in SAID}
        print(f"  {scenario}, {target}: {said}", file=sys.stderr, flush=True)

    def load(self, target: Target, port: int, words: list[str]) -> Run:
        """One run of the load generator; what it has printed."""
        command = [self.tool, "--port", str(port), "--pid", ",".join(map(str, target.pids()))]
        command += ["--duration", str(self.options.seconds), "--warmup", str(WARMUP_S), *target.arguments, *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        lines = done.stdout.strip().splitlines()
        if not lines:
            raise SystemExit(f"bench/cluster.py: {' '.join(command)}: {done.stderr.strip()[-500:]}")
        return dict(json.loads(lines[-1]))

    # ---- rates

    def rates(self, targets: list[Target], scenario: str, words: list[str]) -> None:
        """The same load on each target, in turns."""
        for _ in range(self.options.rounds):
            for target in targets:
                self.note(scenario, target.name, self.load(target, target.ports("load")[0], words))

    def relayed(self, cluster: Cluster) -> None:
        """The same load at the leader and at a follower."""
        for _ in range(self.options.rounds):
            ports = cluster.ports("")
            self.note("relayed", "at the leader", self.load(cluster, ports[0], RATE))
            self.note("relayed", "by a follower", self.load(cluster, ports[1], RATE))

    # ---- failures

    def failovers(self, targets: list[Target]) -> None:
        for target in targets:
            self.failover(target)

    def failover(self, target: Target) -> None:
        """Seconds from SIGKILL to the first confirm on a new connection."""
        queue = "failover"
        for _ in range(self.options.failovers):
            ports = target.ports(queue)
            self.load(target, ports[0], ["--queue", queue, "--subs", "0", "--count", "1", "--keep"])
            others = target.ports(queue)[1:]
            began = time.monotonic()
            target.kill_leader(queue)
            wait_for("a confirm after the leader was killed", lambda others=others: published(others, queue))
            self.note("failover", target.name, {"seconds": time.monotonic() - began})
            target.mend()

    def take_over(self, cluster: Cluster) -> None:
        """Seconds from the record's change to the first delivery, with many messages ready."""
        queues = self.options.queues
        each = self.options.messages // queues
        pubs = min(queues, 500)
        words = ["--size", "64", "--subs", "0", "--pubs", str(pubs), "--queues", str(queues), "--window", "200"]
        for first in range(0, queues, pubs):
            more = ["--queue", f"ready{first}", "--queues", str(min(pubs, queues - first)), "--no-delete"]
            self.load(cluster, cluster.ports("")[0], [*words, *more, "--count", str(each), "--keep"])
        others = cluster.ports("")[1:]
        epoch = int(cluster.etcd.record()["epoch"])
        began = time.monotonic()
        cluster.kill_leader("")
        wait_for("a delivery after the leader was killed", lambda: delivered(others, "ready0"), 120)
        came = time.monotonic()
        changed = next(when for number, when in cluster.etcd.changes if number > epoch)
        found = {"messages": each * queues, "seconds": came - changed, "since_kill_s": came - began}
        self.note("take-over", cluster.name, found)
        cluster.mend()

    def catch_up(self, cluster: Cluster) -> None:
        """The leader's rate without a follower, and while that comes back."""
        away = cluster.nodes[cluster.followers()[0]]
        port = cluster.ports("")[0]
        away.end()
        wait_for("a follower put out", lambda: len(cluster.etcd.record()["in_sync"]) == 2)
        longer = ["--duration", str(2 * self.options.seconds)]
        self.note("catch-up", "a follower is away", self.load(cluster, port, [*RATE, *longer]))
        began = time.monotonic()
        away.start()
        wait_for("a follower that starts", away.is_ready)
        self.note("catch-up", "it comes back", self.load(cluster, port, [*RATE, *longer]))
        cluster.mend()
        self.note("catch-up", "until it is in sync", {"seconds": time.monotonic() - began})

    def read_beside(self, cluster: Cluster) -> None:
        """A rate without readers, and beside them, with the leader's own CPU: all nodes share the same cores here."""
        queue, messages = "read", 200_000
        stream = ["--queue", queue, "--subs", "0", "--count", str(messages), "--keep", "--queue-arg"]
        self.load(cluster, cluster.ports("")[0], [*RATE, *stream, "x-queue-type=stream"])
        for _ in range(self.options.rounds):
            for scenario, words in (("readers, 20,000 a second", PACED), ("readers", RATE)):
                self.note(scenario, "none", self.led(cluster, words))
                for where in (FOLLOWERS, LEADER):
                    with readers(cluster.ports(""), queue, messages, READERS, where) as read:
                        run = self.led(cluster, words)
                    self.note(scenario, f"{READERS} at the {where}", {**run, "read_mib": sum(read)})

    def led(self, cluster: Cluster, words: list[str]) -> Run:
        """One run, with the leader's CPU for a message beside that of all nodes."""
        leader = cluster.nodes[cluster.leader()].pid
        before = cpu_s(leader)
        run = self.load(cluster, cluster.ports("")[0], words)
        messages = float(run["cons_s"]) * (self.options.seconds + WARMUP_S)
        return {**run, "leader_us_msg": 1e6 * (cpu_s(leader) - before) / max(messages, 1)}


def cpu_s(pid: int) -> float:
    """Seconds that a process has run."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


SAID = ("read_mib", "leader_us_msg", "cons_s", "broker_us_msg", "seconds", "since_kill_s")


@contextmanager
def connected(port: int) -> Iterator[AmqpClient]:
    client = AmqpClient.connect(f"127.0.0.1:{port}", "guest", "guest", timeout_s=CONNECT_S)
    try:
        yield client
    finally:
        with suppress(ForebayError):
            client.close()


def confirm_one(client: AmqpClient, queue: str) -> None:
    client.select_confirms()
    client.publish("", queue, PROPERTIES, b"x" * 1024)
    client.settle(0)
    if client.confirmed != 1:
        raise ForebayError("the message was refused")


def published(ports: list[int], queue: str) -> bool:
    """One message is confirmed by one of these."""
    for port in ports:
        with suppress(ForebayError, OSError), connected(port) as client:
            confirm_one(client, queue)
            return True
    return False


def delivered(ports: list[int], queue: str) -> bool:
    """One message of the queue comes by one of these."""
    for port in ports:
        with suppress(ForebayError, OSError), connected(port) as client:
            client.consume(queue, 1, False, {})
            return client.next(CONNECT_S) is not None
    return False


# ---- the table


def median(runs: list[Run], *path: str) -> float:
    found = []
    for run in runs:
        value: Any = run
        for name in path:
            value = value[name]
        found.append(float(value))
    return statistics.median(found)


def row(scenario: str, target: str, runs: list[Run], others: dict[str, list[Run]]) -> str:
    if "seconds" in runs[0]:
        seconds = [run["seconds"] for run in runs]
        text = f"{statistics.median(seconds):.2f} s, worst of {len(runs)}: {max(seconds):.2f} s"
        return f"| {scenario} | {target} | | | | | {text} |"
    rate = median(runs, "cons_s")
    first_name, first = next(iter(others.items()))
    notes = []
    if first_name != target:
        notes.append(f"rate {rate / max(median(first, 'cons_s'), 1):.2f}x of {first_name}")
        cost = median(first, "broker_us_msg")
        notes.append(f"CPU {median(runs, 'broker_us_msg') / max(cost, 1e-9):.1f}x")
        if "leader_us_msg" in first[0]:
            own = median(runs, "leader_us_msg") / max(median(first, "leader_us_msg"), 1e-9)
            notes.append(f"the leader's CPU {own:.2f}x")
    wrong = sum(1 for run in runs if run["gaps"] or run["dups"] or run["reorders"])
    if wrong:
        notes.append(f"{wrong} of {len(runs)} runs lost, doubled or reordered messages")
    figures = f"{rate:,.0f} | {median(runs, 'broker_us_msg'):.2f}"
    latency = f"{median(runs, 'lat_ms', 'p50'):.2f} | {median(runs, 'lat_ms', 'p99'):.2f}"
    return f"| {scenario} | {target} | {figures} | {latency} | {', '.join(notes)} |"


def print_table(runs: list[Run]) -> None:
    found: dict[str, dict[str, list[Run]]] = {}
    for run in runs:
        found.setdefault(run["scenario"], {}).setdefault(run["target"], []).append(run)
    print(HEADING)
    print("|---|---|---:|---:|---:|---:|---|")
    for scenario, targets in found.items():
        for target, made in targets.items():
            print(row(scenario, target, made, targets))


def scenarios(bench: Bench, targets: list[Target], cluster: Cluster) -> dict[str, Callable[[], None]]:
    """By their names, in the order in which they are run."""
    replicated = [each for each in targets if not isinstance(each, Alone)]
    return {
        "rate 1-1": lambda: bench.rates(targets, "rate 1-1", RATE),
        "rate 10 queues": lambda: bench.rates(targets, "rate 10 queues", TEN),
        "latency 2000/s": lambda: bench.rates(targets, "latency 2000/s", SLOW),
        "relayed": lambda: bench.relayed(cluster),
        "catch-up": lambda: bench.catch_up(cluster),
        "readers": lambda: bench.read_beside(cluster),
        "failover": lambda: bench.failovers(replicated),
        "take-over": lambda: bench.take_over(cluster),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--failovers", type=int, default=5)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--only", default="")
    parser.add_argument("--beside", choices=["", "rmqc"], default="")
    parser.add_argument("--json")
    parser.add_argument("--keep", action="store_true", help="leave the folders, with the nodes' logs")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    if not str(block.__file__).endswith(".so"):
        print("warning: this is not the compiled build", file=sys.stderr)
    folder = Path(tempfile.mkdtemp(prefix="forebay-cluster-"))
    targets: list[Target] = []
    bench = Bench(options, folder)
    try:
        cluster = Cluster(folder)
        targets.append(cluster)
        targets.insert(0, Alone(folder))
        if options.beside:
            targets.append(Rabbit())
        for name, run in scenarios(bench, targets, cluster).items():
            if options.only in name:
                print(name, file=sys.stderr, flush=True)
                run()
    finally:
        print_table(bench.runs)
        for target in targets:
            target.stop()
        if options.keep:
            print(folder, file=sys.stderr)
        else:
            shutil.rmtree(folder)


if __name__ == "__main__":
    main()
