"""/api/whoami: who the caller is."""

from __future__ import annotations

from fastapi import APIRouter, Response

from forebay.admin.answer import as_json
from forebay.admin.login import Asker

router = APIRouter(prefix="/api")


@router.get("/whoami")
async def whoami(caller: Asker) -> Response:
    """The caller's name and tags."""
    return as_json({"name": caller.user, "tags": sorted(caller.tags), "is_internal_user": True})
