"""`forebay bench`: a small load generator. Its results often show the limits of its clients, not of the broker."""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Annotated, Any, Final

import typer

from forebay.cli.access import LoginOptions, logs_in, refuse
from forebay.cli.as_json import show_json
from forebay.cli.bench.clients import (
    BLOCKS,
    MQTT,
    PROTOCOLS,
    STAMP_OCTETS,
    BenchPlan,
    Done,
    Latencies,
    consume_all,
    publish_all,
)
from forebay.cli.progress import progress_bar
from forebay.cli.units import octets_said
from forebay.core.errors import ForebayError, OptionError

LOOK_S: Final = 0.1
START_S_MAX: Final = 60
END_S_MAX: Final = 120
INTERRUPTED_S_MAX: Final = 2  # for the clients to send their results after Ctrl-C
NOTE: Final = "these clients are Python, and each is a process: they are often slower than the broker"


@logs_in
def bench(
    login: LoginOptions,
    protocol: Annotated[str, typer.Option(metavar="NAME", help="amqp, mqtt (QoS 1) or blocks.")] = "amqp",
    publishers: Annotated[int, typer.Option("--publishers", "-p", metavar="N", min=1, max=64, help="How many.")] = 1,
    consumers: Annotated[int, typer.Option("--consumers", "-c", metavar="N", min=0, max=64, help="How many.")] = 1,
    size: Annotated[int, typer.Option(metavar="OCTETS", min=STAMP_OCTETS, help="Length of a message's body.")] = 100,
    seconds: Annotated[float, typer.Option(metavar="N", min=0.5, help="Length of the measurement.")] = 10,
    rate: Annotated[
        float, typer.Option(metavar="N", min=0, help="Messages a second, over all publishers; 0 sets no limit.")
    ] = 0,
    transient: Annotated[bool, typer.Option("--transient", help="Messages are not persistent; only for amqp.")] = False,
) -> None:
    """Measure how fast a few Python clients publish and consume, through a temporary queue.

    Every message is confirmed. The Python clients limit the rates; bench/ of the project has faster ones. The broker's
    CPU time is shown only to administrators.

    Example: forebay bench --publishers 2 --size 1000 --seconds 5
    """
    if protocol not in PROTOCOLS:
        raise OptionError(f"--protocol: {protocol!r} is none of {', '.join(PROTOCOLS)}")
    if transient and protocol != "amqp":
        raise OptionError("--transient: only amqp has such messages")
    place = f"forebay-bench-{os.getpid()}"
    plan = BenchPlan(
        protocol, login, place if protocol != MQTT else place.replace("-", "/"), size, rate / publishers, transient
    )
    with queue_for(plan):
        before = cpu_of(login)
        began = time.monotonic()
        done = run(plan, publishers, consumers, seconds)
        took = time.monotonic() - began
        after = cpu_of(login)
    failed = [each.error for each in done if each.error]
    if failed:
        refuse(failed[0])
    found = summed(plan, done, None if before is None or after is None else after - before, took)
    if login.as_json:
        show_json({"protocol": protocol, "size": size, "note": NOTE, **found})
    else:
        print(f"publishers {publishers}, consumers {consumers}, {protocol}, {size} octets: {NOTE}")
        for name, value in said(found, size):
            print(f"{name:<10} {value}")


@contextmanager
def queue_for(plan: BenchPlan) -> Iterator[None]:
    """Declare the queue for the clients, and delete it at the end. MQTT clients need none."""
    if plan.protocol == MQTT:
        yield
        return
    with plan.login.amqp() as client:
        client.declare_queue(plan.place)
    try:
        yield
    finally:
        with plan.login.amqp() as client:
            client.delete_queue(plan.place)


class Interrupt:
    """The handler of Ctrl-C: the first ends the publishing, a second the command.

    The handler sets no event of the processes: if it interrupts a wait for that event, the wait would never end.
    """

    def __init__(self) -> None:
        self.came = False

    def __call__(self, *_: object) -> None:
        if self.came:
            raise KeyboardInterrupt
        self.came = True


def run(plan: BenchPlan, publishers: int, consumers: int, seconds: float) -> list[Done]:
    """Run all clients at the same time, and return the result of each. Ctrl-C ends the run early."""
    context = multiprocessing.get_context("spawn")  # a fork would take the command's sockets and threads with it
    clients = publishers + consumers
    ready = context.Barrier(clients + 1)
    published_all, consumed_all, stop = context.Event(), context.Event(), context.Event()
    counts = context.Array("q", clients, lock=False)
    processes: list[tuple[BaseProcess, Connection]] = []
    interrupt = Interrupt()
    previous = signal.getsignal(signal.SIGINT)
    try:
        for place in range(clients):
            inner, outer = context.Pipe()
            target, over = (publish_all, published_all) if place < publishers else (consume_all, consumed_all)
            process: BaseProcess = context.Process(
                target=target, args=(plan, ready, over, stop, counts, place, outer), daemon=True
            )
            start_deaf(process)
            processes.append((process, inner))
        begun = begins(ready)
        signal.signal(signal.SIGINT, interrupt)
        if begun:
            watch(interrupt, seconds)
        published_all.set()
        done = [result(*each, interrupt, stop) for each in processes[:publishers]]
        consumed_all.set()
        done += [result(*each, interrupt, stop) for each in processes[publishers:]]
    finally:
        signal.signal(signal.SIGINT, previous)
        for process, _ in processes:
            process.kill()
            process.join()
    return done


def start_deaf(process: BaseProcess) -> None:
    """Start a process with SIGINT blocked: Ctrl-C reaches a terminal's processes, but the command ends the clients."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def begins(ready: Any) -> bool:
    """Wait until all clients are connected. Returns False if one could not, which then reports its error itself."""
    from threading import BrokenBarrierError

    try:
        ready.wait(START_S_MAX)
    except BrokenBarrierError:
        return False
    return True


def watch(interrupt: Interrupt, seconds: float) -> None:
    """Wait `seconds`, or until Ctrl-C, and show a progress bar."""
    end = time.monotonic() + seconds
    with progress_bar("seconds", seconds) as advance:
        while (left := end - time.monotonic()) > 0 and not interrupt.came:
            time.sleep(min(LOOK_S, left))
            advance(min(LOOK_S, left))


def result(process: BaseProcess, pipe: Connection, interrupt: Interrupt, stop: Any) -> Done:
    """Return the result of a client's process. Raises ForebayError if the process ended without one, or did not end."""
    until = time.monotonic() + END_S_MAX
    while not pipe.poll(LOOK_S):
        if not process.is_alive() and not pipe.poll(LOOK_S):
            raise ForebayError(f"a client's process ended with {process.exitcode}")
        if interrupt.came and not stop.is_set():
            stop.set()
            until = time.monotonic() + INTERRUPTED_S_MAX
        if time.monotonic() > until:
            if interrupt.came:
                raise KeyboardInterrupt
            raise ForebayError(f"a client did not come to its end in {END_S_MAX} s")
    done = pipe.recv()
    assert isinstance(done, Done)
    return done


def cpu_of(login: LoginOptions) -> float | None:
    """Return the seconds of CPU that the broker has used so far. Returns None if the user may not query it."""
    try:
        with login.control() as client:
            used = client.run("broker.status").get("cpu_s")
    except ForebayError:
        return None
    return used if isinstance(used, float | int) else None


def summed(plan: BenchPlan, done: list[Done], cpu_s: float | None, took_s: float) -> dict[str, Any]:
    """Return the results of all clients together, for programs."""
    publishing = [each for each in done if each.publishes]
    consuming = [each for each in done if not each.publishes]
    latencies = Latencies()
    for each in consuming:
        if each.latencies is not None:
            latencies.merge(each.latencies)
    published = sum(each.messages for each in publishing)
    consumed = sum(each.messages for each in consuming)
    return {
        "published": published,
        "consumed": consumed,
        "published_rate": round(sum(each.messages / each.seconds for each in publishing if each.seconds), 1),
        "consumed_rate": round(sum(each.messages / each.seconds for each in consuming if each.seconds), 1),
        "p50_ms": latencies.quantile_ms(0.5),
        "p99_ms": latencies.quantile_ms(0.99),
        "max_ms": round(latencies.most_us / 1000, 3) if consumed else None,
        "broker_cpu_s": None if cpu_s is None else round(cpu_s, 3),
        "broker_us_each": None if cpu_s is None or not published else round(1e6 * cpu_s / published, 3),
        "clients_cpu_s": round(sum(each.cpu_s for each in done), 3),
        "seconds": round(took_s, 3),
        "settles": plan.protocol != BLOCKS,
    }


def said(found: dict[str, Any], size: int) -> list[tuple[str, str]]:
    """Return the names and values to print for a result."""
    lines = []
    for name in ("published", "consumed"):
        rate = found[f"{name}_rate"]
        lines.append((name, f"{found[name]:,} messages, {rate:,.0f}/s, {octets_said(int(rate * size))}/s"))
    if found["p50_ms"] is not None:
        lines.append(("latency", f"p50 {found['p50_ms']} ms, p99 {found['p99_ms']} ms, at most {found['max_ms']} ms"))
    if found["broker_cpu_s"] is not None:
        lines.append(("broker", f"{found['broker_cpu_s']} s of CPU, {found['broker_us_each']} µs a message"))
    lines.append(("clients", f"{found['clients_cpu_s']} s of CPU"))
    return lines
