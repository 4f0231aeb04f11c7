"""List the short modules that one other module imports: candidates to go home to it.

python tools/small_modules.py [LINES] [FOLDER]
"""

from __future__ import annotations

import ast
import sys
from collections import defaultdict
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src"
LINES_MAX = 60


def name_of(path: Path) -> str:
    """Return the dotted name of a module."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def importers(paths: list[Path]) -> dict[str, set[str]]:
    """Return the modules that import each module."""
    names = {name_of(path) for path in paths}
    found: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported = {each.name for each in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported = {node.module, *(f"{node.module}.{each.name}" for each in node.names)}
            else:
                continue
            for each in imported & names:
                found[each].add(name_of(path))
    return found


def main(lines_max: int, folder: str) -> None:
    """Print each short module with one importer: lines, name, importer and its lines."""
    paths = sorted(SOURCE.rglob("*.py"))
    lines = {name_of(path): len(path.read_text().splitlines()) for path in paths}
    known = importers(paths)
    for path in paths:
        name = name_of(path)
        if path.name == "__init__.py" or lines[name] >= lines_max or folder not in name or len(known[name]) != 1:
            continue
        (only,) = known[name]
        print(f"{lines[name]:4} {name:60} {lines[only]:4} {only}")


if __name__ == "__main__":
    arguments = sys.argv[1:]
    main(int(arguments[0]) if arguments else LINES_MAX, arguments[1] if len(arguments) > 1 else "")
