"""Scenes of tests in an event loop of their own, as the broker's is."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import uvloop


def run_scene(scene: Callable[[], Awaitable[None]]) -> None:
    """Run it in an event loop in which nothing may fail unseen."""

    async def wrapped() -> None:
        errors: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: errors.append(context))
        await scene()
        assert errors == []

    uvloop.run(wrapped())
