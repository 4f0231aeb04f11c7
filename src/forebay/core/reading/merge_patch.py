"""JSON merge patches (RFC 7396)."""

from __future__ import annotations

from typing import Final

DEPTH_MAX: Final = 100  # of objects within each other


def merge_patch(target: object, patch: object, depth: int = 0) -> object:
    """Return a JSON value with a merge patch applied; neither of them is changed.

    raises  ValueError if objects are nested more than DEPTH_MAX deep
    """
    if not isinstance(patch, dict):
        return patch
    if depth >= DEPTH_MAX:
        raise ValueError(f"objects are nested more than {DEPTH_MAX} deep")
    merged: dict[str, object] = dict(target) if isinstance(target, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = merge_patch(merged.get(name), value, depth + 1)
    return merged
