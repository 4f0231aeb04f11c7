"""A standalone cluster of Spark on loopback: a master and workers, each a JVM of its own that starts executors."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pyspark

from forebay.spark.java import find_java
from tests.broker_process import free_port
from tests.waiting import until

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
START_S_MAX = 300  # guards against a hang
EXECUTOR = "CoarseGrainedExecutorBackend"


class Cluster:
    """One master and workers of one core, with their logs and executors' folders in `folder`.

    environment  of the workers, and so of the executors' Python
    """

    def __init__(self, folder: Path, workers: int, environment: dict[str, str]) -> None:
        self.folder = folder
        small = {"SPARK_DAEMON_MEMORY": "256m", "JAVA_HOME": find_java(os.environ), "SPARK_LOCAL_IP": "127.0.0.1"}
        self.environment = {**environment, **small}
        self.port = free_port()
        self.master = f"spark://127.0.0.1:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []
        folder.mkdir()
        self._start("master", "org.apache.spark.deploy.master.Master", "--port", str(self.port))
        for number in range(workers):
            work = folder / f"worker-{number}"
            limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(work))
            self._start(work.name, "org.apache.spark.deploy.worker.Worker", *limits, self.master)
        until(
            lambda: self.log("master").count("Registering worker") >= workers,
            lambda: self.log("master"),
            seconds=START_S_MAX,
        )

    def _start(self, name: str, kind: str, *arguments: str) -> None:
        command = [str(SPARK_CLASS), kind, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        with (self.folder / f"{name}.log").open("wb") as log:
            # In a session of its own, so that nothing of it is left at the end.
            process = subprocess.Popen(
                command, stdout=log, stderr=subprocess.STDOUT, env=self.environment, start_new_session=True
            )
        self.processes.append(process)

    def log(self, name: str) -> str:
        """What the master or a worker printed."""
        return (self.folder / f"{name}.log").read_text(encoding="utf-8", errors="replace")

    def executors(self) -> list[int]:
        """Process ids of the executors that run, in the order of their workers."""
        found: list[int] = []
        for process in self.processes[1:]:
            for pid in children(process.pid):
                if EXECUTOR in command_of(pid):
                    found.append(pid)
        return found

    def wait_for_executors(self, count: int) -> list[int]:
        """As many executors as that, or more."""
        until(
            lambda: len(self.executors()) >= count,
            lambda: f"{count} executors: {self.log('master')}",
            seconds=START_S_MAX,
        )
        return self.executors()

    def kill_worker(self, number: int) -> None:
        """SIGKILL a worker and all that it started."""
        process = self.processes[1 + number]
        for pid in [*children(process.pid), process.pid]:
            os.kill(pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End everything."""
        for process in self.processes:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
            process.wait()


def children(parent: int) -> list[int]:
    """Processes that a process has started and that run."""
    found: list[int] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):  # it has ended
            continue
        if int(fields[1]) == parent and fields[0] != "Z":
            found.append(int(folder.name))
    return found


def command_of(pid: int) -> str:
    """Its command line; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""
