"""Hides the traceback of errors that a user can fix.

A Python worker of Spark sends the traceback of every exception, and Spark shows all of it. The sentence that gives the
error would be the last of thirty lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from forebay.core.errors import ForebayError, PeerError

# PySpark reads this variable when it reports a worker's exception, after which the worker ends.
NO_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"


@contextmanager
def plainly() -> Iterator[None]:
    """Hide the traceback in a Spark worker if the body raises a ForebayError other than PeerError.

    Other errors may be bugs of forebay and keep their traceback.
    """
    try:
        yield
    except ForebayError as error:
        if not isinstance(error, PeerError) and is_worker():
            os.environ[NO_TRACEBACK] = "1"
        raise


def is_worker() -> bool:
    """Return whether Spark has started this process as `python -m pyspark.…`.

    Other programs' environments are not changed.
    """
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
