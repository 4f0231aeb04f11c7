"""Events sent by HTTP: the webhooks of a broker, as its options want them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from forebay.core.options import Options
from forebay.management.control import Webhooks
from forebay.node.telemetry.events import Listener, Told
from forebay.server.broker_view import BrokerView
from forebay.server.runtime import Service

if TYPE_CHECKING:
    from forebay.admin.webhooks.webhook import Webhook
    from forebay.server.system.http_client import httpx

LEAVE_S: Final = 2  # that events may take that wait when the broker stops


class WebhookService(Service, Listener, Webhooks):
    """All webhooks of a broker."""

    def __init__(self, app: BrokerView) -> None:
        self.app = app
        self.mark = f"{app.clock.now_us():x}"  # of this start of the broker
        self.hooks: list[Webhook] = []
        self.client: httpx.AsyncClient | None = None

    async def start(self) -> dict[str, str]:
        self.app.control.webhooks = self
        self.reload(self.app.options)
        self.app.announcer.add(self)
        return {}

    def reload(self, options: Options) -> None:
        """Go on with these webhooks: what waits for one that is as before goes on waiting."""
        if not options.webhooks and not self.hooks:
            return
        from forebay.admin.webhooks.webhook import Webhook, make_client  # noqa: PLC0415  a broker without any starts sooner

        if self.client is None:
            self.client = make_client()
        before = list(self.hooks)
        self.hooks = []
        for wanted in options.webhooks:
            same = next((each for each in before if each.options == wanted), None)
            if same is not None:
                before.remove(same)
            self.hooks.append(same or Webhook(wanted, self.mark, self.client))
        for gone in before:
            gone.stop()
        self.app.announcer.changed()

    async def stop(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LEAVE_S):
                for hook in self.hooks:
                    await hook.idle.wait()
        self.app.announcer.listeners.remove(self)
        self.app.announcer.changed()
        for hook in self.hooks:
            hook.stop()
        for hook in self.hooks:
            for worker in hook.workers:
                with contextlib.suppress(asyncio.CancelledError):
                    await worker
        if self.client is not None:
            await self.client.aclose()

    def wanted(self) -> set[str]:
        types: set[str] = set()
        for hook in self.hooks:
            types |= hook.types
        return types

    def hear(self, told: Sequence[Told]) -> None:
        for hook in self.hooks:
            for each in told:
                if hook.wants(each):
                    hook.offer(each)

    def listed(self) -> list[dict[str, object]]:
        return [hook.fields() for hook in self.hooks]
