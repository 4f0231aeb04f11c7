"""An archive for `--py-files`: of forebay what executors import, so that it need not be installed where they run.

    python -m forebay.spark.setup.archive forebay-spark.zip

It is pure: it runs with any Python from 3.11 on that has PySpark, PyArrow and NumPy. The compiled packages that
forebay uses beside these (crc32c, librt, msgspec, mypy_extensions) are taken where they are installed, and have
stand-ins in the archive otherwise: slow ones, so workers that have crc32c read faster.
"""

from __future__ import annotations

import ast
import importlib.util
import sys
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import forebay

# Where imports are followed from: all that Spark is sent by reference, and finds by itself.
ROOTS: Final = (
    "pyspark_forebay",
    "forebay.spark.source",
    "forebay.spark.filters.columns",
    "forebay.spark.formats.avro",
    "forebay.spark.formats.protobuf",
    "forebay.spark.jobs.audit",
    "forebay.spark.jobs.letters",
    "forebay.spark.jobs.publishing",
    "forebay.spark.jobs.replay",
    "forebay.spark.jobs.tier_source",
    "forebay.spark.reading.direct",
    "forebay.spark.tables.compaction",
)
STANDINS: Final = "forebay.spark.setup.standins"
# Packages that the Python of an executor must have besides.
NEEDED: Final = frozenset({"numpy", "py4j", "pyarrow", "pyspark"})
EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # of every file in the archive: the same sources give the same octets
# Behind the path that there is, so that what is installed goes before it.
PATH: Final = f"""
import sys

sys.path.append(__path__[0] + "/{"/".join(STANDINS.split(".")[1:])}")
"""


def build(path: Path) -> list[str]:
    """Write the archive; the names of the modules in it."""
    modules = closure(ROOTS)
    standins = Path(source_of(STANDINS) or "").parent
    for file in standins.rglob("*.py"):
        name = ".".join([STANDINS, *file.relative_to(standins).with_suffix("").parts])
        modules[name.removesuffix(".__init__")] = file
    extensions = importlib.util.find_spec("mypy_extensions")
    assert extensions is not None and extensions.origin is not None, "forebay needs it"
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in sorted(modules.items()):
            text = file.read_text(encoding="utf-8")
            place = name.replace(".", "/") + ("/__init__.py" if file.name == "__init__.py" else ".py")
            add(archive, place, text + PATH if name == "forebay" else text)
        add(archive, f"{STANDINS.replace('.', '/')}/mypy_extensions.py", Path(extensions.origin).read_text("utf-8"))
    return sorted(modules)


def add(archive: zipfile.ZipFile, place: str, text: str) -> None:
    archive.writestr(zipfile.ZipInfo(place, EPOCH), text, zipfile.ZIP_DEFLATED)


def closure(roots: Iterable[str]) -> dict[str, Path]:
    """The modules of this package that these import, at once or when they are called, and their files."""
    found: dict[str, Path] = {}
    left = list(roots)
    while left:
        name = left.pop()
        file = source_of(name)
        if name in found or file is None:
            continue
        found[name] = file
        left += [name.rpartition(".")[0], *imports_of(ast.parse(file.read_text(encoding="utf-8")))]
    return found


def source_of(name: str) -> Path | None:
    """The source of a module of this package; None for all else, such as a name in a module."""
    top = Path(forebay.__file__).parent.parent
    if name.partition(".")[0] not in {"forebay", "pyspark_forebay"}:
        return None
    package = top.joinpath(*name.split("."))
    return next((file for file in (package / "__init__.py", package.with_suffix(".py")) if file.exists()), None)


def imports_of(node: ast.AST) -> Iterator[str]:
    """The names that a module imports when it runs, not those for a type checker; `from a import b` is a and a.b."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.Import):
            yield from [each.name for each in part.names]
        elif isinstance(part, ast.ImportFrom) and part.module is not None:
            yield part.module
            yield from [f"{part.module}.{each.name}" for each in part.names]
        elif isinstance(part, ast.If) and isinstance(part.test, ast.Name) and part.test.id == "TYPE_CHECKING":
            yield from [name for other in part.orelse for name in imports_of(other)]
        else:
            yield from imports_of(part)


def main() -> int:
    """Write the archive to the path of the command line."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "forebay-spark.zip")
    count = len(build(path))
    sys.stdout.write(f"{path}: {count} modules, {path.stat().st_size:,} octets; it needs {', '.join(sorted(NEEDED))}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
