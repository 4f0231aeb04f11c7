"""httpx without its own command line, which loads click, rich and pygments: a seventh of what a compiled node loads.

httpx is made to be installed without these. A module that is None in `sys.modules` is one that cannot be imported.
"""

from __future__ import annotations

import sys

sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]  # as Python's documentation says

import httpx  # noqa: E402  behind the line above, which is about it

__all__ = ["httpx"]
