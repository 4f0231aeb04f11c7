"""rhea, the AMQP 1.0 client of Node, as tests use it."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.broker_process import BrokerProcess
from tests.interop import npm

VERSION = "3.0.5"
WS_VERSION = "8.18.3"  # of the package `ws`, over which it speaks through WebSockets
SCRIPT = Path(__file__).with_name("rhea_client.js")
WAIT_S = 90


def run(broker: BrokerProcess, what: str, **given: object) -> Any:
    """What the program of that name in rhea_client.js prints."""
    node = shutil.which("node")
    assert node is not None, "node is missing: apt-get install nodejs"
    command = [node, str(SCRIPT), str(npm.installed("rhea", VERSION)), str(broker.amqp_port), what]
    said = json.dumps(given)
    done = subprocess.run(command, input=said, capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)
