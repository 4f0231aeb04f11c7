"""Print what must be installed beside forebay, line by line: `requirements.py WANTED`.

WANTED is extras as pip takes them, `[dev]`, or a name of `BUILDS`.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path
from typing import Any

EXTRAS = re.compile(r"(?:forebay)?\[([\w,-]+)\]")
# What stands beside setuptools, in groups of pyproject.toml.
BUILDS = {"pure-build": [], "build": ["compile"], "wheel": ["compile", "wheel"], "installers": ["installers"]}


def of_extras(project: dict[str, Any], extras: list[str]) -> set[str]:
    """Requirements of these extras, those that name other extras of forebay included."""
    found: set[str] = set()
    for extra in extras:
        for requirement in project["optional-dependencies"][extra]:
            own = EXTRAS.fullmatch(requirement)
            found |= of_extras(project, own[1].split(",")) if own else {requirement}
    return found


def requirements(pyproject: dict[str, Any], wanted: str) -> list[str]:
    """Requirements of forebay with some extras ("" or "[a,b]"), or of building it."""
    groups: dict[str, list[str]] = pyproject["dependency-groups"]
    pure: list[str] = pyproject["build-system"]["requires"]
    if wanted in BUILDS:
        return pure + [requirement for group in BUILDS[wanted] for requirement in groups[group]]
    own = EXTRAS.fullmatch(wanted)
    extras = own[1].split(",") if own else []
    return sorted({*pyproject["project"]["dependencies"], *of_extras(pyproject["project"], extras)})


if __name__ == "__main__":
    path = Path(__file__).parent.parent / "pyproject.toml"
    print("\n".join(requirements(tomllib.loads(path.read_text(encoding="utf-8")), sys.argv[1])))
