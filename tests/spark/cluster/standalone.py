"""A standalone cluster of Spark on loopback: a master and workers, each a JVM of its own that starts executors.

Each worker has a Python environment, a working folder and a folder for its executors of its own. The environments have
what any cluster has that runs Python: PySpark, PyArrow, NumPy, and nothing else.
"""

from __future__ import annotations

import os
import signal
import subprocess
import venv
from pathlib import Path

import numpy as np
import py4j  # type: ignore[import-untyped]
import pyarrow as pa
import pyspark

from forebay.spark.java import find_java
from tests.broker_process import free_port
from tests.waiting import until

SPARK_CLASS = Path(pyspark.__file__).parent / "bin" / "spark-class"
START_S_MAX = 300  # guards against a hang
EXECUTOR = "CoarseGrainedExecutorBackend"
PACKAGES = (pyspark, py4j, pa, np)
NOT_OF_WORKERS = {"PYTHONPATH", "JAVA_HOME", "PYSPARK_PYTHON", "VIRTUAL_ENV"}


def make_environment(folder: Path) -> Path:
    """A Python environment with PACKAGES only; the folder of its commands."""
    venv.create(folder, symlinks=True, with_pip=False)
    (site,) = folder.glob("lib/python*/site-packages")
    for package in PACKAGES:
        source = Path(str(package.__file__)).parent
        for each in (source, source.with_name(f"{source.name}.libs")):
            if each.exists():
                (site / each.name).symlink_to(each)
    return folder / "bin"


class Cluster:
    """One master and workers of one core, all of it in `folder`."""

    def __init__(self, folder: Path, workers: int) -> None:
        self.folder = folder
        self.java = find_java(os.environ)
        self.port = free_port()
        self.master = f"spark://127.0.0.1:{self.port}"
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        folder.mkdir()
        self._start("master", "org.apache.spark.deploy.master.Master", "--port", str(self.port))
        for _ in range(workers):
            self.add_worker()
        self.wait_for_workers(workers)

    def add_worker(self) -> str:
        """Its name; it comes to the master when it has started."""
        name = f"worker-{len(self.processes) - 1}"
        limits = ("--cores", "1", "--memory", "1g", "--work-dir", str(self.folder / name / "executors"))
        commands = make_environment(self.folder / name / "python")
        self._start(name, "org.apache.spark.deploy.worker.Worker", *limits, self.master, path=f"{commands}{os.pathsep}")
        return name

    def wait_for_workers(self, count: int) -> None:
        """Until the master knows as many, those that are gone included."""
        until(
            lambda: self.log("master").count("Registering worker") >= count,
            lambda: self.log("master"),
            seconds=START_S_MAX,
        )

    def _start(self, name: str, kind: str, *arguments: str, path: str = "") -> None:
        command = [str(SPARK_CLASS), kind, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        environment = {key: value for key, value in os.environ.items() if key not in NOT_OF_WORKERS}
        environment |= {"SPARK_DAEMON_MEMORY": "256m", "JAVA_HOME": self.java, "SPARK_LOCAL_IP": "127.0.0.1"}
        environment["PATH"] = path + environment["PATH"]
        here = self.folder / name
        here.mkdir(exist_ok=True)
        with (here / "log").open("wb") as log:
            # In a session of its own, so that nothing of it is left at the end.
            self.processes[name] = subprocess.Popen(
                command, cwd=here, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True
            )

    def log(self, name: str) -> str:
        """What the master or a worker printed."""
        return (self.folder / name / "log").read_text(encoding="utf-8", errors="replace")

    def executors(self) -> list[int]:
        """Process ids of the executors that run, in the order of their workers."""
        found: list[int] = []
        for process in self.processes.values():
            found += [pid for pid in children(process.pid) if EXECUTOR in command_of(pid)]
        return found

    def wait_for_executors(self, count: int) -> list[int]:
        """As many executors as that, or more."""
        until(
            lambda: len(self.executors()) >= count,
            lambda: f"{count} executors: {self.log('master')}",
            seconds=START_S_MAX,
        )
        return self.executors()

    def kill_worker(self, name: str) -> None:
        """SIGKILL a worker and all that it started."""
        process = self.processes[name]
        for pid in [*children(process.pid), process.pid]:
            os.kill(pid, signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        """End everything."""
        for process in self.processes.values():
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
