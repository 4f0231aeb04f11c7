"""The table of all operations: importing this module fills it."""

from __future__ import annotations

from forebay.management.control import OPERATIONS, Control
from forebay.management.operations import (
    config,
    connections,
    delayed,
    exchanges,
    explain,
    groups,
    letters,
    messages,
    policies,
    queues,
    sessions,
    status,
    streams,
    trace,
    transactions,
    users,
    vhosts,
)

__all__ = ["OPERATIONS", "PARTS", "Control"]

PARTS = (
    config,
    connections,
    delayed,
    exchanges,
    explain,
    groups,
    letters,
    messages,
    policies,
    queues,
    sessions,
    status,
    streams,
    trace,
    transactions,
    users,
    vhosts,
)
