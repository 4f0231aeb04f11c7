"""The account of the demo: what was sent, settled and counted, whether it adds up, and how that is told."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
from rich.table import Table

from examples.flights.worker import PREFETCH_MESSAGES, REDELIVERED_BIT
from forebay.core.errors import ForebayError

Numbers = npt.NDArray[np.int64]


class DemoError(ForebayError):
    """The demo cannot go on: a process it needs ended, or nothing moves any more."""


@dataclass(frozen=True, slots=True)
class Flights:
    """The flights and their messages; a flight's row number is its identity."""

    table: pd.DataFrame
    topics: list[str]
    bodies: list[bytes]

    def __len__(self) -> int:
        return len(self.bodies)


class FlightLedger:
    """The number of times that each flight was worked on, by what the broker said of the delivery."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.first = np.zeros(total, np.int64)  # deliveries not marked as redelivered, by row
        self.again = np.zeros(total, np.int64)  # deliveries marked as redelivered
        self.settled = 0  # flights worked on at least once
        self.started_s = 0.0
        self.last_s = 0.0

    def enter(self, entries: Numbers) -> None:
        """Count what a worker noted."""
        if not len(entries):
            return
        rows = entries & (REDELIVERED_BIT - 1)
        marked = entries >= REDELIVERED_BIT
        if rows.max() >= self.total:
            raise DemoError(f"a worker got flight {rows.max()}, of {self.total} that were sent")
        self.first += np.bincount(rows[~marked], minlength=self.total)
        self.again += np.bincount(rows[marked], minlength=self.total)
        self.settled = int(np.count_nonzero(self.first + self.again))
        self.last_s = time.monotonic()
        self.started_s = self.started_s or self.last_s

    @property
    def elapsed_s(self) -> float:
        return self.last_s - self.started_s

    @property
    def lost(self) -> int:
        return self.total - self.settled

    @property
    def counted_twice(self) -> int:
        """Deliveries of a flight that came before, and that the broker did not mark: a worker cannot tell these."""
        return int(np.maximum(self.first - 1, 0).sum())

    @property
    def redelivered(self) -> int:
        return int(self.again.sum())

    @property
    def worked_on_again(self) -> int:
        """Marked deliveries of flights that were noted before: the killed worker came no further than that."""
        return int((self.first + self.again)[self.again > 0].sum() - np.count_nonzero(self.again))


@dataclass(slots=True)
class Counted:
    """The rows that Spark read from the stream."""

    rows: int = 0
    distinct: int = 0
    groups: list[tuple[str, int, float | None, int, int]] = field(default_factory=list)
    elapsed_s: float = 0.0  # both queries


@dataclass(slots=True)
class DemoOutcome:
    """The account of a whole run."""

    flights: Flights
    ledger: FlightLedger
    counted: Counted = field(default_factory=Counted)
    acknowledged: int = 0  # flights whose PUBACK came
    refused: int = 0  # flights that the broker did not take
    publish_s: float = 0.0
    killed_code: int = 0  # exit code of the worker that was killed
    worker_codes: list[int] = field(default_factory=list)  # of the workers that were asked to end
    left: int = 0  # messages in the work queue at the end
    broker_cpu_s: float = 0.0  # until the workers were done
    broker_memory_mib: int = 0
    broker_code: int = 0


def expected_groups(flights: Flights) -> pd.DataFrame:
    """Spark's result as pandas has it, from the source."""
    groups = flights.table.groupby(["carrier", "hour"])["dep_delay"].agg(["mean", "count", "size"])
    assert isinstance(groups, pd.DataFrame)
    return groups


def find_problems(outcome: DemoOutcome) -> list[str]:
    """Everything that does not add up, in words; empty if all does."""
    total = len(outcome.flights)
    ledger, counted = outcome.ledger, outcome.counted
    checks = [
        (outcome.acknowledged, total, "flights acknowledged to the publisher"),
        (outcome.refused, 0, "flights refused by the broker"),
        (ledger.lost, 0, "flights lost on the way to the workers"),
        (ledger.counted_twice, 0, "flights given to workers twice without a mark"),
        (outcome.left, 0, "messages left in the work queue"),
        (outcome.killed_code, -signal.SIGKILL, "exit code of the killed worker"),
        (sum(code != 0 for code in outcome.worker_codes), 0, "workers that ended with an error"),
        (counted.rows, total, "flights read by Spark"),
        (counted.distinct, total, "different flights read by Spark"),
        (outcome.broker_code, 0, "exit code of the broker"),
    ]
    problems = [f"{what}: {is_:,}, should be {should:,}" for is_, should, what in checks if is_ != should]
    if ledger.redelivered > PREFETCH_MESSAGES:
        problems.append(f"redelivered: {ledger.redelivered:,}, but a worker holds {PREFETCH_MESSAGES} at most")
    return problems + compare_groups(expected_groups(outcome.flights), counted)


def compare_groups(expected: pd.DataFrame, counted: Counted) -> list[str]:
    """The means and counts of Spark that are not pandas' own; a sum's order may change its last digits."""
    found = pd.DataFrame(counted.groups, columns=["carrier", "hour", "mean", "count", "size"])
    found = found.set_index(["carrier", "hour"]).sort_index()
    expected = expected.sort_index()
    if list(found.index) != list(expected.index):
        return [
            f"Spark has {len(found):,} groups of carrier and hour, pandas {len(expected):,}, or they differ in name"
        ]
    problems: list[str] = []
    for column in ("count", "size"):
        differ = int((found[column] != expected[column]).sum())
        if differ:
            problems.append(f"{differ} groups have another {column} in Spark than in pandas")
    close = np.isclose(found["mean"].astype(float), expected["mean"], rtol=1e-9, atol=1e-9, equal_nan=True)
    if not close.all():
        problems.append(f"{int((~close).sum())} groups have another mean in Spark than in pandas")
    return problems


def account(outcome: DemoOutcome) -> list[str]:
    """The report's lines: each step with its numbers and its rate."""
    total = len(outcome.flights)
    ledger, counted = outcome.ledger, outcome.counted
    published = rate(outcome.acknowledged, outcome.publish_s)
    settled = rate(ledger.settled, ledger.elapsed_s)
    read = rate(2 * counted.rows, counted.elapsed_s)
    lost, twice = total - counted.distinct, counted.rows - counted.distinct
    cpu_us = outcome.broker_cpu_s / total * 1e6
    lines = [
        ("sent", total, f"flights over MQTT QoS 1, {outcome.acknowledged:,} acknowledged; {published}"),
        ("settled", ledger.settled, f"flights by two AMQP workers; {settled}"),
        ("", ledger.lost, f"lost, {ledger.counted_twice:,} counted twice"),
        ("", ledger.redelivered, "redelivered, and marked so: the killed worker had not acknowledged them"),
        ("", ledger.worked_on_again, "of these it had worked on"),
        ("counted", counted.rows, f"flights by Spark in the stream; {read} over two queries"),
        ("", lost, f"lost, {twice:,} counted twice"),
        ("compared", len(counted.groups), "means of carrier and hour with pandas on the source file"),
        ("broker", round(cpu_us, 1), f"us of processor time a flight, both queues; {outcome.broker_memory_mib:,} MiB"),
    ]
    return [f"{word:<9}{number:>9,} {rest}" for word, number, rest in lines]


def rate(count: int, elapsed_s: float) -> str:
    """The rate a second."""
    return f"{count / elapsed_s:,.0f}/s" if elapsed_s else "at once"


def delay_table(groups: list[tuple[str, int, float | None, int, int]], width: int) -> Table:
    """Mean departure delay in minutes, an hour a row and a carrier a column; whole minutes where it is narrow."""
    carriers = sorted({carrier for carrier, *_ in groups})
    hours = sorted({hour for _, hour, *_ in groups})
    means = {(hour, carrier): mean for carrier, hour, mean, *_ in groups}
    form = ".1f" if width >= 6 + 7 * len(carriers) else ".0f"
    table = Table(
        title="Mean departure delay in minutes, by scheduled hour and carrier", padding=(0, 1, 0, 0), box=None
    )
    table.add_column("hour", justify="right")
    for carrier in carriers:
        table.add_column(carrier, justify="right")
    for hour in hours:
        cells = [means.get((hour, carrier)) for carrier in carriers]
        table.add_row(str(hour), *("" if mean is None else format(mean, form) for mean in cells))
    return table
