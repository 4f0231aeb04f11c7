"""The requests of operations and their parameters, with which nothing of a broker is loaded."""

from __future__ import annotations

import subprocess
import sys

from forebay.broker.catalog.policies import APPLY_TO
from forebay.broker.redrive.dead_letter_queues import SCANNED_AT_ONCE
from forebay.management.parameters import parameters_of
from forebay.management.requests.table import REQUESTS
from forebay.management.table import OPERATIONS


def test_there_is_a_request_of_every_operation_and_of_no_other() -> None:
    assert set(REQUESTS) == set(OPERATIONS)


def test_what_it_says_of_the_broker_is_so() -> None:
    (apply_to,) = (each for each in parameters_of("policy.set") if each.name == "apply_to")
    assert apply_to.doc == f"one of {', '.join(APPLY_TO[:-1])} and {APPLY_TO[-1]}"
    (scan,) = (each for each in parameters_of("queue.messages") if each.name == "scan")
    assert scan.most == scan.default == SCANNED_AT_ONCE


def test_it_loads_nothing_of_a_broker() -> None:
    code = "import sys, forebay.management.parameters; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    own = {module for module in done.stdout.split() if module.startswith("forebay.")}
    assert {each for each in own if not each.startswith("forebay.management.requests")} == {
        "forebay.management",
        "forebay.management.parameters",
    }
