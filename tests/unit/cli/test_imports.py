"""What commands load: nobody who asks for help waits for a web server to be imported."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Each costs tens of milliseconds.
HEAVY = {"asyncio", "cryptography", "email", "fastapi", "httptools", "httpx", "joserfc", "pyarrow", "pyspark", "rich"}
HEAVY |= {"ssl", "starlette", "urllib.request", "uvicorn", "uvloop", "websockets", "yaml"}
SERVER_SIDE = ("forebay.admin", "forebay.broker", "forebay.server", "forebay.session", "forebay.queue")


def loaded(*arguments: str) -> set[str]:
    """The modules that a command has imported when it ends."""
    command = [sys.executable, "-X", "importtime", "-m", "forebay", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line for line in done.stderr.splitlines() if line.startswith("import time:")]
    return {line.rpartition("|")[2].strip() for line in lines}


def of_server(modules: set[str]) -> set[str]:
    return {module for module in modules if module.startswith(SERVER_SIDE)}


@pytest.mark.parametrize("arguments", [("--help",), ("--version",)])
def test_help_and_version_load_nothing_of_the_commands(arguments: tuple[str, ...]) -> None:
    modules = loaded(*arguments)
    assert modules & HEAVY == set()
    own = {module for module in modules if module.startswith("forebay.")}
    assert own == {
        "forebay.cli",
        "forebay.cli.build",
        "forebay.cli.commands",
        "forebay.cli.help",
        "forebay.cli.main",
        "forebay.core",
        "forebay.core.errors",
        *({"forebay.log"} if "--version" in arguments else ()),
    }


def test_the_version_loads_no_client() -> None:
    modules = loaded("version")
    assert of_server(modules) == set()
    assert not any(module.startswith("forebay.client") for module in modules)


@pytest.mark.parametrize("words", ["queue list", "publish", "consume", "dlq list", "user list", "status", "top"])
def test_a_command_that_asks_a_broker_loads_no_part_of_one(words: str) -> None:
    modules = loaded(*words.split(), "--help")
    assert of_server(modules) == set()
    assert modules & (HEAVY - {"email", "ssl", "urllib.request"}) == set()  # these are the client's, or typer's


def test_a_node_of_a_cluster_loads_no_command_line_of_its_http_client() -> None:
    """It takes a seventh of the time until a compiled node is ready, and all nodes may start at once."""
    program = "import forebay.server.cluster.peers, forebay.server.run, sys; "
    program += "print(*sorted({'click', 'pygments', 'rich'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
