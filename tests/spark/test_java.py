"""Spark where no Java is installed: a session on the Java of PyPI."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

RUN_S_MAX = 900  # a guard against a hang
SESSION = """
from forebay.spark import session

spark = session("local[1]", config={"spark.ui.enabled": "false"})
version = spark._jvm.java.lang.System.getProperty("java.version")
print("Java", version, "counted", spark.sql("SELECT count(*) FROM range(7)").first()[0])
spark.stop()
"""


@pytest.mark.timeout(RUN_S_MAX)
def test_a_session_on_the_java_of_pypi(no_java: dict[str, str]) -> None:
    done = subprocess.run([sys.executable, "-c", SESSION], env=no_java, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = done.stdout.split()
    assert said[2:] == ["counted", "7"]
    assert int(said[1].split(".")[0]) >= 17
    assert any(Path(no_java["XDG_CACHE_HOME"]).glob("forebay/java-*/bin/java"))
