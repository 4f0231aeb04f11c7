"""Programs out of Debian's packages that tests run without having the package installed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def program(name: str) -> Path:
    """A program that is installed, or that tools/prerequisites.sh has fetched."""
    fetched = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "forebay-tests" / name
    if fetched.exists():
        return fetched
    installed = shutil.which(name)
    assert installed is not None, f"{name} is missing: `make test` fetches it into ~/.cache/forebay-tests"
    return Path(installed)


def rabbitmqadmin() -> Path:
    """RabbitMQ's own command-line tool for its HTTP API."""
    return program("rabbitmqadmin")
