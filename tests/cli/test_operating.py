"""Commands with which a broker is operated: status, top, bench, definitions, configuration, TLS, completion."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import sys
import termios
import time
import urllib.request
from contextlib import suppress
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.broker_process import BrokerProcess
from tests.certificates import Certificates
from tests.unit.cli.commands import Forebay
from tests.unit.cli.test_terminal import Terminal
from tests.waiting import until

LINES, COLUMNS = 24, 80


class Screen(Terminal):
    """A command on a terminal of 80 by 24."""

    def __init__(self, forebay: Forebay, *arguments: str) -> None:
        self.shown = ""
        self._end, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "forebay", *arguments],
            env={**forebay.inherited, **forebay.environment, "TERM": "xterm"},
            stdin=inner,
            stdout=inner,
            stderr=inner,
            start_new_session=True,
        )
        os.close(inner)

    def press(self, keys: str) -> None:
        os.write(self._end, keys.encode())


def test_status_tells_how_the_broker_is(forebay: Forebay, shared: BrokerProcess) -> None:
    forebay("queue", "declare", "worst")
    forebay("publish", "-q", "worst", "x", "-n", "7")
    lines = dict(line.split(maxsplit=1) for line in forebay("status").split("\n\n")[0].splitlines())
    assert lines["alarms"] == "none"
    assert f"amqp 127.0.0.1:{shared.amqp_port}" in lines["listeners"]
    assert " of 10,000 connections, " in lines["clients"]
    assert lines["process"].startswith(f"{shared.pid}, up ")
    found = forebay.json("status", "--over", "0")
    assert (found["pid"], found["alarms"], found["data"]) == (shared.pid, [], str(shared.data))
    assert found["ready"] >= 7
    (worst,) = [each for each in found["longest"] if each["queue"] == "worst"]
    assert (worst["ready"], worst["counts"]["published"], worst["oldest_ms"] >= 0) == (7, 7, True)
    assert "no broker answers" in forebay.fails(3, "status", "--server", "127.0.0.1:1")


def test_an_alarm_is_the_exit_code_of_status(tmp_path: Path) -> None:
    broker = BrokerProcess(tmp_path, disk_free_min_octets=1 << 49)
    broker.start()
    try:
        forebay = Forebay(broker)
        done = forebay.run("status", "--over", "0.5")
        while done.returncode == 0:  # the disk is looked at once a second
            done = forebay.run("status", "--over", "0.5")
        assert (done.returncode, done.stderr) == (1, "")
        assert "disk: publishers are not read until that is over" in done.stdout
    finally:
        broker.finish()


def test_top_obeys_its_keys_and_leaves_the_terminal_as_it_was(forebay: Forebay) -> None:
    for name in ("top-a", "top-b"):
        forebay("queue", "declare", name)
    forebay("publish", "-q", "top-b", "x", "-n", "3")
    screen = Screen(forebay, "top", "--interval", "0.2")
    screen.wait_for("ready*")
    screen.press("n")
    screen.wait_for("queue*")
    screen.press("/top-b")
    screen.wait_for("find: top-b_")
    screen.press("\r")
    screen.wait_for("/top-b  q quit")
    screen.press(" ")
    screen.wait_for("paused  /top-b")
    assert all(len(line) <= COLUMNS for line in plain(screen.shown).splitlines())
    screen.press("q")
    assert screen.end() == 0
    assert screen.shown.rstrip().endswith("\x1b[?1049l")  # the picture before it is back


def test_top_prints_once_where_nobody_looks(forebay: Forebay) -> None:
    forebay("queue", "declare", "top-once")
    rows = forebay("top", "--interval", "0.2", "--find", "once").splitlines()
    heads = ["queue", "ready*", "unacked", "consumers", "in", "out", "acked", "oldest", "vhost"]
    assert rows[2].split() == heads
    assert [row.split()[0] for row in rows[3:] if not row.startswith("slow:")] == ["top-once"]
    found = forebay.json("top", "--once", "--interval", "0.2", "--sort", "n")
    names = [each["queue"] for each in found["queues"]]
    assert names == sorted(names)
    assert "'z' is none of" in forebay.fails(2, "top", "--sort", "z")


@pytest.mark.parametrize("protocol", ["amqp", "mqtt", "blocks"])
def test_bench_counts_what_was_published_and_consumed(forebay: Forebay, protocol: str) -> None:
    before = forebay.json("queue", "list")
    found = forebay.json("bench", "--protocol", protocol, "--seconds", "0.5", "--rate", "500", "--size", "64")
    assert found["consumed"] == found["published"] > 0
    assert 0 < found["p50_ms"] <= found["p99_ms"]
    assert found["broker_cpu_s"] > 0
    assert [each["queue"] for each in forebay.json("queue", "list")] == [each["queue"] for each in before]


def alive_in(group: int) -> list[str]:
    """The processes of a group that have not ended."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, its_group, *_ = path.read_text().rpartition(")")[2].split()
            if int(its_group) == group and state not in "ZX":
                found.append(path.parent.name)
    return found


@pytest.mark.parametrize(("protocol", "begun"), [("amqp", False), ("amqp", True), ("blocks", True), ("mqtt", False)])
def test_an_interrupted_bench_ends_at_once_and_leaves_nothing(forebay: Forebay, protocol: str, begun: bool) -> None:
    command = [sys.executable, "-m", "forebay", "bench", "--protocol", protocol, "--seconds", "600"]
    bench = subprocess.Popen(
        command,
        env={**forebay.inherited, **forebay.environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    name = f"forebay-bench-{bench.pid}"

    def queues() -> list[Any]:
        return [each for each in forebay.json("queue", "list") if each["queue"] == name]

    def is_at_work() -> bool:
        if protocol == "mqtt":
            return bool(forebay.json("status", "--over", "0")["sessions"])
        return bool(queues() and (not begun or published() > before + 100))

    def published() -> int:
        return int(forebay.json("status", "--over", "0")["counts"]["published"])

    before = published()
    try:
        until(is_at_work)
        began = time.monotonic()
        os.killpg(bench.pid, signal.SIGINT)
        said, _ = bench.communicate(timeout=60)
        assert time.monotonic() - began < 20, said  # on a machine that does much else
        assert b"Traceback" not in said
        assert b"published" in said or not begun
        assert queues() == []
        until(lambda: not alive_in(bench.pid))
    finally:
        with suppress(ProcessLookupError):
            os.killpg(bench.pid, signal.SIGKILL)
        bench.communicate()


def test_bench_says_what_is_wrong(forebay: Forebay) -> None:
    assert "'coap' is none of" in forebay.fails(2, "bench", "--protocol", "coap")
    assert "Login was refused" in forebay.fails(1, "bench", "--password", "wrong")


def test_definitions_go_out_and_come_in(forebay: Forebay, tmp_path: Path) -> None:
    forebay("vhost", "add", "from")
    forebay("queue", "declare", "kept", "--vhost", "from", "--arguments", '{"x-max-length": 5}')
    forebay("exchange", "declare", "in", "--vhost", "from")
    forebay("binding", "add", "in", "kept", "--key", "k", "--vhost", "from")
    file = tmp_path / "definitions.json"
    assert "1 binding" in forebay("definitions", "export", str(file))
    assert file.stat().st_mode & 0o077 == 0
    whole = json.loads(file.read_text())
    assert [each["name"] for each in whole["users"]] == ["guest"]
    only: dict[str, Any] = json.loads(forebay("definitions", "export", "--vhost", "from"))
    assert [each["name"] for each in only["queues"]] == ["kept"]
    forebay("vhost", "delete", "from", "--yes")
    assert "add --yes to confirm" in forebay.fails(2, "definitions", "import", str(file))
    forebay("definitions", "import", str(file), "--without", "users,permissions", "--yes")
    (queue,) = [each for each in forebay.json("queue", "list", "--vhost", "from") if each["queue"] == "kept"]
    assert queue["durable"]
    assert forebay.json("binding", "list", "--vhost", "from", "--exchange", "in")[0]["routing_key"] == "k"
    other = {
        "queues": [{"name": "odd", "vhost": "from", "arguments": {"x-odd": 1, "x-overflow": "drop-tail"}}],
        "exchanges": [{"name": "near", "vhost": "from", "type": "x-local-random"}],
    }
    file.write_text(json.dumps(other))
    refused = forebay.fails(1, "definitions", "import", str(file), "--strict", "--yes")
    assert "arguments.x-odd" in refused and "x-local-random" in refused
    assert "odd" not in [each["queue"] for each in forebay.json("queue", "list", "--vhost", "from")]
    told = forebay("definitions", "import", str(file), "--yes").splitlines()
    lost = "left out: messages may be lost, or stay: "
    starts = (
        f"{lost}exchanges[0] 'near': type: 'x-local-random'",
        f"{lost}queues[0] 'odd': arguments.x-overflow: ",
        "left out: queues[0] 'odd': arguments.x-odd: nothing here puts it in force",
        "the broker has 1 queue, 1 exchange of the file, without 3 parts of them that cannot be in force here",
    )
    assert all(line.startswith(start) for line, start in zip(told, starts, strict=True)), told
    assert forebay.json("queue", "show", "odd", "--vhost", "from")["arguments"] == {}
    as_json = json.loads(forebay("definitions", "import", str(file), "--yes", "--json"))
    assert [each["may_lose_messages"] for each in as_json["left_out"]] == [True, True, False]
    file.write_text('{"queues": [{"vhost": "from"}]}')
    assert "name" in forebay.fails(1, "definitions", "import", str(file), "--yes")
    file.write_text("{")
    assert "is no JSON" in forebay.fails(2, "definitions", "import", str(file), "--yes")
    assert "'product_name' is no list" in forebay.fails(2, "definitions", "export", "--without", "product_name")


def test_a_configuration_is_checked_and_shown(forebay: Forebay, shared: BrokerProcess, tmp_path: Path) -> None:
    file = tmp_path / "forebay.yaml"
    file.write_text("amqp: 127.0.0.1:5672\n\namqpp: x\n")
    assert f"error: {file}:3: amqpp: no such option; did you mean amqp?" in forebay.fails(
        2, "config", "check", str(file)
    )
    file.write_text("amqp: 127.0.0.1:5672\n")
    assert forebay("config", "check", str(file)) == f"{file} is good\n"
    (amqp,) = [each for each in forebay.json("config", "show", "amqp") if each["name"] == "amqp"]
    assert (amqp["value"], amqp["origin"]) == (f"127.0.0.1:{shared.amqp_port}", "command line")
    assert all(each["origin"] != "default" for each in forebay.json("config", "show", "--changed"))
    assert forebay.json("config", "reload")["applied"] == []


def test_tls_to_the_broker_and_to_its_api(forebay: Forebay, shared: BrokerProcess, made: Certificates) -> None:
    forebay.environment["FOREBAY_SERVER"] = f"localhost:{shared.port('amqps')}"
    trusted = ("--ca-file", str(made.ca))
    forebay("queue", "declare", "secret", *trusted)
    forebay("publish", "-q", "secret", "x" * 100_000, *trusted)
    assert forebay("consume", "-q", "secret", "-o", "raw", "-n", "1", *trusted) == "x" * 100_000
    assert json.loads(forebay("definitions", "export", *trusted))["vhosts"]
    assert "certificate verify failed" in forebay.fails(3, "queue", "list", "--tls")
    assert "holds no certificate" in forebay.fails(2, "queue", "list", "--ca-file", "nowhere.pem")
    assert "cannot be used" in forebay.fails(2, "queue", "list", "--certificate", "nowhere.pem")
    assert "without --certificate" in forebay.fails(2, "queue", "list", "--certificate-key", "nowhere.pem")
    forebay.environment["FOREBAY_SERVER"] = f"localhost:{shared.amqp_port}"
    assert "TLS: " in forebay.fails(3, "queue", "list", "--tls")


def completed(forebay: Forebay, line: str) -> list[str]:
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1), "_FOREBAY_COMPLETE": "complete_bash"}
    forebay.environment.update(words)
    found = forebay().split()
    for name in words:
        del forebay.environment[name]
    return found


def test_shells_complete_commands_and_queues(forebay: Forebay, tmp_path: Path) -> None:
    forebay("queue", "declare", "complete-me")
    assert completed(forebay, "forebay trans") == ["transaction"]
    assert completed(forebay, "forebay queue sh") == ["show"]
    assert completed(forebay, "forebay queue show complete-") == ["complete-me"]
    assert completed(forebay, "forebay exchange delete amq.t") == ["amq.topic"]
    assert completed(forebay, "forebay user tags gu") == ["guest"]
    assert completed(forebay, "forebay vhost set /") == ["/"]
    assert completed(forebay, "forebay log du") == ["dump"]
    forebay.environment["FOREBAY_SERVER"] = "127.0.0.1:1"
    assert completed(forebay, "forebay queue show complete-") == []
    for shell in ("bash", "zsh", "fish"):
        script = forebay("completion", shell)
        assert "_FOREBAY_COMPLETE=complete_" in script
    (tmp_path / "script").write_text(forebay("completion", "bash"))
    assert subprocess.run(["bash", "-n", str(tmp_path / "script")], check=False).returncode == 0
    assert "none of bash, zsh, fish" in forebay.fails(2, "completion", "tcsh")


def test_the_script_for_bash_completes_in_bash(forebay: Forebay, tmp_path: Path) -> None:
    command = tmp_path / "forebay"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m forebay "$@"\n')
    command.chmod(0o755)
    forebay("queue", "declare", "in-bash")
    script = (
        f"{forebay('completion', 'bash')}\nCOMP_WORDS=(forebay queue show in-) COMP_CWORD=3\n"
        '_forebay_completion forebay\nprintf "%s\\n" "${COMPREPLY[@]}"\n'
    )
    environment = {**forebay.inherited, **forebay.environment, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["in-bash"]


@pytest.mark.parametrize(
    ("shell", "asked"),
    [
        ("zsh", {"_TYPER_COMPLETE_ARGS": "forebay queue sh"}),
        ("fish", {"_TYPER_COMPLETE_ARGS": "forebay queue sh", "_TYPER_COMPLETE_FISH_ACTION": "get-args"}),
    ],
)
def test_what_the_scripts_of_other_shells_ask_is_answered(forebay: Forebay, shell: str, asked: dict[str, str]) -> None:
    assert set(asked) <= {name for name in asked if name in forebay("completion", shell)}
    forebay.environment.update({**asked, "_FOREBAY_COMPLETE": f"complete_{shell}"})
    assert "show" in forebay()


def test_the_json_of_a_list_has_the_names_of_the_api(forebay: Forebay, shared: BrokerProcess) -> None:
    forebay("queue", "declare", "named")
    for words in (("queue", "list"), ("exchange", "list"), ("vhost", "list"), ("user", "list"), ("binding", "list")):
        name = ".".join(words)
        given = {} if words[0] in {"vhost", "user"} else {"vhost": "/"}
        request = urllib.request.Request(
            f"http://127.0.0.1:{shared.port('http')}/api/forebay/operations/{name}",
            json.dumps({**given, "limit": 1000}).encode(),
            {"Authorization": "Basic Z3Vlc3Q6Z3Vlc3Q=", "Content-Type": "application/json"},
            method="POST",
        )
        with urllib.request.urlopen(request) as answer:
            assert forebay.json(*words) == json.load(answer)["items"], name


def test_ctrl_c_is_an_exit_code_of_its_own(forebay: Forebay) -> None:
    forebay("queue", "declare", "interrupted")
    command = [sys.executable, "-m", "forebay", "top", "--json", "--interval", "0.2"]
    watching = subprocess.Popen(
        command, env={**forebay.inherited, **forebay.environment}, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert watching.stdout is not None
    assert watching.stdout.readline()
    watching.send_signal(signal.SIGINT)
    _, said = watching.communicate(timeout=60)
    assert (watching.returncode, b"Traceback" in said) == (130, False)


def test_sessions_subscriptions_and_retained_messages(forebay: Forebay, shared: BrokerProcess) -> None:
    client = paho.Client(CallbackAPIVersion.VERSION2, "kitchen", clean_session=False)
    client.username_pw_set("guest", "guest")
    subscribed: list[Any] = []
    client.on_subscribe = lambda *_: subscribed.append(1)
    client.connect("127.0.0.1", shared.mqtt_port)
    client.loop_start()
    client.subscribe("cli/kitchen/#", 1)
    client.publish("cli/kitchen/oven", b"200", 1, retain=True).wait_for_publish(60)
    (session,) = forebay.json("session", "list", "--connected")
    assert (session["client_id"], session["subscriptions"]) == ("kitchen", 1)
    (subscription,) = forebay.json("subscription", "list", "--topic", "cli/kitchen/x")
    assert (subscription["filter"], subscription["qos"]) == ("cli/kitchen/#", 1)
    assert [each["topic"] for each in forebay.json("retained", "list", "cli/#")] == ["cli/kitchen/oven"]
    assert "200" in forebay("retained", "show", "cli/kitchen/oven")
    client.disconnect()
    client.loop_stop()
    forebay("publish", "--topic", "cli/kitchen/fridge", "4")
    assert "4" in forebay("session", "messages", "kitchen")
    assert "cli/kitchen/#" in forebay("session", "show", "kitchen")
    assert forebay("session", "delete", "kitchen", "--yes").startswith("session kitchen deleted")
    forebay("retained", "delete", "cli/kitchen/oven", "--yes")
    assert forebay.json("session", "list") == forebay.json("retained", "list", "cli/#") == []


def test_single_messages_and_what_a_filter_chooses(forebay: Forebay) -> None:
    forebay("queue", "declare", "here")
    forebay("queue", "declare", "there")
    forebay("publish", "-q", "here", "--lines", stdin='{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    assert '{"n": 2}' in forebay("message", "show", "here", "1")
    assert "stored" in forebay("message", "history", "--queue", "here", "--offset", "1")
    assert "there is no such message" in forebay("message", "explain", "--id", "nobody's")
    told = forebay("message", "explain", "--queue", "here", "--offset", "1")
    assert told.startswith("queue 'here', offset 1: ") and told.count("offset 1") == 1
    forebay("publish", "-e", "amq.topic", "-k", "later", "-H", "x-delay=600000", "-P", "message_id=due", "in time")
    assert forebay("message", "explain", "--id", "due").startswith("delayed message to later: it is published in ")
    assert forebay("queue", "move", "here", "--to", "there", "--where", "/n = 2", "--yes") == "1 message was moved\n"
    assert forebay("queue", "discard", "here", "--where", "/n = 3", "--yes") == "1 message is gone\n"
    assert [each["body"] for each in forebay.json("queue", "messages", "here")] == ['{"n": 1}']
    assert [each["body"] for each in forebay.json("queue", "messages", "there")] == ['{"n": 2}']
    forebay("queue", "declare", "past", "--type", "stream")
    forebay("publish", "-q", "past", "x", "-n", "2")
    assert forebay.json("stream", "show", "past")["end"] == 2
    assert forebay("stream", "offset", "past", "2026-01-01") == "0\n"
    assert "is no time" in forebay.fails(2, "stream", "offset", "past", "yesterday")
    assert all(each["query"].startswith("forebay-bench-") for each in forebay.json("transaction", "list"))
    assert forebay.json("webhook", "list") == []


def test_a_trace_writes_down_what_happens(forebay: Forebay) -> None:
    forebay("queue", "declare", "traced")
    assert "trace slow started: it traces 1 queues" in forebay("trace", "start", "slow", "--pattern", "^traced$")
    forebay("publish", "-q", "traced", "x")
    forebay("consume", "-q", "traced", "-n", "1")
    assert [each["type"] for each in forebay.json("trace", "show", "slow")] == ["published", "delivered", "acked"]
    assert "delivered" in forebay("trace", "show", "slow")
    assert [each["name"] for each in forebay.json("trace", "list")] == ["slow"]
    forebay("trace", "stop", "slow")
    assert "there is no trace 'slow'" in forebay.fails(1, "trace", "show", "slow")


def test_users_are_limited_and_their_passwords_leave_as_hashes(forebay: Forebay) -> None:
    forebay("user", "add", "eve", stdin="a long password\n")
    forebay("user", "limits", "eve", "--connections-max", "0")
    forebay("permission", "set", "eve", ".*", ".*", ".*")
    said = forebay.fails(1, "publish", "-q", "q", "x", "--user", "eve", "--password", "a long password")
    assert "limit" in said
    forebay("user", "limits", "eve", "--connections-max", "-1")
    forebay("queue", "declare", "of-eve")
    forebay("publish", "-q", "of-eve", "x", "--user", "eve", "--password", "a long password")
    (eve,) = [each for each in json.loads(forebay("definitions", "export"))["users"] if each["name"] == "eve"]
    assert "argon2" in json.dumps(eve).lower()


def plain(shown: str) -> str:
    """What a terminal shows, without the sequences that it obeys."""
    return re.sub(r"\x1b[\[\]()][0-9;?]*[A-Za-z]", "\n", shown)
