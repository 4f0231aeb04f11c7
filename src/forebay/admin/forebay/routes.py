"""All routes under /api/forebay that ask and change queues, groups, sessions and single messages."""

from __future__ import annotations

from fastapi import APIRouter

from forebay.admin.forebay import config, explain, groups, letters, mqtt, operations, policies, queues, samples, trace

router = APIRouter()
for part in (config, operations, policies, queues, letters, groups, mqtt, explain, trace, samples):
    router.include_router(part.router)
