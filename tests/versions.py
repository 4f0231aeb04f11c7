"""An earlier version of forebay, for tests of an upgrade: its sources, as the repository has them."""

from __future__ import annotations

import shutil
import subprocess
import tarfile
from io import BytesIO
from pathlib import Path

from tests.broker_process import BrokerProcess

ROOT = Path(__file__).resolve().parent.parent
BEFORE = "88675258"  # before sessions had owners, and before the house was reshaped


def has_history() -> bool:
    """Return whether the repository is here with its history: a source package and a shallow clone have none."""
    if shutil.which("git") is None:
        return False
    asked = ["git", "-C", str(ROOT), "cat-file", "-e", f"{BEFORE}^{{commit}}"]
    return subprocess.run(asked, check=False, capture_output=True).returncode == 0


def extract_before(folder: Path) -> Path:
    """Write the sources of the earlier version into a folder, and return it."""
    archive = subprocess.run(
        ["git", "-C", str(ROOT), "archive", "--format=tar", BEFORE, "src"], check=True, capture_output=True
    )
    with tarfile.open(fileobj=BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def run_from(broker: BrokerProcess, sources: Path) -> None:
    """Have a broker that starts from now on run these sources; a forked one would have this process's modules."""
    broker.wrapper = ["env", f"PYTHONPATH={sources.resolve() / 'src'}"]
