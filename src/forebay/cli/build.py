"""The version, as `forebay version` and `forebay --version` print it."""

from __future__ import annotations

import sys
from importlib.util import find_spec

from forebay import __version__


def build() -> str:
    """True if the hot modules are compiled; none is loaded to find out."""
    spec = find_spec("forebay.log.block")
    assert spec is not None and spec.origin is not None
    return "interpreted" if spec.origin.endswith(".py") else "compiled"


def python() -> str:
    """The version of the interpreter."""
    return sys.version.split()[0]


def print_build() -> None:
    """Print all of it in a line."""
    print(f"forebay {__version__} ({build()}, Python {python()})")
