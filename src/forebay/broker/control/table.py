"""The table of all operations: importing this module fills it."""

from __future__ import annotations

from forebay.broker.control import (
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
from forebay.broker.control.operations import OPERATIONS, Control

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
