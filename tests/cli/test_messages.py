"""`forebay publish` and `forebay consume` against a broker."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pika
import pytest

from tests.broker_process import BrokerProcess
from tests.unit.cli.commands import Forebay
from tests.unit.cli.test_terminal import Terminal

WAIT_S_MAX = 60
LATER_S = 4


def ready(forebay: Forebay, queue: str) -> int:
    found: int = forebay.json("queue", "show", queue)["ready"]
    return found


def received(printed: str) -> list[dict[str, Any]]:
    """What `consume --json` prints: an object a line."""
    return [json.loads(line) for line in printed.splitlines()]


class Running:
    """A command that goes on until it is told to stop."""

    def __init__(self, forebay: Forebay, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "forebay", *arguments],
            env={**forebay.inherited, **forebay.environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def lines(self, count: int) -> list[bytes]:
        """The next lines that it prints."""
        assert self.process.stdout is not None
        return [self.process.stdout.readline() for _ in range(count)]

    def interrupt(self) -> int:
        """Ctrl-C; the exit code."""
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=WAIT_S_MAX)
        assert said == b""
        return self.process.returncode


def until_consumed(forebay: Forebay, queue: str) -> None:
    """Wait until somebody consumes from the queue."""
    deadline = time.monotonic() + WAIT_S_MAX
    while not forebay.json("consumer", "list", "--queue", queue):
        assert time.monotonic() < deadline


def test_what_is_published_is_what_is_consumed(forebay: Forebay, shared: BrokerProcess) -> None:
    forebay("queue", "declare", "facts")
    said = forebay(
        *("publish", "--queue", "facts", '{"total": 100}', "-H", "region=eu", "-H", "count=3"),
        *("-P", "content-type=application/json", "-P", "priority=4", "-P", "message-id=m1", "-P", "correlation-id=c"),
    )
    assert said == "1 message is on disk\n"
    with pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", shared.amqp_port)) as connection:
        channel = connection.channel()
        _, properties, body = channel.basic_get("facts")
        assert (properties.content_type, properties.priority, properties.message_id) == ("application/json", 4, "m1")
        assert (properties.delivery_mode, properties.headers) == (2, {"region": "eu", "count": 3})
        assert body == b'{"total": 100}'
        channel.basic_publish("", "facts", b"\xff\x00", pika.BasicProperties(type="odd", headers={"a": [1, None]}))
        channel.basic_ack(1)
    (odd,) = received(forebay("consume", "--queue", "facts", "--count", "1", "--json"))
    assert (odd["body_base64"], odd["properties"], odd["headers"]) == ("/wA=", {"type": "odd"}, {"a": [1, None]})
    forebay("publish", "--queue", "facts", "one\x1b[2J", "-H", "who=me")
    assert forebay("consume", "--queue", "facts", "--count", "1").splitlines() == [
        "exchange (default)  key facts",
        "    header who: me",
        "    one\\x1b[2J",
    ]
    assert ready(forebay, "facts") == 0


def test_bodies_come_from_lines_files_and_standard_input(forebay: Forebay, tmp_path: Path) -> None:
    forebay("queue", "declare", "bodies")
    counts = json.loads(forebay("publish", "-q", "bodies", "--lines", "--json", stdin="1\n2\n\n3"))
    assert {name: counts[name] for name in ("published", "confirmed", "refused", "unroutable")} == {
        "published": 4,
        "confirmed": 4,
        "refused": 0,
        "unroutable": 0,
    }
    (tmp_path / "body").write_bytes(b"from\na file")
    forebay("publish", "-q", "bodies", "--file", str(tmp_path / "body"), "--count", "2")
    forebay("publish", "-q", "bodies", stdin="from\nstdin")
    found = [each["body"] for each in received(forebay("consume", "-q", "bodies", "--json", "--count", "7"))]
    assert found == ["1", "2", "", "3", "from\na file", "from\na file", "from\nstdin"]
    assert "cannot be read: No such file" in forebay.fails(2, "publish", "-q", "bodies", "--file", "nowhere")


def test_many_messages_keep_their_order(forebay: Forebay) -> None:
    forebay("queue", "declare", "many")
    text = "".join(f"line {number}\n" for number in range(20_000))
    forebay("publish", "-q", "many", "--lines", stdin=text)
    assert forebay("consume", "-q", "many", "-o", "lines", "--count", "20000") == text
    assert ready(forebay, "many") == 0


def test_what_leads_nowhere_and_what_is_refused_fails(forebay: Forebay) -> None:
    assert "1 of 1 message reached no queue" in forebay.fails(1, "publish", "-q", "nowhere", "x")
    assert "no exchange 'none'" in forebay.fails(1, "publish", "-e", "none", "x")
    forebay("queue", "declare", "full", "--arguments", '{"x-max-length": 2, "x-overflow": "reject-publish"}')
    assert "3 of 5 messages: refused" in forebay.fails(1, "publish", "-q", "full", "x", "-n", "5")
    assert ready(forebay, "full") == 2
    assert "one of --queue, --exchange and --topic" in forebay.fails(2, "publish", "x")
    assert "it goes with --exchange" in forebay.fails(2, "publish", "-q", "full", "--key", "k", "x")
    assert "'colour' is none of" in forebay.fails(2, "publish", "-q", "full", "x", "-P", "colour=red")
    assert "is not NAME=VALUE" in forebay.fails(2, "publish", "-q", "full", "x", "-H", "colour")
    assert "is no whole number" in forebay.fails(2, "publish", "-q", "full", "x", "-P", "priority=high")


def test_consuming_takes_as_many_as_are_asked_for(forebay: Forebay) -> None:
    forebay("queue", "declare", "counted")
    forebay("publish", "-q", "counted", "--lines", stdin="1\n2\n3\n4\n5\n")
    assert forebay("consume", "-q", "counted", "-n", "2", "-o", "lines") == "1\n2\n"
    assert forebay("consume", "-q", "counted", "-n", "1", "-o", "raw", "--settle", "requeue") == "3"
    (third,) = received(forebay("consume", "-q", "counted", "-n", "1", "--json"))
    assert third["body"] == "3"
    (fourth,) = received(forebay("consume", "-q", "counted", "-n", "1", "--json"))
    assert (fourth["body"], fourth["redelivered"]) == ("4", False)  # nobody was given it before
    done = forebay.run("consume", "-q", "counted", "-n", "9", "-o", "lines", "--wait", "0.5")
    assert (done.returncode, done.stdout) == (1, "5\n")
    assert "1 message came, not 9" in done.stderr
    assert ready(forebay, "counted") == 0


def test_more_than_the_broker_sends_ahead_come_to_the_last(forebay: Forebay) -> None:
    forebay("queue", "declare", "ahead")
    lines = "".join(f"{number}\n" for number in range(600))
    forebay("publish", "-q", "ahead", "--lines", stdin=lines)
    assert forebay("consume", "-q", "ahead", "-n", "550", "-o", "lines") == lines[: lines.index("550\n")]
    (next_one,) = received(forebay("consume", "-q", "ahead", "-n", "1", "--json"))
    assert (next_one["body"], next_one["redelivered"]) == ("550", False)
    said = forebay.fails(2, "consume", "-q", "ahead", "-n", "65536", "--settle", "requeue")
    assert "at most 65,535" in said


def test_filters_groups_and_places(forebay: Forebay) -> None:
    forebay("queue", "declare", "chosen")
    forebay("publish", "-q", "chosen", "--lines", stdin='{"n": 1}\n{"n": 2}\n{"n": 3}\n')
    assert forebay("consume", "-q", "chosen", "--filter", "/n >= 2", "-n", "2", "-o", "lines") == '{"n": 2}\n{"n": 3}\n'
    assert ready(forebay, "chosen") == 1
    assert "filter, position" in forebay.fails(1, "consume", "-q", "chosen", "--filter", "/n >=")
    forebay("queue", "declare", "stream", "--type", "stream")
    forebay("publish", "-q", "stream", "--lines", stdin="a\nb\nc\nd\n")
    assert forebay("consume", "-q", "stream", "--from", "first", "-n", "4", "-o", "lines") == "a\nb\nc\nd\n"
    assert forebay("consume", "-q", "stream", "--from", "2", "-n", "2", "-o", "lines") == "c\nd\n"
    assert forebay("consume", "-q", "stream", "--from", "2026-01-01", "-n", "1", "-o", "lines") == "a\n"
    assert forebay("consume", "-q", "stream", "--from", "1h", "-n", "1", "-o", "lines") == "a\n"
    assert "x-stream-offset" in forebay.fails(1, "consume", "-q", "stream", "--from", "somewhere")
    read = ("consume", "-q", "stream", "--group", "g", "-o", "lines", "-n", "2")
    forebay("group", "commit", "stream", "g", "0") if forebay.json("group", "list", "--queue", "stream") else None
    assert forebay(*read, "--from", "first") == "a\nb\n"


def test_topics_of_mqtt_both_ways(forebay: Forebay) -> None:
    reading = Running(forebay, "consume", "--topic", "kitchen/+/now", "--count", "2", "--json")
    deadline = time.monotonic() + WAIT_S_MAX
    while not forebay.json("consumer", "list"):
        assert time.monotonic() < deadline
    for place in ("oven", "fridge.1"):
        forebay("publish", "--topic", f"kitchen/{place}/now", "21")
    found = [json.loads(line) for line in reading.lines(2)]
    assert [each["routing_key"] for each in found] == ["kitchen.oven.now", "kitchen.fridge/1.now"]
    assert reading.process.wait(WAIT_S_MAX) == 0
    reading.process.communicate()
    lost = forebay.fails(1, "publish", "--topic", "nobody/listens", "x")
    assert "1 of 1 message reached nobody: no queue or subscriber takes the topic" in lost


def test_addresses_of_queues_are_topics_as_over_mqtt(forebay: Forebay) -> None:
    told = forebay("publish", "--topic", "$queue/orders/new", "1", "--count", "2")  # before anybody has the queue
    assert told == "2 messages are on disk\n"
    found = [json.loads(line) for line in forebay("consume", "-q", "orders", "-n", "2", "--json").splitlines()]
    assert [(each["routing_key"], each["body"]) for each in found] == [("$queue/orders/new", "1")] * 2
    reading = Running(forebay, "consume", "--topic", "$queue/orders/new/#", "--count", "1", "-o", "lines")
    until_consumed(forebay, "orders")
    forebay("publish", "--topic", "$queue/orders/old", "no")
    forebay("publish", "--topic", "$queue/orders/new", "yes")
    assert reading.lines(1) == [b"yes\n"]
    assert reading.process.wait(WAIT_S_MAX) == 0
    reading.process.communicate()


def test_what_is_for_later_comes_later(forebay: Forebay) -> None:
    began = time.time()
    forebay("publish", "--topic", f"$delayed/{LATER_S}/$queue/later/k", "tea")
    forebay("publish", "--topic", f"$delayed/{int(began) + LATER_S}/$queue/later/k", "cake")
    forebay("publish", "--topic", "$delayed/3600/a/b", "never", "-H", "delay-id=one")
    assert len(forebay.json("delayed", "list")) == 3
    lines = forebay("consume", "-q", "later", "-n", "2", "--wait", str(WAIT_S_MAX), "-o", "lines")
    assert sorted(lines.split()) == ["cake", "tea"] and time.time() - began >= LATER_S
    forebay("publish", "--topic", "$delayed/$cancel", "", "-H", "delay-id=one")
    assert forebay.json("delayed", "list") == []
    assert "no message waits" in forebay.fails(1, "publish", "--topic", "$delayed/$cancel", "", "-H", "delay-id=one")


@pytest.mark.parametrize(
    ("topic", "said"),
    [
        ("$queue/", "names no queue"),
        ("$queue/q/k/$ack", "is for the connection that holds the message"),
        ("$delayed/soon/a", "'soon' is no number of seconds"),
        ("$delayed/5", "'' cannot be published to with a delay"),
        ("$delayed/$cancel", "needs --header delay-id=NAME"),
        ("$share/g/a", "is none that messages are published to"),
    ],
)
def test_topics_that_are_none_are_refused(forebay: Forebay, topic: str, said: str) -> None:
    assert said in forebay.fails(2, "publish", "--topic", topic, "x")


def test_ctrl_c_ends_it_and_only_what_was_printed_is_settled(forebay: Forebay) -> None:
    forebay("queue", "declare", "watched")
    reading = Running(forebay, "consume", "-q", "watched", "--follow", "-o", "lines")
    until_consumed(forebay, "watched")
    forebay("publish", "-q", "watched", "--lines", stdin="1\n2\n3\n")
    assert reading.lines(3) == [b"1\n", b"2\n", b"3\n"]
    assert reading.interrupt() == 0
    shown = forebay.json("queue", "show", "watched")
    assert (shown["ready"], shown["unacked"]) == (0, 0)


def test_whoever_reads_no_further_loses_nothing(forebay: Forebay) -> None:
    forebay("queue", "declare", "cut")
    text = "".join(f"{number}\n" for number in range(50_000))
    forebay("publish", "-q", "cut", "--lines", stdin=text)
    reading = Running(forebay, "consume", "-q", "cut", "-o", "lines")
    assert reading.lines(2) == [b"0\n", b"1\n"]
    assert reading.process.stdout is not None
    reading.process.stdout.close()  # as `| head -2` does
    assert reading.process.wait(WAIT_S_MAX) == 1
    assert reading.process.stderr is not None
    assert reading.process.stderr.read() == b""
    reading.process.stderr.close()
    rest = forebay("consume", "-q", "cut", "-o", "lines").splitlines()
    # What was printed and not read by anybody is in the pipe: no more than that is missing.
    first = int(rest[0])
    assert sorted(map(int, rest)) == list(range(min(map(int, rest)), 50_000))
    assert first < 50_000


def test_what_goes_to_a_file_is_there_before_it_is_settled(forebay: Forebay, tmp_path: Path) -> None:
    forebay("queue", "declare", "kept")
    forebay("publish", "-q", "kept", "--lines", stdin="1\n2\n")
    out = tmp_path / "out"
    out.write_text("0\n")
    assert forebay("consume", "-q", "kept", "-o", "lines", "--out", str(out)) == ""
    assert out.read_text() == "0\n1\n2\n"
    assert ready(forebay, "kept") == 0
    assert "cannot be written" in forebay.fails(2, "consume", "-q", "kept", "--out", str(tmp_path / "no" / "out"))


def test_what_cannot_be_printed_stays_in_the_queue(forebay: Forebay) -> None:
    forebay("queue", "declare", "unprinted")
    forebay("publish", "-q", "unprinted", "--lines", stdin="1\n2\n")
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            [sys.executable, "-m", "forebay", "consume", "-q", "unprinted", "-o", "lines"],
            env={**forebay.inherited, **forebay.environment},
            stdout=full,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 1
    assert b"Traceback" not in done.stderr
    assert ready(forebay, "unprinted") == 2


def test_a_rate_is_kept_to(forebay: Forebay) -> None:
    forebay("queue", "declare", "slowly")
    counts = json.loads(forebay("publish", "-q", "slowly", "x", "-n", "11", "--rate", "20", "--json"))
    assert (counts["confirmed"], counts["seconds"] >= 0.5) == (11, True)


def test_a_deleted_queue_ends_the_reading(forebay: Forebay) -> None:
    forebay("queue", "declare", "going")
    reading = Running(forebay, "consume", "-q", "going", "--follow")
    until_consumed(forebay, "going")
    forebay("queue", "delete", "going", "--yes")
    _, said = reading.process.communicate(timeout=WAIT_S_MAX)
    assert reading.process.returncode == 1
    assert b"the queue is gone" in said


def test_progress_is_shown_where_somebody_looks(forebay: Forebay) -> None:
    forebay("queue", "declare", "progress")
    terminal = Terminal(forebay, "publish", "-q", "progress", "x", "-n", "40", "--rate", "16")
    assert terminal.end() == 0, terminal.shown
    assert "published" in terminal.shown
    assert " of 40" in terminal.shown
    assert "\x1b[2K40 messages are on disk" in terminal.shown  # the bar is gone by then


def test_progress_counts_the_lines_of_a_file(forebay: Forebay, tmp_path: Path) -> None:
    forebay("queue", "declare", "progress")
    file = tmp_path / "lines"
    file.write_text("x\n" * 40)
    terminal = Terminal(forebay, "publish", "-q", "progress", "--lines", "--file", str(file), "--rate", "16")
    assert terminal.end() == 0, terminal.shown
    assert " of 40" in terminal.shown


def test_query_groups_orders_and_shows_messages(forebay: Forebay) -> None:
    forebay("queue", "declare", "asked")
    for n in range(5):
        forebay("publish", "-q", "asked", json.dumps({"n": n, "k": "ab"[n % 2]}))
    table = forebay(
        "queue", "query", "asked", "--select", "/k AS k, SUM(/n) AS s", "--group-by", "/k", "--order-by", "s DESC"
    )
    assert [line.split() for line in table.splitlines()] == [["k", "s"], ["a", "6"], ["b", "4"]]
    assert forebay.json("queue", "query", "asked", "--select", "/n", "--order-by", "/n DESC", "--top", "2") == [
        {"/n": 4},
        {"/n": 3},
    ]
    whole = forebay("queue", "query", "asked", "--where", "/n = 3")
    assert "offset 3" in whole and whole.endswith("    ready\n")
    assert forebay("queue", "query", "asked", "--select", "/n", "--where", "/n > 9") == "there is no such message\n"
    assert "select, position 5" in forebay.fails(1, "queue", "query", "asked", "--select", "SUM(")
