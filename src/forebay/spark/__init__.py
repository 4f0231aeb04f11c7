"""Queues as tables: the Apache Spark data source `forebay`, and jobs over it.

All names are loaded at their first use: without PySpark this package can still be imported.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from forebay.spark.filters.columns import matching, needs, register_matches
    from forebay.spark.jobs.audit import audit
    from forebay.spark.jobs.decoding import decode
    from forebay.spark.jobs.letters import letters, redrive
    from forebay.spark.jobs.replay import replay
    from forebay.spark.jobs.tier import compact, tier
    from forebay.spark.jobs.tier_read import read_tiered
    from forebay.spark.jobs.views import Source, publish_view, query
    from forebay.spark.progress import show_progress
    from forebay.spark.reading.direct import count_by, read
    from forebay.spark.setup.tuned import session
    from forebay.spark.source import register

__all__ = [
    "Source",
    "audit",
    "compact",
    "count_by",
    "decode",
    "letters",
    "matching",
    "needs",
    "publish_view",
    "query",
    "read",
    "read_tiered",
    "redrive",
    "register",
    "register_matches",
    "replay",
    "session",
    "show_progress",
    "tier",
]

HOMES: Final = {
    "Source": "forebay.spark.jobs.views",
    "audit": "forebay.spark.jobs.audit",
    "compact": "forebay.spark.jobs.tier",
    "count_by": "forebay.spark.reading.direct",
    "decode": "forebay.spark.jobs.decoding",
    "letters": "forebay.spark.jobs.letters",
    "matching": "forebay.spark.filters.columns",
    "needs": "forebay.spark.filters.columns",
    "publish_view": "forebay.spark.jobs.views",
    "query": "forebay.spark.jobs.views",
    "read": "forebay.spark.reading.direct",
    "read_tiered": "forebay.spark.jobs.tier_read",
    "redrive": "forebay.spark.jobs.letters",
    "register": "forebay.spark.source",
    "register_matches": "forebay.spark.filters.columns",
    "replay": "forebay.spark.jobs.replay",
    "session": "forebay.spark.setup.tuned",
    "show_progress": "forebay.spark.progress",
    "tier": "forebay.spark.jobs.tier",
}


def __getattr__(name: str) -> object:
    if name in HOMES:
        return getattr(import_module(HOMES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
