"""The C compiler that builds for this Python; as a program, this module says what is missing, and exits with 1."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

USUAL = ("cc", "gcc", "clang")
HEADERS_PACKAGE = f"python{sys.version_info[0]}.{sys.version_info[1]}-dev"  # of Debian and what is made of it
# What it means to do without; docs/how-to/install.md has the figures.
SLOWER = "it behaves the same, and takes 4 to 10 times the CPU for a message."
NO_WARNINGS = "-w"  # of generated C; a compiler of tomorrow must not refuse it


class Compiler:
    """The C compiler $CC, or the one that this Python was built with, or the first of the usual names that runs.

    CompilerMissing where it cannot be run, or does not find the headers.
    """

    def __init__(self, includes: list[str]) -> None:
        known = sysconfig.get_config_vars()
        self.command, told = find_compiler(str(known.get("CC") or ""))
        self.link_flags = shlex.split(str(known.get("LDSHARED") or "cc -shared"))[1:]
        self.flags = ["-fPIC", "-DNDEBUG", "-fwrapv", NO_WARNINGS, *shlex.split(os.environ.get("CFLAGS", ""))]
        self.includes = [*includes, *{sysconfig.get_path("include"), sysconfig.get_path("platinclude")}]
        self.version = told.partition("\n")[0]
        self.is_gcc = "clang" not in told.lower() and "Free Software Foundation" in told
        self.check_headers()

    def check_headers(self) -> None:
        """CompilerMissing unless a file with the headers of C and one with Python's compile."""
        if not self.compiles("#include <stdlib.h>\n"):
            text = f"the headers of C: {self.command[0]} runs, and does not find stdlib.h.  apt-get install libc6-dev"
            raise CompilerMissing(text)
        if not self.compiles("#include <Python.h>\n"):
            raise CompilerMissing(f"the headers of Python: {python_header()}.  apt-get install {HEADERS_PACKAGE}")

    def compiles(self, code: str) -> bool:
        """Whether the compiler takes this."""
        try:
            self.run(["-x", "c", "-fsyntax-only", "-"], given=code)
        except CompileFailed:
            return False
        return True

    def run(self, arguments: list[str], given: str | None = None) -> None:
        """Run it with the flags that all files have; CompileFailed with what it printed."""
        command = [*self.command, *self.flags, *(f"-I{each}" for each in self.includes), *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileFailed(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")


class CompilerMissing(Exception):
    """There is no C compiler, or it does not find the headers of C or Python."""


class CompileFailed(Exception):
    """The compiler refused a file; the text is its own."""


def python_header() -> Path:
    """Where the header of this Python is, or should be."""
    return Path(sysconfig.get_path("include")) / "Python.h"


def find_compiler(of_python: str) -> tuple[list[str], str]:
    """Command of the compiler, and what it says about its version.

    of_python  the command with which this Python was built
    """
    asked = os.environ.get("CC")
    commands = [shlex.split(each) for each in ((asked,) if asked else (of_python, *USUAL)) if each]
    for command in commands:
        try:
            done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        return command, done.stdout
    if asked:
        raise CompilerMissing(f"the C compiler that CC names: {asked!r} does not run")
    names = ", ".join(dict.fromkeys(command[0] for command in commands))
    headers = "" if python_header().exists() else f" {HEADERS_PACKAGE}"
    raise CompilerMissing(f"a C compiler: none of {names} runs.  apt-get install gcc libc6-dev{headers}")


if __name__ == "__main__":
    try:
        Compiler([])
    except CompilerMissing as error:
        print(error)
        sys.exit(1)
