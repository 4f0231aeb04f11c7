"""Registers in a real etcd, in the test's event loop, and all that they say."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

from forebay.core.ports import RegisterListener
from forebay.server.cluster.register.etcd import EtcdClient
from forebay.server.cluster.register.register import EtcdRegister
from tests.etcd import Cutter
from tests.waiting import until_async

ROOT = "/forebay/shop/"
KEY = f"{ROOT}register/1"


class Heard(RegisterListener):
    """All that a register has said."""

    def __init__(self) -> None:
        self.sights: list[tuple[int, bytes]] = []
        self.outcomes: list[tuple[int, str, str]] = []
        self.nodes: dict[tuple[str, str], bytes] = {}
        self.reasons: list[str] = []
        self.order: list[str] = []

    def seen(self, revision: int, value: bytes) -> None:
        self.sights.append((revision, value))
        self.order.append("seen")

    def outcome(self, number: int, outcome: str, why: str) -> None:
        self.outcomes.append((number, outcome, why))
        self.order.append(outcome)

    def present(self, nodes: Mapping[tuple[str, str], bytes]) -> None:
        self.nodes = dict(nodes)

    def reached(self, why: str) -> None:
        self.reasons.append(why)

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait until something was heard."""

        async def looked() -> bool:
            return holds()

        await until_async(looked, lambda: f"{self.sights} {self.outcomes} {self.nodes} {self.reasons}")

    async def settled(self, number: int) -> str:
        """The outcome of a change."""
        await self.until(lambda: any(each == number for each, _, _ in self.outcomes))
        return next(outcome for each, outcome, _ in self.outcomes if each == number)


@asynccontextmanager
async def register_at(
    urls: Sequence[str], *, timeout_s: float = 5.0, presence_s: int = 2, watching: bool = True
) -> AsyncIterator[tuple[EtcdRegister, Heard]]:
    heard = Heard()
    register = EtcdRegister(EtcdClient(urls, None, timeout_s, "", ""), heard, ROOT, presence_s)
    if watching:
        register.start()
        await heard.until(lambda: bool(heard.sights))
    try:
        yield register, heard
    finally:
        await register.stop()


def url_of(cutter: Cutter) -> str:
    return f"http://{cutter.endpoint}"
