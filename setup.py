"""The part of the build that pyproject.toml cannot say: which modules mypyc compiles, and how.

Everything that a message passes through is compiled. `FOREBAY_PURE=1 pip install .` compiles nothing; the same code
then runs interpreted, with the same behaviour.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

from setuptools import Extension, setup

COMPILED = [
    "core/message.py",
    "wire/*.py",
    "log/block.py",
    "log/block_files.py",
    "log/frame.py",
    "log/queue_log.py",
    "log/recovery.py",
    "log/stored_log.py",
    "filter/*.py",
    "routing/*.py",
    "records/*.py",
    "queue/*.py",
    "session/*.py",
    "broker/topology.py",  # the base class of Vhost: a compiled class cannot have an interpreted base
    "broker/vhost.py",
    "broker/consuming.py",
    "broker/arguments.py",
    "broker/common.py",
    "broker/events.py",
    "broker/permissions.py",
    "broker/vhosts.py",
    "broker/vhost_settings.py",
    "broker/internal.py",
    "broker/retained.py",
    "broker/fanout.py",
    "broker/shares.py",
    "broker/routes.py",
    "broker/publishing.py",
    "broker/sessions.py",
    "broker/session_recovery.py",
    "broker/checked.py",
    "broker/session_facts.py",
    "broker/client_session.py",
    "broker/crowding.py",
    "broker/session_quota.py",
    "broker/delayed.py",
    "broker/deduplication.py",
    "broker/replies.py",
    "broker/special.py",
    "broker/staging.py",
    "broker/staged_rows.py",
    "broker/dead_letters.py",
    "broker/address.py",
    "broker/authorizer.py",
    "broker/facts.py",
    "broker/primary.py",
]
# Of these, what each message, each record of a recovery and each filter passes: compiled for speed. The others are
# compiled for a short build; docs/development.md has the figures.
FAST = [
    "core/message.py",
    "wire/*.py",
    "log/block.py",
    "log/block_files.py",
    "log/frame.py",
    "log/queue_log.py",
    "log/recovery.py",
    "log/stored_log.py",
    "filter/*.py",
    "routing/*.py",
    "records/*.py",
    "queue/*.py",
    "session/effects.py",
    "session/traffic.py",
    "session/blocks*.py",
    "session/amqp091.py",
    "session/amqp091_channel.py",
    "session/amqp091_consume.py",
    "session/amqp091_deliver.py",
    "session/amqp091_publish.py",
    "session/amqp091_tx.py",
    "session/mqtt.py",
    "session/mqtt_deliver.py",
    "session/mqtt_encode.py",
    "session/mqtt_feed.py",
    "session/mqtt_publish.py",
    "session/mqtt_window.py",
    "broker/vhost.py",
    "broker/consuming.py",
    "broker/common.py",
    "broker/fanout.py",
    "broker/shares.py",
    "broker/routes.py",
    "broker/publishing.py",
    "broker/sessions.py",
    "broker/client_session.py",
    "broker/deduplication.py",
    "broker/dead_letters.py",
    "broker/address.py",
    "broker/primary.py",
    "broker/permissions.py",
]
# Modules that a pattern above takes in and that stay interpreted, each with the reason.
INTERPRETED: dict[str, str] = {}


def compiled_modules(root: Path, patterns: list[str]) -> list[str]:
    """Paths of the modules to compile that the patterns take in, relative to the project's folder and sorted."""
    package = root / "src" / "forebay"
    found: set[str] = set()
    for pattern in patterns:
        for path in package.glob(pattern):
            name = path.relative_to(package).as_posix()
            if path.name != "__init__.py" and name not in INTERPRETED:
                found.add(path.relative_to(root).as_posix())
    return sorted(found)


def commands() -> dict[str, Any]:
    """The command that compiles; none with FOREBAY_PURE=1."""
    if os.environ.get("FOREBAY_PURE") == "1":
        return {}
    root = Path(__file__).parent
    sys.path.insert(0, str(root))  # pip does not
    from tools.native.extension import LIBRARY, build_command  # noqa: PLC0415  a pure build needs no mypyc

    # setuptools compiles where there is an extension; the command finds out itself which ones there are.
    return {
        "ext_modules": [Extension(LIBRARY, [])],
        "cmdclass": {"build_ext": build_command(compiled_modules(root, COMPILED), set(compiled_modules(root, FAST)))},
    }


if __name__ == "__main__":
    setup(**commands())
