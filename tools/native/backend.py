"""The build backend that pyproject.toml names: that of setuptools, and two things before it.

What a compiled build lacks on this machine is said at once, before anything else is fetched. And with FOREBAY_PURE=1
nothing is fetched that only the compiled build needs.
"""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from setuptools import build_meta

from tools.native.compiler import SLOWER, CompileFailed, Compiler, CompilerMissing

LACKING = """\
forebay is compiled while it is installed, and this machine lacks
  {what}
Then install it again. Or without a compiler:
  FOREBAY_PURE=1 pip install ...
Then it runs interpreted: {slower}"""

Config = Mapping[str, Any] | None

build_sdist = build_meta.build_sdist
prepare_metadata_for_build_wheel = build_meta.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = build_meta.prepare_metadata_for_build_editable


def get_requires_for_build_sdist(config_settings: Config = None) -> list[str]:
    """Nothing but setuptools."""
    return []


def get_requires_for_build_wheel(config_settings: Config = None) -> list[str]:
    """What mypyc needs; ends the build where no C compiler works."""
    if pure():
        return []
    check_compiler()
    pyproject = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    needed: list[str] = pyproject["dependency-groups"]["compile"]
    return needed


def get_requires_for_build_editable(config_settings: Config = None) -> list[str]:
    """The same as for a wheel."""
    return get_requires_for_build_wheel(config_settings)


def build_wheel(wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None) -> str:
    """Build the wheel, and return its name."""
    return told_briefly(lambda: build_meta.build_wheel(wheel_directory, config_settings, metadata_directory))


def build_editable(wheel_directory: str, config_settings: Config = None, metadata_directory: str | None = None) -> str:
    """Build the wheel of an editable install, and return its name."""
    return told_briefly(lambda: build_meta.build_editable(wheel_directory, config_settings, metadata_directory))


# ---- within


def pure() -> bool:
    """Whether nothing is to be compiled."""
    return os.environ.get("FOREBAY_PURE") == "1"


def check_compiler() -> None:
    """End the build with one clear text where no C compiler works."""
    try:
        Compiler([])
    except CompilerMissing as error:
        sys.exit(LACKING.format(what=error, slower=SLOWER))


def told_briefly(build: Callable[[], str]) -> str:
    """Build; what the compiler refuses is told in its words, without a traceback through the build's own code."""
    if not pure():
        check_compiler()  # pip does not ask for requirements with --no-build-isolation
    try:
        return build()
    except CompileFailed as error:
        sys.exit(str(error))
