"""The number of tasks that run at once, known where a read is planned.

Spark plans in a process of Python that has neither the session nor the number of cores of a cluster. So the driver
answers there: a thread that says `defaultParallelism` as it is just then, at a Unix socket whose path is in the
environment. Where nobody answers (a session of somebody else's, a server of Spark Connect), it is the cores of the
driver's machine.
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

ADDRESS: Final = "PYSPARK_FOREBAY_DRIVER"  # not FOREBAY_…, which is an option of a broker that this process starts
ANSWER_S_MAX: Final = 5.0  # the driver asks its JVM, which may be busy
ANSWER_OCTETS_MAX: Final = 32


class Answers:
    """Answers each connection with a number, or with nothing where there is none."""

    def __init__(self, ask: Callable[[], int]) -> None:
        folder = tempfile.mkdtemp(prefix="forebay-")  # for this user only
        self.path = str(Path(folder) / "driver")
        self._ask = ask
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.bind(self.path)
        self._socket.listen()
        self.close = weakref.finalize(self, end, self._socket, folder)
        threading.Thread(target=self.serve, name="forebay-parallelism", daemon=True).start()

    def serve(self) -> None:
        """The thread."""
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:  # closed
                return
            with connection:
                connection.settimeout(ANSWER_S_MAX)
                answer(connection, self._ask)


def answer(connection: socket.socket, ask: Callable[[], int]) -> None:
    """Say what `ask` says; nothing where the session has ended, or whoever asked is gone."""
    try:
        connection.sendall(b"%d" % ask())
    except Exception:  # noqa: BLE001  py4j's errors have no common base; the asker does without
        return


def end(listener: socket.socket, folder: str) -> None:
    listener.close()
    shutil.rmtree(folder, ignore_errors=True)


@cache
def driver_answers() -> Answers:
    """The answers of this process, for its one Spark context at a time."""
    return Answers(parallelism_of_context)


def parallelism_of_context() -> int:
    """`defaultParallelism` of the context that is active; an error where there is none."""
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    assert context is not None, "no session"
    return context.defaultParallelism


def cores_of(spark: SparkSession) -> int:
    """The number of tasks that the cluster of a session runs at once; the cores of this machine of Spark Connect."""
    from pyspark.sql import is_remote

    return len(os.sched_getaffinity(0)) if is_remote() else spark.sparkContext.defaultParallelism


def tasks_at_once() -> int:
    """The number of tasks that the cluster runs at once, by its driver, else by the cores of this machine."""
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
