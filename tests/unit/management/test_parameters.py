"""The table of parameters, which loads nothing of a broker."""

from __future__ import annotations

import subprocess
import sys

from forebay.broker.catalog.policies import APPLY_TO
from forebay.broker.redrive.dead_letter_queues import SCANNED_AT_ONCE
from forebay.management.parameters import PARAMETERS, SCAN
from forebay.management.table import OPERATIONS


def test_it_has_the_parameters_of_every_operation_and_of_no_other() -> None:
    assert set(PARAMETERS) == set(OPERATIONS)


def test_what_it_says_of_the_broker_is_so() -> None:
    (apply_to,) = (each for each in PARAMETERS["policy.set"] if each.name == "apply_to")
    assert apply_to.doc == f"one of {', '.join(APPLY_TO[:-1])} and {APPLY_TO[-1]}"
    assert SCAN.most == SCAN.default == SCANNED_AT_ONCE


def test_it_loads_nothing_of_a_broker() -> None:
    code = "import sys, forebay.management.parameters; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    own = {module for module in done.stdout.split() if module.startswith("forebay.")}
    assert own == {"forebay.management", "forebay.management.parameters"}
