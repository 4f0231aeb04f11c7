"""Creates a Spark session tuned for queues, on this machine or on a cluster."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from forebay.spark.home import prepare_home
from forebay.spark.java import prepare_java
from forebay.spark.setup.parallelism import ADDRESS, driver_answers
from forebay.spark.source import ForebaySource

# Sessions that a setting is for: all, also of Spark Connect; those that start a JVM here; those in local mode.
EVERYWHERE: Final = "everywhere"
OWN_JVM: Final = "own JVM"
LOCAL: Final = "local"

MIB: Final = 1 << 20
HEAP_MIB_MIN: Final = 1024
HEAP_MIB_MAX: Final = 8192  # blocks and Arrow batches are outside the heap; more only delays garbage collection
TASK_FAILURES_MAX: Final = 4
SENT: Final = "spark.submit.pyFiles"
PYTHON: Final = "spark.pyspark.python"  # the workers' Python; Spark reads this setting only in its own commands


@dataclass(frozen=True, slots=True)
class SparkSetting:
    """One of Spark's settings.

    value  "" if it depends on the machine: see `machine_settings`
    why    the reason, as in docs/how-to/spark-setup.md
    """

    name: str
    value: str
    where: str
    why: str


SETTINGS: Final = (
    SparkSetting("spark.sql.session.timeZone", "UTC", EVERYWHERE, "timestamps mean the same everywhere"),
    SparkSetting(
        "spark.sql.execution.arrow.pyspark.enabled", "true", EVERYWHERE, "`toPandas()` copies batches instead of rows"
    ),
    SparkSetting(
        "spark.python.unix.domain.socket.enabled",
        "true",
        OWN_JVM,
        "between the JVM and Python it takes 0.1 to 0.2 µs of CPU a row less than TCP",
    ),
    SparkSetting("spark.ui.showConsoleProgress", "false", OWN_JVM, "no progress bars in a program's output"),
    SparkSetting(
        "spark.sql.streaming.checkpointFileManagerClass",
        "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager",
        LOCAL,
        "a checkpoint on a local disk takes 30 ms a micro-batch instead of 60 to 130",
    ),
    SparkSetting(
        "spark.sql.shuffle.partitions",
        "",
        LOCAL,
        "the number of cores: with four times as many, a micro-batch that aggregates takes twice as long",
    ),
    SparkSetting("spark.driver.memory", "", LOCAL, "a quarter of the machine's memory, 1 GiB to 8 GiB"),
    SparkSetting("spark.driver.host", "127.0.0.1", LOCAL, "only Spark's web page is open to the network"),
    SparkSetting("spark.driver.bindAddress", "127.0.0.1", LOCAL, "the same"),
)


def session(
    master: str = "local[*]", app_name: str = "forebay", config: Mapping[str, object] | None = None
) -> SparkSession:
    """Return a session with `format("forebay")` registered: a new one, or the running one of this process.

    master  local[…], spark://…, yarn, k8s://…; or sc://… of a Spark Connect server
    config  Spark's own options, which override the tuned ones
    raises  OptionError if there is no suitable Java
    """
    given = {name: str(value) for name, value in (config or {}).items()}
    if master.startswith("sc://"):
        builder = SparkSession.builder.remote(master)
        settings = settings_for(EVERYWHERE)
    else:
        prepare_java()
        # By default the workers run the first python3 of the PATH, which may lack forebay and PySpark.
        os.environ.setdefault("PYSPARK_PYTHON", given.get(PYTHON, sys.executable))
        os.environ[ADDRESS] = driver_answers().path
        if master.startswith("local"):  # a cluster may need the archive that this home leaves out
            prepare_home()
        builder = SparkSession.builder.master(patient(master))
        settings = settings_for(EVERYWHERE, OWN_JVM)
        if master.startswith("local"):
            settings |= settings_for(LOCAL) | machine_settings(master)
    for name, value in (settings | given).items():
        builder = builder.config(name, value)
    made = builder.appName(app_name).getOrCreate()
    if SENT in given:
        # If Spark finds the source by itself, it does not send it the files for the workers.
        made.dataSource.register(ForebaySource)
    return made


def settings_for(*where: str) -> dict[str, str]:
    """Return the settings for these kinds of session that do not depend on the machine."""
    return {setting.name: setting.value for setting in SETTINGS if setting.where in where and setting.value}


def patient(master: str) -> str:
    """Return the master with Spark's usual number of attempts for a task: in local mode the default is one attempt.

    Then a killed worker, or a broken connection, costs a task and not the query.
    """
    return re.sub(r"^local(?:\[([0-9]+|\*)\])?$", lambda found: f"local[{found[1] or 1},{TASK_FAILURES_MAX}]", master)


def machine_settings(master: str) -> dict[str, str]:
    """Return the settings that depend on the machine, for a master in local mode."""
    threads = re.match(r"local\[([0-9]+)", master)
    cores = len(os.sched_getaffinity(0)) if master.startswith("local[*") else int(threads[1]) if threads else 1
    heap_mib = min(max(memory_octets() // 4 // MIB, HEAP_MIB_MIN), HEAP_MIB_MAX)
    return {"spark.sql.shuffle.partitions": str(cores), "spark.driver.memory": f"{heap_mib}m"}


def memory_octets(cgroup: Path = Path("/sys/fs/cgroup/memory.max")) -> int:
    """Return the machine's memory in bytes, or the container's limit if that is less."""
    whole = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    try:
        limit = cgroup.read_text(encoding="ascii").strip()
    except OSError:
        return whole
    return min(whole, int(limit)) if limit.isdigit() else whole
