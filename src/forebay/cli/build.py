"""The version, as `forebay version` and `forebay --version` print it."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from forebay import __version__


def build() -> str:
    """Return "compiled" or "interpreted", by how the hot modules were built. Loads none of these modules."""
    spec = find_spec("forebay.log.block")
    assert spec is not None and spec.origin is not None
    return "interpreted" if spec.origin.endswith(".py") else "compiled"


def python() -> str:
    """Return the version of the Python interpreter."""
    return sys.version.split()[0]


def print_build() -> None:
    """Print the versions of forebay and Python, and the build, in a line."""
    print(f"forebay {__version__} ({build()}, Python {python()})")
