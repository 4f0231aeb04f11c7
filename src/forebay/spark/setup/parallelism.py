"""The number of tasks that run at once, made available to the process that plans a read.

Spark plans a read in a Python process that has neither the session nor the number of a cluster's cores. So a thread
of the driver serves the current `defaultParallelism` at a Unix socket, whose path is in the environment. If no driver
serves it (a session that forebay did not create, a server of Spark Connect), the number of the machine's cores is used.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import threading
import weakref
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ADDRESS: Final = "PYSPARK_FOREBAY_DRIVER"  # not FOREBAY_…: a broker started by this process would take it for an option
ANSWER_S_MAX: Final = 5.0  # the driver gets the number from its JVM, which may be busy
ANSWER_OCTETS_MAX: Final = 32


class Answers:
    """A Unix socket server that answers each connection with a number, or with nothing if there is none."""

    def __init__(self, ask: Callable[[], int]) -> None:
        folder = tempfile.mkdtemp(prefix="forebay-")  # accessible to this user only
        self.path = str(Path(folder) / "driver")
        self._ask = ask
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen()
        self.close = weakref.finalize(self, end, self._socket, folder)
        threading.Thread(target=self.serve, name="forebay-parallelism", daemon=True).start()

    def serve(self) -> None:
        """Accept and answer connections until the socket is closed. Runs in the thread."""
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            with connection:
                connection.settimeout(ANSWER_S_MAX)
                answer(connection, self._ask)


def answer(connection: socket.socket, ask: Callable[[], int]) -> None:
    """Send the number that `ask` returns. Send nothing if the session has ended or the peer is gone."""
    try:
        connection.sendall(b"%d" % ask())
    except Exception:  # noqa: BLE001  py4j's errors have no common base; without an answer the peer uses a default
        return


def end(listener: socket.socket, folder: str) -> None:
    listener.close()
    shutil.rmtree(folder, ignore_errors=True)


@cache
def driver_answers() -> Answers:
    """Return this process's server, which answers for the one Spark context active at a time."""
    return Answers(parallelism_of_context)


def parallelism_of_context() -> int:
    """Return `defaultParallelism` of the active Spark context. Raises AssertionError if there is none."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None, "no session"
    return context.defaultParallelism


def cores_of(spark: SparkSession) -> int:
    """Return the number of tasks that a session's cluster runs at once.

    For Spark Connect, return this machine's number of cores.
    """
    from pyspark.sql import is_remote

    return len(os.sched_getaffinity(0)) if is_remote() else spark.sparkContext.defaultParallelism


def tasks_at_once() -> int:
    """Return the number of tasks that the cluster runs at once, as its driver reports it.

    Without a driver's answer, return this machine's number of cores.
    """
    path = os.environ.get(ADDRESS)
    if path:
        try:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.settimeout(ANSWER_S_MAX)
                connection.connect(path)
                said = connection.recv(ANSWER_OCTETS_MAX)
        except OSError:
            said = b""
        if said.isdigit() and int(said) > 0:
            return int(said)
    return len(os.sched_getaffinity(0))
