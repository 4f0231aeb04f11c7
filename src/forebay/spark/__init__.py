"""Queues as tables: the Apache Spark data source `forebay`.

`session` and `register` are loaded at their first use: without PySpark this package can still be imported.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forebay.spark.source import register
    from forebay.spark.tuned import session

__all__ = ["register", "session"]


def __getattr__(name: str) -> object:
    if name == "register":
        from forebay.spark.source import register

        return register
    if name == "session":
        from forebay.spark.tuned import session

        return session
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
