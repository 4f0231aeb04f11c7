"""The command as a user types it: output, exit codes, no tracebacks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import forebay


def forebay_command(
    folder: Path, *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forebay", *arguments]
    return subprocess.run(
        command, cwd=folder, env={**os.environ, **(environment or {})}, capture_output=True, text=True, check=False
    )


def test_version_names_the_version_and_the_build(tmp_path: Path) -> None:
    done = forebay_command(tmp_path, "version")
    assert done.returncode == 0
    assert done.stdout.startswith(f"forebay {forebay.__version__} (")
    assert "compiled" in done.stdout or "interpreted" in done.stdout


def test_an_option_prints_the_version_too(tmp_path: Path) -> None:
    done = forebay_command(tmp_path, "--version")
    assert (done.returncode, done.stdout) == (0, forebay_command(tmp_path, "version").stdout)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("forebay top", ["top", "topic-permission"]),
        ("forebay queue ", ["declare", "delete"]),
        ("forebay --version", ["--version"]),
    ],
)
def test_a_shell_completes_words_and_what_stands_behind_them(tmp_path: Path, line: str, found: list[str]) -> None:
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_FOREBAY_COMPLETE": "complete_bash"}
    done = forebay_command(tmp_path, environment=asked)
    assert [word for word in done.stdout.split() if word in found] == found


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["serve", "--amqp", "nowhere"], "forebay: command line: amqp: 'nowhere' is not HOST:PORT"),
        (["serve", "--config", "none.toml"], "forebay: none.toml: cannot be read"),
        (["serve", "--colour", "red"], "No such option: --colour"),
        (["--server", "localhost:5672", "status"], "--server belongs after the command"),
        (["polish"], "No such command 'polish'"),
    ],
)
def test_a_mistake_ends_with_code_2_and_one_clear_line(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = forebay_command(tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_mistake_in_the_environment_is_named(tmp_path: Path) -> None:
    done = forebay_command(tmp_path, "serve", environment={"FOREBAY_AMQP_HEARTBEAT": "5"})
    assert done.returncode == 2
    assert done.stderr == ("forebay: environment: amqp_heartbeat: no such option; did you mean amqp_heartbeat_s?\n")


def test_without_a_command_there_is_help(tmp_path: Path) -> None:
    done = forebay_command(tmp_path)
    text = done.stdout + done.stderr
    for command in ("serve", "version"):
        assert command in text
