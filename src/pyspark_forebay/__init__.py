"""Lets PySpark find the source `forebay`: it imports every package named `pyspark_*` and takes its `DefaultSource`.

One such package that fails to import hides the sources of all others. So this one always imports, and has no
`DefaultSource` where what the source needs is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from forebay.spark.source import ForebaySource as DefaultSource

__all__ = ["DefaultSource"]


def __getattr__(name: str) -> object:
    if name == "DefaultSource":
        try:
            from forebay.spark.source import ForebaySource  # noqa: PLC0415  see above
        except ImportError as error:
            raise AttributeError(f"{name}: {error}; install forebay[spark]") from error
        return ForebaySource
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
