"""What the benchmarks of Spark share: a broker and a session, runs in alternation, CPU by who used it, a table.

    with Harness(parser(__doc__).parse_args()) as bench:
        bench.publish("bench", bench.rows, noise(bench.octets))
        ways = [Way("forebay", lambda: noop(bench.load("bench"))), Way("parquet", lambda: noop(rows))]
        print(table(bench.alternate(ways), anchor="parquet"))

Every round runs each way once, every other round in the opposite order; the first round warms up and does not count.
Quote medians, and ratios to an anchor of the same table: absolute rates are those of the machine and its neighbours.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import pika
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  PySpark's own convention

from forebay.client.blocks import BlockClient
from forebay.log import block
from forebay.spark import session

TICKS_S = os.sysconf("SC_CLK_TCK")
FILL_ROWS = 1_000_000  # of one transaction
HOUSEKEEPING_S = 8  # full WAL files become segments after 5 s


@dataclass(frozen=True, slots=True)
class Cpu:
    """Processor seconds that the JVM, Python (this process and Spark's workers) and the broker used."""

    jvm: float
    python: float
    broker: float

    def since(self, before: Cpu) -> Cpu:
        return Cpu(self.jvm - before.jvm, self.python - before.python, self.broker - before.broker)

    def us_a_row(self, rows: int) -> Cpu:
        return Cpu(self.jvm / rows * 1e6, self.python / rows * 1e6, self.broker / rows * 1e6)


@dataclass(frozen=True, slots=True)
class Run:
    """One run of one way."""

    rows: int
    seconds: float
    cpu: Cpu

    def without(self, few: Run) -> Run:
        """What its rows beyond a few cost."""
        return Run(self.rows - few.rows, max(1e-9, self.seconds - few.seconds), self.cpu.since(few.cpu))


@dataclass(frozen=True, slots=True)
class Way:
    """One of the things that are compared.

    work     what is measured; the number of rows that it dealt with, or None: the harness's
    prepare  called before each run and not measured
    few      the same of few rows, whose cost is taken off: that of a query beside its rows
    """

    name: str
    work: Callable[[], int | None]
    prepare: Callable[[], None] | None = None
    few: Callable[[], int] | None = None


def parser(doc: str | None, rows: int = 1_000_000, octets: int = 1024) -> argparse.ArgumentParser:
    """The options that all benchmarks have."""
    made = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--rows", type=int, default=rows)
    made.add_argument("--octets", type=int, default=octets, help="of a message's body")
    made.add_argument("--rounds", type=int, default=5)
    made.add_argument("--cores", type=int, default=2)
    made.add_argument("--memory", default="1g", help="the JVM's heap")
    made.add_argument("--folder", help="where to put the data; a temporary folder if absent")
    return made


class Harness:
    """A broker on free ports and a session, both gone at the end, with their files.

    options   from `parser`
    config    Spark's settings beside those of `forebay.spark.session`
    settings  the broker's options, by their names in the environment without FOREBAY_
    """

    def __init__(
        self,
        options: argparse.Namespace,
        config: Mapping[str, object] | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.rows: int = options.rows
        self.octets: int = options.octets
        self.rounds: int = options.rounds
        if not str(block.__file__).endswith(".so"):
            print("warning: this is not the compiled build", file=sys.stderr)
        self.folder = Path(tempfile.mkdtemp(prefix="forebay-bench-", dir=options.folder))
        self.data = self.folder / "data"
        self.process, self.ready = start_broker(self.data, settings or {})
        self.server = str(self.ready["amqp"])
        quiet = {"spark.ui.enabled": "false", "spark.log.level": "ERROR", "spark.driver.memory": options.memory}
        self.spark = session(f"local[{options.cores}]", "bench", {**quiet, **(config or {})})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.spark.stop()
        self.process.terminate()
        self.process.wait(60)
        shutil.rmtree(self.folder)

    def connect(self) -> pika.BlockingConnection:
        """An AMQP connection to the broker."""
        host, _, port = self.server.rpartition(":")
        return pika.BlockingConnection(pika.ConnectionParameters(host, int(port)))

    def client(self) -> BlockClient:
        return BlockClient.connect(self.server, "guest", "guest")

    def declare(self, queue: str, kind: str = "stream", **arguments: object) -> None:
        """Make a durable queue; arguments without x- and with _ for -."""
        named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
        connection = self.connect()
        connection.channel().queue_declare(queue, durable=True, arguments={"x-queue-type": kind, **named})
        connection.close()

    def publish(self, queue: str, rows: int, body: Callable[[int], bytes]) -> None:
        """Fill a stream, which is made if need be, and wait until all is on the disk and housekeeping is through."""
        self.declare(queue)
        connection = self.connect()
        channel = connection.channel()
        properties = pika.BasicProperties(content_type="application/octet-stream", delivery_mode=2)
        started = time.perf_counter()
        with self.client() as client:
            end = client.describe(queue).end + rows
            for row in range(rows):
                channel.basic_publish("", queue, body(row), properties)
            while client.describe(queue).end < end:
                connection.process_data_events(0.05)
        print(f"published {rows} rows in {time.perf_counter() - started:.0f} s", file=sys.stderr, flush=True)
        connection.close()
        time.sleep(HOUSEKEEPING_S)

    def fill(self, queue: str, rows: int) -> None:
        """As `publish`, by Spark's sink, which is much faster: the number of each row, and letters behind it."""
        self.declare(queue)
        body = F.rpad(F.col("id").cast("string"), self.octets, "forebay ")
        for first in range(0, rows, FILL_ROWS):
            frame = self.spark.range(first, min(rows, first + FILL_ROWS)).select(body.alias("value"))
            sink = frame.write.format("forebay").mode("append").option("forebay.servers", self.server)
            sink.option("topic", queue).save()
        time.sleep(HOUSEKEEPING_S)

    def load(self, queue: str, schema: str | None = None, **options: object) -> DataFrame:
        """A queue read over the network."""
        reader = self.spark.read.format("forebay").option("forebay.servers", self.server).option("subscribe", queue)
        reader = reader if schema is None else reader.schema(schema)
        return reader.options(**{name: str(value) for name, value in options.items()}).load()

    def cpu(self) -> Cpu:
        """Processor time used so far by this process and all below it."""
        return cpu_below(os.getpid(), self.process.pid)

    def measure(self, way: Way) -> Run:
        """One run."""
        if way.prepare is not None:
            way.prepare()
        before, started = self.cpu(), time.perf_counter()
        rows = way.work()
        run = Run(self.rows if rows is None else rows, time.perf_counter() - started, self.cpu().since(before))
        return run if way.few is None else run.without(self.measure(Way(way.name, way.few)))

    def alternate(self, ways: Sequence[Way]) -> dict[str, list[Run]]:
        """All runs by way, in the order given; the warming round is left out."""
        found: dict[str, list[Run]] = {way.name: [] for way in ways}
        for turn in range(self.rounds + 1):
            for way in ways if turn % 2 else reversed(ways):
                run = self.measure(way)
                print(f"round {turn}: {way.name}: {run.seconds:.2f} s", file=sys.stderr, flush=True)
                if turn:
                    found[way.name].append(run)
        return found


def start_broker(data: Path, settings: Mapping[str, str]) -> tuple[subprocess.Popen[str], dict[str, Any]]:
    """A broker on free ports; its process and ready line."""
    command = [sys.executable, "-m", "forebay", "serve", "--data", str(data)]
    command += ["--amqp", "127.0.0.1:0", "--mqtt", "127.0.0.1:0"]
    named = {f"FOREBAY_{name}": value for name, value in settings.items()}
    # Their ports are not free beside another broker.
    unused = {f"FOREBAY_{name}": "" for name in ("MQTT_WEBSOCKET", "HTTP", "PROMETHEUS")}
    environment = {**os.environ, **unused, **named}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline().removeprefix("ready "))


def noise(octets: int) -> Callable[[int], bytes]:
    """Bodies that are all different and do not compress."""
    source = os.urandom(octets + 4096)
    return lambda row: (b"%012d" % row + source[row & 4095 : (row & 4095) + octets])[:octets]


def noop(frame: DataFrame) -> None:
    """Have Spark make every row and throw it away."""
    frame.write.format("noop").mode("overwrite").save()


def cpu_below(root: int, broker: int) -> Cpu:
    """Processor seconds so far of a process and all below it, the broker among them."""
    children: dict[int, list[int]] = {}
    used: dict[int, tuple[str, float]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            text = Path(f"/proc/{name}/stat").read_text(encoding="ascii", errors="replace")
        except (FileNotFoundError, ProcessLookupError):
            continue
        command, fields = text[text.index("(") + 1 : text.rindex(")")], text[text.rindex(")") + 2 :].split()
        children.setdefault(int(fields[1]), []).append(int(name))
        # Its own time and that of children who have ended.
        used[int(name)] = (command, sum(map(int, fields[11:15])) / TICKS_S)
    jvm = python = served = 0.0
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        waiting += children.get(pid, [])
        command, seconds = used.get(pid, ("", 0.0))
        if pid == broker:
            served += seconds
        elif command == "java":
            jvm += seconds
        else:
            python += seconds
    return Cpu(jvm, python, served)


def table(results: Mapping[str, Sequence[Run]], anchor: str, first: str = "") -> str:
    """Medians as rows of docs/reference/benchmarks.md; `first` is a cell before the names, if there is one."""
    base = statistics.median(run.rows / run.seconds for run in results[anchor])
    cpu_base = statistics.median(
        each.jvm + each.python + each.broker for each in [run.cpu.us_a_row(run.rows) for run in results[anchor]]
    )
    lines = []
    for name, runs in results.items():
        rate = statistics.median(run.rows / run.seconds for run in runs)
        cpu = [run.cpu.us_a_row(run.rows) for run in runs]
        jvm, python, broker = (
            statistics.median(getattr(each, part) for each in cpu) for part in ("jvm", "python", "broker")
        )
        ratio = "" if name == anchor else f"{rate / base:.2f}x"
        whole = statistics.median(each.jvm + each.python + each.broker for each in cpu)
        cells = [
            *([first] if first else []),
            name,
            f"{rate / 1000:.0f}",
            ratio,
            f"{jvm:.2f} + {python:.2f} + {broker:.2f}",
            "" if name == anchor else f"{whole / cpu_base:.2f}x",
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def cpu_line(runs: Sequence[Run]) -> str:
    """The least that any of these runs took of JVM and Python: what ran beside them only adds to it."""
    cpu = [run.cpu.us_a_row(run.rows) for run in runs]
    return f"{min(each.jvm for each in cpu):.3f} + {min(each.python for each in cpu):.3f}"


def heading(*names: str, anchor: str) -> str:
    """The table's head; `names` are those of the cells before the figures."""
    cells = [*names, "krow/s", f"of {anchor}", "CPU µs/row: JVM + Python + broker", "of its CPU"]
    return "| " + " | ".join(cells) + " |\n|" + "---|" * len(names) + "---:|---:|---|---:|"
