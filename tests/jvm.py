"""Options for every JVM that a test starts: a short session spends most of its time on starting."""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

import pyspark

from forebay.spark.home import find_home
from forebay.spark.java import find_java

ROOT: Final = Path(__file__).parents[1]
# Most of what a short session uses is Java's second compiler: without it, half. And no word about an archive that does
# not fit, as that of Spark's classes does not fit its launcher, whose output is a command.
OPTIONS: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xlog:disable")
# Queries of a few rows spend most of their time on being compiled and planned anew. As options of Java, since with a
# folder of settings in front of Spark's classes there could be no archive of these.
SETTINGS: Final = (
    "-Dspark.sql.codegen.wholeStage=false",
    "-Dspark.sql.codegen.factoryMode=NO_CODEGEN",
    "-Dspark.sql.adaptive.enabled=false",
    "-Dspark.ui.enabled=false",
)
VARIABLE: Final = "JAVA_TOOL_OPTIONS"  # Java reads it wherever it is started
ARCHIVES: Final = ROOT / "build" / "tests"
MAKE_S_MAX: Final = 200  # it takes 20 s of CPU; on a machine that is busier than that, tests start without
SHARED: Final = "-XX:SharedArchiveFile="


def prepare_jvms() -> None:
    """Set the options for this process and those it starts, unless the user has."""
    os.environ.setdefault(VARIABLE, " ".join((*OPTIONS, *SETTINGS)))


def as_users_have_it() -> dict[str, str]:
    """This process's environment, for a Spark without the settings above."""
    options = [option for option in os.environ.get(VARIABLE, "").split() if option not in SETTINGS]
    return {**os.environ, VARIABLE: " ".join(options)}


def share_classes() -> None:
    """Have the JVMs that start from now on find Spark's classes parsed and verified, which is half of a start.

    They are in an archive of Java's, which one process of tests makes; others do without as long as it is at that.
    """
    options = os.environ[VARIABLE]
    if OPTIONS[0] in options and SHARED not in options and (archive := archive_of_classes()) is not None:
        os.environ[VARIABLE] = f"{options} {SHARED}{archive}"


def archive_of_classes() -> Path | None:
    """The archive, made if need be; None where that takes too long, or another process is at it.

    Java looks for itself whether it fits its version and class path, and does without where it does not.
    """
    parts = [find_java(os.environ), str(pyspark.__file__), pyspark.__version__, find_home(os.environ)]
    archive = ARCHIVES / f"spark-{hashlib.sha256(chr(0).join(parts).encode()).hexdigest()[:16]}.jsa"
    if archive.exists():
        return archive
    ARCHIVES.mkdir(parents=True, exist_ok=True)
    with archive.with_suffix(".lock").open("a") as tried:
        try:
            fcntl.flock(tried, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return None
        if archive.exists():
            return archive
        if tried.tell():  # somebody has tried, and it took too long
            return None
        # A JVM that was given up may still be writing: each try has a file of its own.
        made = archive.with_suffix(f".{os.getpid()}")
        command = [sys.executable, "-m", "tests.jvm_training", str(made)]
        try:
            done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=MAKE_S_MAX, check=False)
        except subprocess.TimeoutExpired:
            tried.write("took too long\n")
            return None
        assert done.returncode == 0, done.stderr
        made.rename(archive)
    return archive
