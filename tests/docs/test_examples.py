"""The code blocks of the pages run.

A fence whose info string has the word `test` is run: ```python test```, ```bash test```, ```toml test``` and
```yaml test``` (a configuration file: it must be accepted). The blocks of one page run in order in one folder; Python
blocks share their names. With the word `broker`, ports 5672 and 1883 of the block are those of a broker started for
the page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from forebay.server.config import load_options
from tests.broker_process import BrokerProcess

ROOT = Path(__file__).parent.parent.parent
FENCE = re.compile(r"^```(\w+) ([\w ]*\btest\b[\w ]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    page for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]) if FENCE.search(page.read_text())
]
BASH_S_MAX = 100


def run_block(language: str, code: str, folder: Path, names: dict[str, object]) -> None:
    if language == "python":
        exec(compile(code, "<page>", "exec"), names)
    elif language == "bash":
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        command = ["bash", "-euo", "pipefail", "-c", code]
        done = subprocess.run(
            command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, timeout=BASH_S_MAX, check=False
        )
        assert done.returncode == 0, (done.stdout + done.stderr).decode()
    elif language in {"toml", "yaml"}:
        file = folder / f"example.{language}"
        file.write_text(code, encoding="utf-8")
        load_options({}, {}, str(file))
    else:
        raise AssertionError(f"no way to run a block of {language}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_run(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker: BrokerProcess | None = None
    names: dict[str, object] = {"__name__": "example"}
    monkeypatch.chdir(tmp_path)
    for language, words, code in FENCE.findall(page.read_text(encoding="utf-8")):
        if "broker" in words.split():
            broker = broker or start_broker()
            code = code.replace("5672", str(broker.amqp_port)).replace("1883", str(broker.mqtt_port))  # noqa: PLW2901
        run_block(language, code, tmp_path, names)
