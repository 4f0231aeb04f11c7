"""Libraries of C that are loaded in front of the system's, so that calls of a process fail, wait or lie."""

from __future__ import annotations

import subprocess
from pathlib import Path


def library(source: Path, folder: Path) -> Path:
    """Compile a source into a folder; the library, for LD_PRELOAD."""
    made = folder / f"{source.stem}.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(made), str(source), "-ldl", "-lpthread"], check=True)
    return made
