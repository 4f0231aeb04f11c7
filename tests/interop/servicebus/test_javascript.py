"""Azure's JavaScript client in its emulator mode."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from tests.broker_process import running
from tests.interop import npm
from tests.interop.servicebus.site import KEY, OPTIONS

VERSION = "7.9.5"
SCRIPT = Path(__file__).with_name("azure_client.js")
WAIT_S = 120


def test_a_queue_settled_scheduled_and_in_sessions(tmp_path: Path) -> None:
    node = shutil.which("node")
    assert node is not None, "node is missing: apt-get install nodejs"
    modules = npm.installed("@azure/service-bus", VERSION)
    with running(tmp_path, **OPTIONS) as broker:
        command = [node, str(SCRIPT), str(modules), str(broker.amqp_port), "jobs", KEY]
        done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["settle"] == {
        "peeked": ["a", "b", "c", "d"],
        "taken": ["a", "b", "c", "d"],
        "locked": True,
        "renewed": True,
        "again": ["b", 1],
        "deferred": ["c", "deferred"],
        "missing": "MessageNotFound",
        "letter": ["d", "bad", "very bad"],
    }
    assert said["schedule"] == {"cancelled": "MessageNotFound", "scheduled": ["later"], "rest": []}
    assert said["sessions"] == {
        "session": ["one", True],
        "state": {"step": 1},
        "bodies": ["x", "y"],
        "kept": True,
        "locked": "SessionCannotBeLocked",
        "none": "ServiceTimeout",
    }
