#!/usr/bin/env python3
"""All load scenarios: a fresh compiled broker beside the peers, in one run.

usage: bench/run.py [--rounds 3] [--seconds 3] [--only SUBSTRING] [--json FILE] [--no-peers]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from forebay.log import block

HERE = Path(__file__).resolve().parent
PEERS = HERE / "load" / "peers.sh"
# What peers.sh gives mosquitto as max_inflight_messages and max_queued_messages.
AS_PEERS = {"FOREBAY_MQTT_MAX_INFLIGHT": "1000", "FOREBAY_MQTT_MAX_MQUEUE_LEN": "0"}


def start_forebay(data: Path, settings: dict[str, str]) -> tuple[subprocess.Popen[str], dict[str, str]]:
    """A broker on free ports, with these settings in its environment; its process and ready line."""
    command = [sys.executable, "-m", "forebay", "serve", "--data", str(data)]
    command += ["--amqp", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"]
    # The usual ports of these are not free beside another broker.
    environment = {
        **os.environ,
        "FOREBAY_MQTT_WEBSOCKET": "",
        "FOREBAY_HTTP": "127.0.0.1:0",
        "FOREBAY_PROMETHEUS": "",
        **settings,
    }
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline().removeprefix("ready "))


def check_compiled() -> None:
    if not str(block.__file__).endswith(".so"):
        print("warning: this is not the compiled build", file=sys.stderr)


def peer_pid(name: str) -> str:
    """Process id of a peer, which is started if it does not run."""
    subprocess.run([str(PEERS), name, "start"], check=True, stdout=subprocess.DEVNULL)
    return subprocess.run([str(PEERS), name, "pid"], check=True, capture_output=True, text=True).stdout.strip()


def peer_targets() -> list[str]:
    """The peers as targets of compare.py."""
    return [
        f"{name}={amqp},{mqtt},{peer_pid(name)}{login}"
        for name, amqp, mqtt, login in (
            ("rmq4", 21020, 21021, ""),
            ("rmq3", 21010, 21011, ""),
            ("mosq", 0, 21060, ",-"),
        )
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", default="3")
    parser.add_argument("--seconds", default="3")
    parser.add_argument("--only", default="")
    parser.add_argument("--json")
    parser.add_argument("--no-peers", action="store_true")
    options = parser.parse_args()
    check_compiled()
    folder = Path(tempfile.mkdtemp(prefix="forebay-bench-"))
    process, ready = start_forebay(folder / "data", AS_PEERS)
    try:
        amqp, mqtt = (ready[name].rpartition(":")[2] for name in ("amqp", "mqtt"))
        targets = [f"forebay={amqp},{mqtt},{ready['pid']}"]
        if not options.no_peers:
            targets += peer_targets()
        command = [sys.executable, str(HERE / "load" / "compare.py"), "--rounds", options.rounds]
        command += ["--seconds", options.seconds, "--only", options.only]
        if options.json:
            command += ["--json", options.json]
        subprocess.run(command + targets, check=True)
    finally:
        process.terminate()
        process.wait(30)
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
