"""Errors that a user can mend, said without the code that they came through.

A Python worker of Spark sends the traceback of whatever is raised in it, and Spark shows all of it. The sentence that
says what is wrong is then the last of thirty lines.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from forebay.core.errors import ForebayError, PeerError

# PySpark looks there when it writes down what a worker fails by; it ends the worker after that.
NO_TRACEBACK: Final = "SPARK_HIDE_TRACEBACK"


@contextmanager
def plainly() -> Iterator[None]:
    """Errors of ours leave a worker as one sentence; those that may be a mistake of ours keep their traceback."""
    try:
        yield
    except ForebayError as error:
        if not isinstance(error, PeerError) and is_worker():
            os.environ[NO_TRACEBACK] = "1"
        raise


def is_worker() -> bool:
    """True in a process that Spark has started as `python -m pyspark.…`: a program's own environment stays as it is."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name.startswith("pyspark.")
