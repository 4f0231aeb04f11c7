"""Checks, once a session, whether Spark's workers can import forebay."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from forebay.core.errors import OptionError

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

# As text: a function of this module would be pickled by name, and the workers may lack the module.
PROBE: Final = """
def probe(_):
    import sys
    try:
        import forebay.spark.arrow.batches, forebay.spark.reading.reader
    except Exception as error:
        return sys.executable, f"{type(error).__name__}: {error}"
    return sys.executable, ""
"""
# The line with the reason, among the many lines of a JVM error.
REASON: Final = re.compile(r"[^\n]*(?:\w+Error: |PYTHON_VERSION_MISMATCH|error=\d)[^\n]*")
REASON_CHARACTERS_MAX: Final = 300

_good: set[tuple[str, str]] = set()


def check_workers(spark: SparkSession) -> None:
    """Raise OptionError if the workers' Python cannot import forebay, naming that Python, the reason and the remedy."""
    context = spark.sparkContext
    key = str(context.applicationId), str(context.pythonExec)
    if key in _good:
        return
    python, error = ask_worker(context)
    if error:
        raise OptionError(
            f"Spark's workers run {python}, which cannot import forebay: {error}. Install forebay[spark] for that "
            f"Python, or start with PYSPARK_PYTHON={sys.executable} in the environment, the Python of this program"
        )
    _good.add(key)


def ask_worker(context: SparkContext) -> tuple[str, str]:
    """Return the path of a worker's Python, and the error of importing forebay there; "" if it succeeds."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(PROBE, names)
    jvm: Any = context._jvm
    level = jvm.org.apache.logging.log4j.LogManager.getRootLogger().getLevel().toString()
    context.setLogLevel("OFF")  # Spark logs 150 lines about a worker that cannot start
    try:
        ((python, error),) = context.parallelize([None], 1).map(names["probe"]).collect()
    except (PySparkException, Py4JError) as failure:
        return str(context.pythonExec), reason_of(str(failure))
    finally:
        context.setLogLevel(level)
    return python, error


def reason_of(text: str) -> str:
    """Return the line of a long error text that gives the reason."""
    found = REASON.search(text.split("\n", 1)[-1]) or REASON.search(text)
    line = found[0] if found else text.strip().split("\n", 1)[0]
    return line.strip()[:REASON_CHARACTERS_MAX]
