"""Programs out of Debian's packages that tests run without having the package installed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def rabbitmqadmin() -> Path:
    """RabbitMQ's own command-line tool for its HTTP API: tools/prerequisites.sh fetches it where there is none."""
    fetched = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "forebay-tests" / "rabbitmqadmin"
    if fetched.exists():
        return fetched
    installed = shutil.which("rabbitmqadmin")
    assert installed is not None, "rabbitmqadmin is missing: `make test` fetches it into ~/.cache/forebay-tests"
    return Path(installed)
