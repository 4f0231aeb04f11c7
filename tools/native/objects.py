"""Objects and libraries by the C compiler, on all cores, each kept under a key of all that it is made from."""

from __future__ import annotations

import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

KEPT_DAYS = 30
DAY_S = 24 * 3600
NOTE_EVERY_S = 10  # where no terminal shows a line that moves
NO_WARNINGS = "-w"  # of generated C; a compiler of tomorrow must not refuse it


class Compiler:
    """The C compiler that this Python was built with, or $CC.

    CompilerMissing where it cannot be run.
    """

    def __init__(self, includes: list[str]) -> None:
        known = sysconfig.get_config_vars()
        self.command = shlex.split(os.environ.get("CC") or str(known.get("CC") or "cc"))
        self.link_flags = shlex.split(str(known.get("LDSHARED") or "cc -shared"))[1:]
        self.flags = ["-fPIC", "-DNDEBUG", "-fwrapv", NO_WARNINGS, *shlex.split(os.environ.get("CFLAGS", ""))]
        self.includes = [*includes, *{sysconfig.get_path("include"), sysconfig.get_path("platinclude")}]
        try:
            told = subprocess.run([*self.command, "--version"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise CompilerMissing(f"the C compiler {self.command[0]!r} does not run: {error}") from None
        self.version = told.stdout.partition("\n")[0]
        self.is_gcc = "clang" not in told.stdout.lower() and "Free Software Foundation" in told.stdout
        self.check_headers()

    def check_headers(self) -> None:
        """CompilerMissing unless a file with Python.h compiles."""
        try:
            self.run(["-x", "c", "-fsyntax-only", "-"], given="#include <Python.h>\n")
        except CompileFailed:
            include = sysconfig.get_path("include")
            raise CompilerMissing(f"the C compiler works, but the headers of Python are not in {include}") from None

    def run(self, arguments: list[str], given: str | None = None) -> None:
        """Run it with the flags that all files have; CompileFailed with what it printed."""
        command = [*self.command, *self.flags, *(f"-I{each}" for each in self.includes), *arguments]
        done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompileFailed(f"{shlex.join(command)}\n{done.stdout}{done.stderr}")


class CompilerMissing(Exception):
    """There is no C compiler, or it does not find Python's headers."""


class CompileFailed(Exception):
    """The compiler refused a file; the text is its own."""


class Step:
    """One file to make.

    source  the C file, compiled as it is
    made  where the object goes
    key_text  all of the source's text and of its headers that matters
    flags  those of this file alone
    prefix  a header that the source begins with; what of it matters is in `key_text`
    """

    def __init__(self, source: Path, made: Path, key_text: str, flags: list[str], prefix: Path | None = None) -> None:
        self.source = source
        self.made = made
        self.key_text = key_text
        self.flags = flags
        self.prefix = prefix
        self.weight = source.stat().st_size


class Store:
    """Objects of earlier builds, by key, in one folder; those that nobody has used for a month go."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def take(self, key: str, target: Path) -> bool:
        """Put the object of this key to its place, if it is here."""
        kept = self.folder / key
        try:
            shutil.copyfile(kept, target)
            os.utime(kept)
        except FileNotFoundError:
            return False
        return True

    def keep(self, key: str, made: Path) -> None:
        """Keep an object; it appears whole or not at all."""
        part = self.folder / f"{key}.{os.getpid()}.part"
        shutil.copyfile(made, part)
        part.replace(self.folder / key)

    def tidy(self) -> None:
        """Remove what nobody has used for a month."""
        oldest = time.time() - KEPT_DAYS * DAY_S
        for kept in self.folder.iterdir():
            if kept.stat().st_mtime < oldest:
                kept.unlink(missing_ok=True)


class Progress:
    """One line that moves on a terminal; elsewhere a line every ten seconds."""

    def __init__(self, doing: str, files: int, weight: int) -> None:
        self.doing = doing
        self.files = files
        self.weight = max(weight, 1)
        self.files_done = 0
        self.weight_done = 0
        self.begun = time.monotonic()
        self.noted = self.begun
        self.moves = sys.stderr.isatty()

    def done(self, weight: int) -> None:
        """One more file is compiled."""
        self.files_done += 1
        self.weight_done += weight
        now = time.monotonic()
        left_s = (now - self.begun) * (self.weight - self.weight_done) / self.weight_done
        text = f"{self.doing}: {self.files_done} of {self.files} files, about {left_s:.0f} s left"
        if self.moves:
            end = "\n" if self.files_done == self.files else ""
            print(f"\r  {text}   ", end=end, file=sys.stderr, flush=True)
        elif now - self.noted >= NOTE_EVERY_S or self.files_done == self.files:
            self.noted = now
            print(f"  {text}", file=sys.stderr, flush=True)


def key_of(compiler: Compiler, step: Step, common: str) -> str:
    """The name under which an object is kept: it changes when anything changes that the object is made from."""
    parts = [compiler.version, sys.version, *compiler.command, *compiler.flags, *step.flags, common, step.key_text]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()


def make_all(
    doing: str,
    compiler: Compiler,
    store: Store,
    steps: list[Step],
    common: str = "",
    before: Callable[[list[Step]], None] | None = None,
) -> int:
    """Make every file that the store does not have, the longest first; how many those were.

    doing  a word for it, for the line of progress
    common  the text of headers that all files see whole
    before  called with the steps that must be compiled, before the first is
    """
    keys = {step: key_of(compiler, step, common) for step in steps}
    missing = [step for step in steps if not store.take(keys[step], step.made)]
    if not missing:
        return 0
    if before is not None:
        before(missing)
    missing.sort(key=lambda step: -step.weight)
    progress = Progress(doing, len(missing), sum(step.weight for step in missing))

    def make(step: Step) -> Step:
        prefix = [] if step.prefix is None else ["-include", str(step.prefix)]
        compiler.run([*step.flags, *prefix, "-o", str(step.made), str(step.source)])
        store.keep(keys[step], step.made)
        return step

    pool = ThreadPoolExecutor(cores())
    try:
        for done in as_completed([pool.submit(make, step) for step in missing]):
            progress.done(done.result().weight)
    finally:
        pool.shutdown(cancel_futures=True)  # one that failed ends the build: the others would be for nothing
    return len(missing)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
