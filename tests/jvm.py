"""Options for every JVM that a test starts: a short session spends most of its time on starting."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

# Most of what a short session uses is Java's second compiler: without it, half.
OPTIONS: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
SETTINGS: Final = Path(__file__).with_name("spark_conf")


def prepare_jvms() -> None:
    """Set the options for this process and those it starts, unless the user has."""
    os.environ.setdefault("JAVA_TOOL_OPTIONS", OPTIONS)  # Java reads it wherever it is started
    os.environ.setdefault("SPARK_CONF_DIR", str(SETTINGS))  # and Spark this


def as_users_have_it() -> dict[str, str]:
    """This process's environment, for a Spark without the settings above."""
    return {name: value for name, value in os.environ.items() if name != "SPARK_CONF_DIR"}
