"""The demo's account: it must see whatever does not add up."""

from __future__ import annotations

import signal
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from examples.flights.account import (
    Counted,
    DemoError,
    DemoOutcome,
    FlightLedger,
    Flights,
    account,
    delay_table,
    find_problems,
)
from examples.flights.worker import PREFETCH_MESSAGES, REDELIVERED_BIT

ROWS = 600


def flights() -> Flights:
    table = pd.DataFrame(
        {
            "carrier": ["UA", "AA", "AA"] * (ROWS // 3),
            "hour": [5, 6, 7] * (ROWS // 3),
            "dep_delay": [1.0, None, 2.5] * (ROWS // 3),
        }
    )
    return Flights(table, ["topic"] * ROWS, [b"{}"] * ROWS)


def good() -> DemoOutcome:
    """All went well; ten flights came again after a worker was killed, two of which it had noted."""
    ledger = FlightLedger(ROWS)
    ledger.enter(np.arange(0, 300))
    ledger.enter(np.arange(300, 592))
    ledger.enter(np.arange(590, 600) | REDELIVERED_BIT)
    groups: list[tuple[str, int, float | None, int, int]] = [
        ("AA", 7, 2.5, 200, 200),
        ("UA", 5, 1.0 + 1e-15, 200, 200),
        ("AA", 6, None, 0, 200),
    ]
    return DemoOutcome(
        flights(),
        ledger,
        Counted(ROWS, ROWS, groups, elapsed_s=2.0),
        acknowledged=ROWS,
        publish_s=0.5,
        killed_code=-signal.SIGKILL,
        worker_codes=[0, 0],
    )


def test_a_good_run_has_no_problem() -> None:
    outcome = good()
    assert find_problems(outcome) == []
    ledger = outcome.ledger
    assert (ledger.settled, ledger.lost, ledger.counted_twice) == (ROWS, 0, 0)
    assert (ledger.redelivered, ledger.worked_on_again) == (10, 2)
    text = "\n".join(account(outcome))
    assert "sent           600 flights over MQTT QoS 1, 600 acknowledged; 1,200/s" in text
    assert "10 redelivered" in text
    assert "2 of these it had worked on" in text
    assert "counted        600 flights by Spark in the stream; 600/s over two queries" in text
    assert text.count("0 lost, 0 counted twice") == 2


def lose_puback(outcome: DemoOutcome) -> None:
    outcome.acknowledged -= 1


def refuse(outcome: DemoOutcome) -> None:
    outcome.refused = 1


def lose_in_queue(outcome: DemoOutcome) -> None:
    outcome.ledger = FlightLedger(ROWS)
    outcome.ledger.enter(np.arange(0, 599))


def deliver_unmarked(outcome: DemoOutcome) -> None:
    outcome.ledger.enter(np.array([17]))


def redeliver_too_much(outcome: DemoOutcome) -> None:
    outcome.ledger.enter(np.arange(PREFETCH_MESSAGES) | REDELIVERED_BIT)


def leave(outcome: DemoOutcome) -> None:
    outcome.left = 3


def survive(outcome: DemoOutcome) -> None:
    outcome.killed_code = 0


def fail_worker(outcome: DemoOutcome) -> None:
    outcome.worker_codes = [0, 1]


def fail_broker(outcome: DemoOutcome) -> None:
    outcome.broker_code = -9


def read_less(outcome: DemoOutcome) -> None:
    outcome.counted.rows -= 1


def read_twice(outcome: DemoOutcome) -> None:
    outcome.counted.distinct -= 1


def miss_group(outcome: DemoOutcome) -> None:
    del outcome.counted.groups[1]


def change_group(place: int, **changed: float) -> Callable[[DemoOutcome], None]:
    def change(outcome: DemoOutcome) -> None:
        carrier, hour, mean, count, size = outcome.counted.groups[place]
        new_mean = changed.get("mean", mean)
        new_count, new_size = int(changed.get("count", count)), int(changed.get("size", size))
        outcome.counted.groups[place] = (carrier, hour, new_mean, new_count, new_size)

    return change


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (lose_puback, "flights acknowledged to the publisher: 599, should be 600"),
        (refuse, "flights refused by the broker: 1, should be 0"),
        (lose_in_queue, "flights lost on the way to the workers: 1, should be 0"),
        (deliver_unmarked, "flights given to workers twice without a mark: 1, should be 0"),
        (redeliver_too_much, "redelivered: 266, but a worker holds 256 at most"),
        (leave, "messages left in the work queue: 3, should be 0"),
        (survive, "exit code of the killed worker: 0, should be -9"),
        (fail_worker, "workers that ended with an error: 1, should be 0"),
        (fail_broker, "exit code of the broker: -9, should be 0"),
        (read_less, "flights read by Spark: 599, should be 600"),
        (read_twice, "different flights read by Spark: 599, should be 600"),
        (miss_group, "Spark has 2 groups of carrier and hour, pandas 3, or they differ in name"),
        (change_group(0, mean=2.5001), "1 groups have another mean in Spark than in pandas"),
        (change_group(2, mean=0.0), "1 groups have another mean in Spark than in pandas"),
        (change_group(0, count=199), "1 groups have another count in Spark than in pandas"),
        (change_group(1, size=201), "1 groups have another size in Spark than in pandas"),
    ],
)
def test_each_problem_is_told(spoil: Callable[[DemoOutcome], None], problem: str) -> None:
    outcome = good()
    spoil(outcome)
    assert find_problems(outcome) == [problem]


def test_a_flight_that_was_never_sent_stops_the_demo() -> None:
    with pytest.raises(DemoError, match="a worker got flight 600, of 600 that were sent"):
        FlightLedger(ROWS).enter(np.array([600]))


def test_the_table_has_an_hour_a_row_and_a_carrier_a_column() -> None:
    table = delay_table(good().counted.groups, 80)
    assert [str(column.header) for column in table.columns] == ["hour", "AA", "UA"]
    assert [list(column.cells) for column in table.columns] == [["5", "6", "7"], ["", "", "2.5"], ["1.0", "", ""]]
    narrow = delay_table(good().counted.groups, 15)
    assert list(narrow.columns[2].cells) == ["1", "", ""]
