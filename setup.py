"""The part of the build that pyproject.toml cannot say: which modules mypyc compiles, as one unit.

Everything that a message passes through is compiled. `FOREBAY_PURE=1 pip install .` compiles nothing; the same code
then runs interpreted, with the same behaviour.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from setuptools import setup

COMPILED = [
    "core/message.py",
    "wire/*.py",
    "log/block.py",
    "log/queue_log.py",
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
    "broker/delayed.py",
    "broker/deduplication.py",
    "broker/replies.py",
    "broker/special.py",
    "broker/staging.py",
    "broker/staged_rows.py",
    "broker/dead_letters.py",
    "broker/address.py",
    "broker/facts.py",
    "broker/primary.py",
]
# Modules that a pattern above takes in and that stay interpreted, each with the reason.
INTERPRETED: dict[str, str] = {}


def compiled_modules(root: Path) -> list[str]:
    """Paths of the modules to compile, relative to the project's folder and sorted."""
    package = root / "src" / "forebay"
    found: set[str] = set()
    for pattern in COMPILED:
        for path in package.glob(pattern):
            name = path.relative_to(package).as_posix()
            if path.name != "__init__.py" and name not in INTERPRETED:
                found.add(path.relative_to(root).as_posix())
    return sorted(found)


def extensions() -> list[Any]:
    """The one extension that holds every compiled module; none with FOREBAY_PURE=1."""
    if os.environ.get("FOREBAY_PURE") == "1":
        return []
    from mypyc.build import mypycify  # noqa: PLC0415  a pure build needs no mypyc

    # The C files go to build/, never beside the sources.
    modules = compiled_modules(Path(__file__).parent)
    return list(mypycify(["--strict", *modules], opt_level="3", group_name="forebay"))


if __name__ == "__main__":
    setup(ext_modules=extensions())
