"""Objects and libraries by the C compiler, on all cores, each kept under a key of all that it is made from."""

from __future__ import annotations

import hashlib
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from tools.native.compiler import Compiler
from tools.native.progress import Progress

KEPT_DAYS = 30
DAY_S = 24 * 3600


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

    def make(step: Step) -> Step:
        prefix = [] if step.prefix is None else ["-include", str(step.prefix)]
        compiler.run([*step.flags, *prefix, "-o", str(step.made), str(step.source)])
        store.keep(keys[step], step.made)
        return step

    pool = ThreadPoolExecutor(cores())
    try:
        with Progress(doing, len(missing), sum(step.weight for step in missing)) as progress:
            for done in as_completed([pool.submit(make, step) for step in missing]):
                progress.done(done.result().weight)
    finally:
        pool.shutdown(cancel_futures=True)  # one that failed ends the build: the others would be for nothing
    return len(missing)


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))
