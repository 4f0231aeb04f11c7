"""The code blocks of the pages run.

A fence whose info string has the word `test` is run: ```python test```, ```bash test```, ```javascript test```,
```toml test``` and ```yaml test``` (a configuration file: it must be accepted). The blocks of one page run in order in
one folder; Python blocks share their names, and those of bash one shell, as with a reader. A fence ```text output```
is what the block before it prints; `…` stands for anything in it. With the word `broker`, the usual ports in a block
(5672, 1883 and the like) are those of a broker started for the page, and the command line asks that broker; a
configuration file with that word is the broker's own, from there on.
"""

from __future__ import annotations

import io
import os
import re
import select
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from importlib import import_module
from pathlib import Path

import pytest
import yaml

from forebay.server.config.sources import load_options
from tests.broker_process import BrokerProcess
from tests.interop import npm, test_amqplib, test_mqttjs
from tests.interop.amqp10 import rhea_client

ROOT = Path(__file__).parent.parent.parent
FENCE = re.compile(r"^```(\w+) ([\w ]*\b(?:test|output)\b[\w ]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = [
    page for page in sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]) if FENCE.search(page.read_text())
]
RELATIVE = re.compile(r'Location",\s*"(?!/|file:)[^"]*"|\.(?:save|load|parquet|json|csv)\("(?!/|file:)[^"]+"\)')
SPARK_S_MAX = 400  # a session of Spark starts slowly on a busy machine
BASH_S_MAX = 300  # a guard against a hang: some blocks start Spark
# Packages of npm that blocks in JavaScript may require.
PACKAGES = {
    "amqplib": test_amqplib.VERSION,
    "mqtt": test_mqttjs.VERSION,
    "rhea": rhea_client.VERSION,
    "ws": rhea_client.WS_VERSION,
}
# The port that a page writes, and the listener that is meant.
PORTS = {
    "1883": "mqtt",
    "5671": "amqps",
    "5672": "amqp",
    "5683": "coap",
    "8083": "mqtt_websocket",
    "8084": "mqtt_websocket_tls",
    "15672": "http",
    "15671": "https",
    "8883": "mqtts",
}
PORT = re.compile(rf"\b({'|'.join(PORTS)})\b")


def run_program(command: list[str], folder: Path, **variables: str) -> str:
    """What it prints."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, **variables}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=BASH_S_MAX, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


class PageShell:
    """The shell in which a reader types all blocks of a page: jobs and variables of one are there in the next."""

    def __init__(self, folder: Path, scripts: Path) -> None:
        self.scripts = scripts
        self.count = 0
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.process = subprocess.Popen(
            ["bash", "-euo", "pipefail"],
            cwd=folder,
            env={**os.environ, "PATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,  # so that what a page leaves behind can be ended with the shell
        )

    def run(self, code: str) -> str:
        """Run a block; what it prints. The shell ends with a command that fails, and so does the test."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.count += 1
        block = self.scripts / f"block-{self.count}"
        out, errors = block.with_suffix(".out"), block.with_suffix(".errors")
        server = os.environ.get("FOREBAY_SERVER")  # of a broker that was started for the page
        block.write_text((f"export FOREBAY_SERVER={server}\n" if server else "") + code, encoding="utf-8")
        line = f"{{ . {block}; }} < /dev/null > {out} 2> {errors}; echo\n"
        self.process.stdin.write(line.encode())
        self.process.stdin.flush()
        ended, _, _ = select.select([self.process.stdout], [], [], BASH_S_MAX)
        printed = out.read_text(encoding="utf-8", errors="replace")
        assert ended, f"the block does not end:\n{code}\n{printed}"
        failed = self.process.stdout.read(1) != b"\n"
        assert not failed, printed + errors.read_text(encoding="utf-8", errors="replace")
        return printed

    def close(self) -> None:
        """End the shell, and what a page that failed has left running."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def run_javascript(code: str, folder: Path) -> str:
    node = shutil.which("node")
    assert node is not None, "node is missing: apt-get install nodejs"
    wanted = [name for name in re.findall(r'require\("([^"]+)"\)', code) if name in PACKAGES]
    places = [str(npm.installed(name, PACKAGES[name]) / "node_modules") for name in wanted]
    return run_program([node, "-e", code], folder, NODE_PATH=os.pathsep.join(places))


def run_block(language: str, code: str, folder: Path, names: dict[str, object], shell: PageShell) -> str:
    """Run it; what it prints."""
    if language == "python":
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(code, "<page>", "exec"), names)
        return printed.getvalue()
    if language == "bash":
        return shell.run(code)
    if language == "javascript":
        return run_javascript(code, folder)
    assert language in {"toml", "yaml"}, f"no way to run a block of {language}"
    file = folder / f"example.{language}"
    file.write_text(code, encoding="utf-8")
    load_options({}, {}, str(file))
    return ""


def assert_printed(shown: str, printed: str) -> None:
    """The page shows what was printed, but for spaces at the ends of lines."""
    lines, wanted = ("\n".join(line.rstrip() for line in text.strip().splitlines()) for text in (printed, shown))
    pattern = ".*".join(re.escape(part) for part in wanted.split("…"))
    assert re.fullmatch(pattern, lines, re.DOTALL), f"the page shows\n{wanted}\nand it prints\n{lines}"


def options_of(code: str) -> dict[str, object]:
    """Options of a configuration file in YAML, with any free port for its listeners."""
    values: dict[str, object] = yaml.safe_load(code)
    return {name: "127.0.0.1:0" if name in PORTS.values() else value for name, value in values.items()}


def with_ports(broker: BrokerProcess, code: str) -> str:
    """The block with the broker's ports for the usual ones."""
    return PORT.sub(lambda found: str(broker.port(PORTS[found[1]])), code)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_examples_run(
    page: Path,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    start_broker: Callable[..., BrokerProcess],
) -> None:
    monkeypatch.chdir(tmp_path)
    shell = PageShell(tmp_path, tmp_path_factory.mktemp("shell"))
    try:
        run_page(page, tmp_path, monkeypatch, start_broker, shell)
    finally:
        shell.close()


def run_page(
    page: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    start_broker: Callable[..., BrokerProcess],
    shell: PageShell,
) -> None:
    broker: BrokerProcess | None = None
    names: dict[str, object] = {"__name__": "example"}
    printed = ""
    for language, words, code in FENCE.findall(page.read_text(encoding="utf-8")):
        if "output" in words.split():
            assert_printed(code, printed)
            continue
        if "broker" in words.split():
            if language == "yaml":
                broker = start_broker(**options_of(code))
            broker = broker or start_broker(http="127.0.0.1:0")
            code = with_ports(broker, code)  # noqa: PLW2901
            monkeypatch.setenv("FOREBAY_SERVER", f"127.0.0.1:{broker.amqp_port}")
        printed = run_block(language, code, folder, names, shell)


def test_a_page_has_one_shell(tmp_path: Path) -> None:
    """Variables and jobs outlive a block, a failure does not, and nothing is read from the test's own input."""
    (tmp_path / "page").mkdir()
    shell = PageShell(tmp_path / "page", tmp_path)
    try:
        assert shell.run("name=a; sleep 60 & echo $! > pid; cat") == ""
        assert shell.run("echo $name; kill $(cat pid); wait $(cat pid) || echo $?") == "a\n143\n"
        with pytest.raises(AssertionError, match="no such thing"):
            shell.run("echo no such thing >&2; false; echo further")
    finally:
        shell.close()


def test_no_example_has_spark_write_to_a_relative_path() -> None:
    """It would be of the folder in which the JVM began, and a second run would find what the first one left there."""
    for page in PAGES:
        code = "".join(code for _, _, code in FENCE.findall(page.read_text(encoding="utf-8")))
        assert RELATIVE.findall(code) == [], page


# What the programs of examples/ print.
PROGRAMS = {
    "device": """
the lamp is away
three commands were sent
the lamp is told on
the lamp is told off
the lamp is told on
lamps/hall/state is on
""",
    "orders": """
done [0, 2]
tried in vain 3 times
failed 1 delivery_limit
""",
    "outbox": """
published 3 and died before noting it
published 3 again
left to publish 0
in the queue 3
""",
    "rpc": """
3 squared is 9
4 squared is 16
12 squared is 144
""",
    "totals": """
shop-0 520
shop-1 525
""",
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.timeout(SPARK_S_MAX)
def test_programs_run(name: str, start_broker: Callable[..., BrokerProcess]) -> None:
    """In this process: the one of Spark has the session of the pages."""
    broker = start_broker()
    port = str(broker.port("mqtt") if name == "device" else broker.amqp_port)
    more = ["--mqtt-port", str(broker.port("mqtt"))] if name == "totals" else []
    printed = io.StringIO()
    with redirect_stdout(printed):
        import_module(f"examples.{name}.run").main(["--port", port, *more])
    assert_printed(PROGRAMS[name], printed.getvalue())


def test_every_program_is_run_and_has_a_page() -> None:
    folders = {path.parent.name for path in (ROOT / "examples").glob("*/run.py")}
    assert folders == {*PROGRAMS, "flights"}
    assert [name for name in folders if not (ROOT / "examples" / name / "README.md").exists()] == []


def test_pages_of_spark_have_queues_of_their_own() -> None:
    """Whoever follows them one after the other has one broker."""
    pages = [page for page in PAGES if "forebay.spark" in page.read_text(encoding="utf-8")]
    declared: dict[str, list[str]] = {}
    for page in pages:
        for queue in set(re.findall(r'queue_declare\(\s*"([^"]+)"', page.read_text(encoding="utf-8"))):
            declared.setdefault(queue, []).append(page.name)
    assert declared
    assert {queue: names for queue, names in declared.items() if len(names) > 1} == {}
