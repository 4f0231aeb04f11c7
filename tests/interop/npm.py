"""Packages of npm that tests run in Node: installed once, into a folder beside other caches."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

INSTALL_S = 300


def installed(package: str, version: str) -> Path:
    """Folder under which `node_modules` has the package in this version."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "forebay-tests"
    folder = cache / f"{package.replace('/', '-')}-{version}"
    if folder.exists():
        return folder
    npm = shutil.which("npm")
    assert npm is not None, "npm is missing: apt-get install npm"
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        quiet = ["--no-audit", "--no-fund", "--no-update-notifier", "--ignore-scripts"]
        command = [npm, "install", *quiet, "--prefix", f"{scratch}/made", f"{package}@{version}"]
        (Path(scratch) / "made").mkdir()
        done = subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=False)
        assert done.returncode == 0, done.stderr
        # Another test process may have been faster.
        if not folder.exists():
            (Path(scratch) / "made").rename(folder)
    return folder
