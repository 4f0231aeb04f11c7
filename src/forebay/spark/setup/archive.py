"""Builds an archive for `--py-files` with the modules of forebay that executors import.

    python -m forebay.spark.setup.archive forebay-spark.zip

With the archive, forebay need not be installed where executors run. The archive is pure Python: it runs with any Python
from 3.11 on that has PySpark, PyArrow and NumPy. Other compiled packages that forebay uses (crc32c, librt, msgspec,
mypy_extensions) are used where they are installed. The archive has stand-ins for them, which are slow: workers that
have crc32c read faster.
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

# Modules from which imports are followed: those that Spark pickles by reference, and the one it finds by its name.
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
# Packages that the executors' Python must have.
NEEDED: Final = frozenset({"numpy", "py4j", "pyarrow", "pyspark"})
EPOCH: Final = (1980, 1, 1, 0, 0, 0)  # date of every file in the archive, so that equal sources give equal archives
# Appended to the path, so that installed packages take precedence over stand-ins.
PATH: Final = f"""
import sys

sys.path.append(__path__[0] + "/{"/".join(STANDINS.split(".")[1:])}")
"""


def build(path: Path) -> list[str]:
    """Write the archive, and return the names of the modules in it."""
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
    """Return the modules of this package that the roots import, directly or indirectly, with their files.

    Imports inside functions count too.
    """
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
    """Return the source file of a module of this package, or None if `name` is anything else."""
    top = Path(forebay.__file__).parent.parent
    if name.partition(".")[0] not in {"forebay", "pyspark_forebay"}:
        return None
    package = top.joinpath(*name.split("."))
    return next((file for file in (package / "__init__.py", package.with_suffix(".py")) if file.exists()), None)


def imports_of(node: ast.AST) -> Iterator[str]:
    """Yield the names that a module imports at run time, not those for type checkers.

    `from a import b` gives a and a.b.
    """
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
    """Write the archive to the path on the command line."""
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "forebay-spark.zip")
    count = len(build(path))
    sys.stdout.write(f"{path}: {count} modules, {path.stat().st_size:,} octets; it needs {', '.join(sorted(NEEDED))}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
