"""The command build_ext of setuptools: mypyc writes C, and `objects` compiles it."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any

from setuptools.command.build_ext import build_ext

from tools.native.compiler import Compiler
from tools.native.objects import Step, Store, make_all
from tools.native.progress import Progress
from tools.native.sources import Header, fill_literals, own_literals, own_numbers

GROUP = "forebay"
LIBRARY = "forebay__mypyc"
SHARED_FILE = f"__native_{GROUP}.c"
HEADERS = (f"__native_{GROUP}.h", f"__native_internal_{GROUP}.h")
PREFIX = "all_headers.h"  # what each C file begins with; the compiler reads it once
PRECOMPILED_PAYS = 4  # files of one level; below that, reading the headers costs less than compiling them
SLOWEST_LEVEL = "-O3"
SMALLEST_LEVEL = "-O1"


def cache_folder() -> Path:
    """Where objects are kept between builds: $FOREBAY_BUILD_CACHE, or a folder of the sources."""
    return Path(os.environ.get("FOREBAY_BUILD_CACHE") or "build/cache").resolve()


class Native:
    """The C that mypyc has written, on its way to one library and a shim for each module.

    modules  paths of the modules to compile
    fast  those of them that are compiled at the highest level
    folder  for everything that is made on the way
    """

    def __init__(self, modules: list[str], fast: set[str], folder: Path) -> None:
        self.folder = folder
        self.fast = {module_c_name(path) for path in fast}
        from mypyc.build import mypycify  # noqa: PLC0415  an sdist and metadata are made without mypy

        with Progress(f"mypyc writes C for {len(modules)} modules"):
            self.extensions: list[Any] = mypycify(
                ["--strict", *modules], group_name=GROUP, multi_file=True, target_dir=str(folder)
            )
        library = next(each for each in self.extensions if each.name == LIBRARY)
        self.sources = [Path(source) for source in library.sources]
        self.compiler = Compiler([*library.include_dirs, str(folder)])
        self.store = Store(cache_folder())
        self.debug = ["-g"] if os.environ.get("FOREBAY_DEBUG") == "1" else ["-g0"]

    def make(self, target: Path, shims: dict[Path, Path]) -> None:
        """Make the library, and the shims: C file → where the module goes."""
        texts = [(self.folder / name).read_text(encoding="utf-8") for name in HEADERS]
        steps = self.module_steps(Header(texts)) + self.runtime_steps()
        make_all("compiling", self.compiler, self.store, steps, self.runtime_key(), self.precompile)
        link = ["-shared", *self.compiler.link_flags]
        shim_steps = [
            Step(source, made, source.read_text(encoding="utf-8"), [*link, "-O0", "-g0"])
            for source, made in shims.items()
        ]
        make_all("linking", self.compiler, self.store, shim_steps)
        # Calls between modules go straight to each other, and not through a table that the loader could redirect.
        objects = [str(step.made) for step in steps]
        self.compiler.run([*link, "-Wl,-Bsymbolic", "-o", str(target), *objects])
        self.store.tidy()

    def level(self, source: Path) -> str:
        """How much the compiler does for a file."""
        return SLOWEST_LEVEL if source.stem in self.fast else SMALLEST_LEVEL

    def module_steps(self, header: Header) -> list[Step]:
        """One object a module, and one for what they share."""
        modules = sorted(path for path in self.sources if path.name.startswith(f"__native_{GROUP}_"))
        shared = self.folder / SHARED_FILE
        tables: dict[int, list[int]] = {}
        steps = []
        for path in modules:
            number = int(hashlib.sha256(path.name.encode()).hexdigest()[:12], 16)  # no neighbour changes it
            code, tables[number] = own_literals(own_numbers(path.read_text(encoding="utf-8")), number)
            path.write_text(code, encoding="utf-8")
            steps.append(self.step(path, code + header.part(code), self.level(path)))
        code = fill_literals(shared.read_text(encoding="utf-8"), {key: each for key, each in tables.items() if each})
        shared.write_text(code, encoding="utf-8")
        steps.append(self.step(shared, code + header.part(code), SMALLEST_LEVEL))
        return steps

    def runtime_steps(self) -> list[Step]:
        """mypyc's own library, in C."""
        runtime = [path for path in self.sources if not path.name.startswith(f"__native_{GROUP}")]
        return [
            Step(path, path.with_suffix(".o"), path.read_text(encoding="utf-8"), ["-c", SLOWEST_LEVEL, *self.debug])
            for path in runtime
        ]

    def step(self, path: Path, text: str, level: str) -> Step:
        return Step(path, path.with_suffix(".o"), text, ["-c", level, *self.debug], self.prefix(level))

    def prefix(self, level: str) -> Path:
        """The headers, under a name for each level: a precompiled header fits one level only."""
        path = self.folder / f"headers{level}" / PREFIX
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            path.write_text("".join(f'#include "../{name}"\n' for name in HEADERS), encoding="utf-8")
        return path

    def precompile(self, missing: list[Step]) -> None:
        """Compile the headers once for each level, where that pays."""
        if not self.compiler.is_gcc:
            return
        for level in (SLOWEST_LEVEL, SMALLEST_LEVEL):
            prefix = self.prefix(level)
            if sum(step.prefix == prefix for step in missing) >= PRECOMPILED_PAYS:
                made = f"{prefix}.gch"
                self.compiler.run(["-x", "c-header", "-c", level, *self.debug, str(prefix), "-o", made])

    def runtime_key(self) -> str:
        """What all objects depend on, beside their own text: mypyc's headers, by its version and librt's."""
        import librt  # noqa: PLC0415  like mypyc
        import mypy.version  # noqa: PLC0415

        version = getattr(librt, "__version__", "") or Path(librt.__file__ or "").stat().st_size
        return f"mypyc {mypy.version.__version__} librt {version}"


def module_c_name(path: str) -> str:
    """Name of the C file, without its ending, that mypyc writes for src/forebay/a/b.py."""
    parts = Path(path).with_suffix("").parts
    return f"__native_{'___'.join(parts[parts.index('forebay') :])}"


def build_command(modules: list[str], fast: set[str]) -> type[build_ext]:
    """The command that builds these modules."""

    class BuildNative(build_ext):
        """Builds what mypyc writes; setuptools knows only where each file goes."""

        def run(self) -> None:
            """Make everything in the temporary folder, then put it to its place."""
            temporary = Path(self.build_temp).resolve()
            shutil.rmtree(
                temporary, ignore_errors=True
            )  # the compiler takes a precompiled header as it is, however old
            temporary.mkdir(parents=True)
            native = Native(modules, fast, temporary)
            self.extensions = native.extensions
            shims = {}
            library = Path()
            for extension in native.extensions:
                made = Path(self.get_ext_fullpath(extension.name)).resolve()
                made.parent.mkdir(parents=True, exist_ok=True)
                if extension.name == LIBRARY:
                    library = made
                else:
                    shims[Path(extension.sources[0])] = made
            native.make(library, shims)

    return BuildNative
