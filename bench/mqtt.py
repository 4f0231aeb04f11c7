#!/usr/bin/env python3
"""MQTT beside mosquitto: every QoS, pattern and size, lock-step, wide fan-out, durable sessions; one table of medians.

usage: bench/mqtt.py [--rounds 3] [--seconds 3] [--only SUBSTRING] [--json FILE] [--no-peers]
       bench/mqtt.py --read FILE     the table of runs that were kept by --json

A fresh compiled broker, `mosq` (2.0) and `mosq21` (2.1) take turns at each scenario. mosquitto has
max_inflight_messages 1000 and max_queued_messages 0, so the broker has the same as `mqtt_max_inflight` and
`mqtt_max_mqueue_len`, except where a scenario says "defaults". Runs that failed, or lost, doubled or reordered
messages, are told and do not count.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import socket
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "load"))
from compare import build, measure
from run import AS_PEERS, check_compiled, peer_pid, start_forebay
from table import OURS, Run, median

PEERS = {"mosq": 21060, "mosq21": 21061}
SESSION = "bench"
DEFAULTS = ", defaults"  # in the name of a scenario for which the broker has its own window and queue
PATTERNS = {"1-1": (1, 1), "1-10": (1, 10), "10-1": (10, 1)}
WIDE = 1000  # subscribers
WRONG = ("failed", "gaps", "dups", "reorders", "alien", "nacks", "unconfirmed")
Target = tuple[str, str]  # port, process ids
Runs = dict[str, dict[str, list[Run]]]  # by scenario and broker


def windows(qos: int, window: int) -> list[str]:
    """How far a publisher may be ahead: of its acknowledgements, and by twice as much of the slowest subscriber.

    Without the second, a broker that answers publishers first has its subscribers' share of the work left when the
    time is over, and its rate says nothing.
    """
    if qos == 0:
        return ["--qos", "0", "--e2e-window", str(2 * window)]
    return ["--qos", str(qos), "--window", str(window), "--e2e-window", str(2 * window)]


def scenarios() -> dict[str, list[str]]:
    """Arguments of mqtt_load by the name of the scenario."""
    found: dict[str, list[str]] = {}
    for qos in (0, 1, 2):
        for size, name in ((64, "64B"), (1024, "1KiB")):
            for pattern, (publishers, subscribers) in PATTERNS.items():
                made = ["--size", str(size), "--pubs", str(publishers), "--subs", str(subscribers)]
                found[f"mqtt qos{qos} {name} {pattern}"] = [*made, *windows(qos, 1000 // publishers)]
    small = ["--size", "64"]
    step = [*small, "--pubs", "50", "--subs", "50", "--topic", "b/%d/t"]
    for qos in (1, 2):
        found[f"mqtt qos{qos} 64B lock-step 50-50 pairs"] = [*step, *windows(qos, 1), "--filter", "b/%d/t"]
    found["mqtt qos1 64B lock-step 50-50, each to all"] = [*step, *windows(1, 1)]
    for qos in (0, 1):
        found[f"mqtt qos{qos} 64B 1-{WIDE}"] = [*small, "--subs", str(WIDE), *windows(qos, 50)]
    for qos in (1, 2):
        # A topic of its own: were a run cut short, its session would gather what the others publish.
        kept = ["--session", SESSION, "--topic", "session/t"]
        found[f"mqtt qos{qos} 64B 1-1 durable session"] = [*small, *windows(qos, 1000), *kept]
    # As much on its way as the queue has room for.
    found[f"mqtt qos1 64B 1-1{DEFAULTS}"] = [*small, *windows(1, 500)]
    return found


def forget_session(port: str) -> None:
    """End the sessions of an earlier run, so that each begins with an empty one."""
    for kind in ("p", "s"):
        name = f"{SESSION}-{kind}-0".encode()
        body = b"\x00\x04MQTT\x04\x02\x00\x00" + len(name).to_bytes(2, "big") + name
        with socket.create_connection(("127.0.0.1", int(port)), 10) as client:
            client.sendall(b"\x10" + bytes([len(body)]) + body)
            if client.recv(4) != b"\x20\x02\x00\x00":
                raise SystemExit(f"port {port}: the client {name.decode()} is refused")
            client.sendall(b"\xe0\x00")


def run_scenario(
    name: str, arguments: list[str], targets: dict[str, Target], rounds: int, once: Callable[[list[str]], Run | None]
) -> list[Run]:
    """Every target in alternation."""
    done: list[Run] = []
    for _ in range(rounds):
        for target, (port, pids) in targets.items():
            if "--session" in arguments:
                forget_session(port)
            run = once(["--port", port, "--pid", pids, *arguments])
            done.append({"scenario": name, "target": target, **({"failed": 1} if run is None else run)})
            if "--session" in arguments:
                forget_session(port)
    return done


def run_all(chosen: dict[str, list[str]], options: argparse.Namespace, keep: Callable[[Run], None]) -> None:
    """All scenarios for which the broker has the same settings, against one broker."""
    folder = Path(tempfile.mkdtemp(prefix="forebay-bench-"))
    command = [build("mqtt_load", folder), "--duration", options.seconds, "--warmup", "1"]

    def once(arguments: list[str]) -> Run | None:
        run: Run | None = measure([*command, *arguments])
        return run

    try:
        for settings, has_defaults in ((AS_PEERS, False), ({}, True)):
            group = {name: each for name, each in chosen.items() if name.endswith(DEFAULTS) == has_defaults}
            if not group:
                continue
            process, ready = start_forebay(folder / f"data-{has_defaults}", settings)
            try:
                targets = {OURS: (ready["mqtt"].rpartition(":")[2], str(ready["pid"]))}
                if not options.no_peers:
                    targets |= {name: (str(port), peer_pid(name)) for name, port in PEERS.items()}
                for name, arguments in group.items():
                    print(name, file=sys.stderr)
                    for run in run_scenario(name, arguments, targets, options.rounds, once):
                        keep(run)
            finally:
                process.terminate()
                process.wait(30)
    finally:
        shutil.rmtree(folder)


# ---- the table


def is_whole(run: Run) -> bool:
    """Whether every message came as it should, at the QoS asked for, and was acknowledged."""
    return not any(run.get(name) for name in WRONG) and run["granted"] == run["qos"]


def row(scenario: str, targets: dict[str, list[Run]], brokers: list[str]) -> str:
    """Rates, then CPU, ours first; behind each of the others what ours is to it."""
    whole = {name: [run for run in targets.get(name, []) if is_whole(run)] for name in brokers}
    cells = [scenario.removeprefix("mqtt ")]
    for field, form, ratio in (("cons_s", ",.0f", ours_to_theirs), ("broker_us_msg", ".2f", theirs_to_ours)):
        for name in brokers:
            if not whole[name]:
                cells.append("no run")
                continue
            text = f"{median(whole[name], field):{form}}"
            if name != OURS and whole.get(OURS):
                text += f" ({ratio(median(whole[OURS], field), median(whole[name], field)):.1f}x)"
            cells.append(text)
    left_out = {name: (len(runs) - len(whole[name]), len(runs)) for name, runs in targets.items()}
    cells.append(", ".join(f"{name} {count} of {runs}" for name, (count, runs) in left_out.items() if count))
    return "| " + " | ".join(cells) + " |"


def ours_to_theirs(ours: float, theirs: float) -> float:
    return ours / max(theirs, 1e-9)


def theirs_to_ours(ours: float, theirs: float) -> float:
    return theirs / max(ours, 1e-9)


def print_table(runs: Runs) -> None:
    """The markdown table of docs/reference/benchmarks.md."""
    found = {target for targets in runs.values() for target in targets}
    brokers = [name for name in (OURS, *PEERS) if name in found]
    rates = [f"{name}, messages/s" for name in brokers]
    costs = [f"{name}, CPU µs" for name in brokers]
    print("| scenario | " + " | ".join([*rates, *costs]) + " | left out |")
    print("|---|" + "---:|" * (2 * len(brokers)) + "---|")
    for scenario, targets in runs.items():
        print(row(scenario, targets, brokers))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", default="3")
    parser.add_argument("--only", default="")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--read", type=Path)
    options = parser.parse_args()
    runs: Runs = {}

    def keep(run: Run) -> None:
        runs.setdefault(str(run["scenario"]), {}).setdefault(str(run["target"]), []).append(run)
        if options.json:
            with options.json.open("a", encoding="utf-8") as out:
                out.write(json.dumps(run) + "\n")

    if options.read:
        for line in options.read.read_text(encoding="utf-8").splitlines():
            run = json.loads(line)
            runs.setdefault(str(run["scenario"]), {}).setdefault(str(run["target"]), []).append(run)
    else:
        check_compiled()
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))  # a socket a subscriber, on both ends
        chosen = {name: arguments for name, arguments in scenarios().items() if options.only in name}
        run_all(chosen, options, keep)
    print_table(runs)


if __name__ == "__main__":
    main()
