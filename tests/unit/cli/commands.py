"""Running the command as a user does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from tests.broker_process import BrokerProcess
from tests.fork_server import FORKS


class Forebay:
    """The command line of an administrator of one broker."""

    def __init__(self, broker: BrokerProcess) -> None:
        self.environment = {"FOREBAY_SERVER": f"127.0.0.1:{broker.amqp_port}"}
        # Whoever runs the tests may have said how wide a terminal is; the command has none here.
        self.inherited = {name: value for name, value in os.environ.items() if name not in {"COLUMNS", "LINES"}}

    def run(self, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """One command, whatever comes of it."""
        environment = {**self.inherited, **self.environment}
        if "PYTHONPATH" not in self.environment:
            return FORKS.run(arguments, environment, stdin)
        command = [sys.executable, "-m", "forebay", *arguments]  # Python itself reads that where it starts
        return subprocess.run(command, env=environment, input=stdin, capture_output=True, text=True, check=False)

    def __call__(self, *arguments: str, stdin: str = "") -> str:
        """What a command prints that must succeed."""
        done = self.run(*arguments, stdin=stdin)
        assert (done.returncode, done.stderr) == (0, ""), (arguments, done)
        return done.stdout

    def json(self, *arguments: str) -> Any:
        """What it prints as JSON."""
        return json.loads(self(*arguments, "--json"))

    def fails(self, code: int, *arguments: str, stdin: str = "") -> str:
        """What a command that must end with this code says about it."""
        done = self.run(*arguments, stdin=stdin)
        assert done.returncode == code, (arguments, done)
        assert "Traceback" not in done.stderr
        return done.stderr.removeprefix("forebay: ").removeprefix(f"{self.environment['FOREBAY_SERVER']}: ").strip()
