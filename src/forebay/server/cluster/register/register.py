"""The register in etcd: the group's record, and the nodes that are there.

Keys, below `/<prefix>/<cluster>/`:

    register/<group>        the record; its revision is the key's `mod_revision`
    nodes/<node>/<store>    what a node says of itself, under a lease

One watch has them all. It begins at the revision after that of a look at the keys, so that nothing is missed; where it
ends, or etcd no longer has what was between (compaction), it begins anew with a look.
"""

from __future__ import annotations

import asyncio
import logging
from base64 import b64decode
from collections.abc import Callable, Coroutine
from contextlib import aclosing, suppress
from time import monotonic_ns
from typing import Any, Final

from forebay.core.ports import LOST, UNKNOWN, WON, Register, RegisterListener
from forebay.core.units import MS_PER_S
from forebay.server.cluster.register.etcd import EtcdAway, EtcdClient, EtcdRefusal, Json, after, octets
from forebay.server.cluster.settings import ClusterSettings
from forebay.server.telemetry.histograms import Histogram

GROUP: Final = "1"  # one group now; each will have a record of its own
WAIT_MIN_S: Final = 0.05
WAIT_MAX_S: Final = 1.0
KEEP_ALIVES: Final = 3  # requests to keep the lease, in the time that it lasts
LEAVE_S: Final = 1.0
NANOSECONDS: Final = 1000  # a microsecond
logger = logging.getLogger("forebay")


class EtcdRegister(Register):
    """The register of one cluster's group.

    root        prefix of the keys, with a slash at its end
    presence_s  how long a node that died counts as being there
    times       that etcd took for its answers
    told        the reason why it is not reached; empty where it is
    """

    def __init__(self, client: EtcdClient, listener: RegisterListener, root: str, presence_s: int) -> None:
        self.client = client
        self.listener = listener
        self.root = root.encode()
        self.key = self.root + f"register/{GROUP}".encode()
        self.places = self.root + b"nodes/"
        self.presence_s = presence_s
        self.loop = asyncio.get_running_loop()
        self.tasks: set[asyncio.Task[None]] = set()
        self.looked = 0  # etcd's revision at the newest read
        self.nodes: dict[tuple[str, str], bytes] = {}
        self.reading = False
        self.read_again = False
        self.own: tuple[str, str, bytes] | None = None
        self.own_changed = asyncio.Event()
        self.may_stay: Callable[[], bool] = lambda: True  # while this node is to be seen
        self.lease = "0"
        self.why_unasked = self.why_unwatched = self.told = ""
        self.times = Histogram("us")
        self.took_us = 0  # duration of the last request

    def start(self) -> None:
        """Start to watch the register."""
        self.begin(self.keep_watching())

    async def stop(self) -> None:
        """Stop, and revoke this node's lease if etcd answers, so that other nodes see it at once."""
        for task in list(self.tasks):
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        if self.lease != "0":
            with suppress(EtcdAway, EtcdRefusal, TimeoutError):
                async with asyncio.timeout(LEAVE_S):
                    await self.client.ask("lease/revoke", {"ID": self.lease}, again=True)
        await self.client.close()

    # ---- the port

    def read(self) -> None:
        if self.reading:
            self.read_again = True  # the one on its way may have been answered already
            return
        self.reading = True
        self.begin(self.keep_reading())

    def change(self, number: int, revision: int, value: bytes) -> None:
        self.begin(self.attempt(number, revision, value))

    def be_present(self, node: str, store: str, value: bytes) -> None:
        is_first = self.own is None
        self.own = (node, store, value)
        self.own_changed.set()
        if is_first:
            self.begin(self.keep_present())

    # ---- the record

    async def keep_reading(self) -> None:
        self.read_again = True
        try:
            while self.read_again:
                self.read_again = False
                answer = await self.asked("kv/range", {"key": octets(self.key)}, again=True)
                if answer is not None:
                    self.take_record(answer)
        finally:
            self.reading = False

    async def attempt(self, number: int, revision: int, value: bytes) -> None:
        question = {
            "compare": [{"key": octets(self.key), "target": "MOD", "result": "EQUAL", "mod_revision": str(revision)}],
            "success": [{"request_put": {"key": octets(self.key), "value": octets(value)}}],
            "failure": [{"request_range": {"key": octets(self.key)}}],
        }
        answer = await self.asked("kv/txn", question, again=False)
        if answer is None:
            self.listener.outcome(number, UNKNOWN, self.why_unasked)
            return
        made = int(answer["header"]["revision"])
        if answer.get("succeeded"):
            self.see(made, made, value)
            self.listener.outcome(number, WON, "")
            return
        found = answer["responses"][0]["response_range"]
        there = self.take_record({"header": answer["header"], "kvs": found.get("kvs", [])})
        self.listener.outcome(number, LOST, f"the register is at revision {there}, and not at {revision}")

    def take_record(self, answer: Json) -> int:
        """Take in the record of an answer, and return the record's revision; 0 if there is no record."""
        looked = int(answer["header"]["revision"])
        found = [each for each in answer.get("kvs", []) if b64decode(each["key"]) == self.key]
        if not found:
            self.see(looked, 0, b"")
            return 0
        revision = int(found[0]["mod_revision"])
        self.see(looked, revision, value_of(found[0]))
        return revision

    def see(self, looked: int, revision: int, value: bytes) -> None:
        """Report the record as of the etcd revision `looked`, unless a later one has been reported."""
        if looked >= self.looked:
            self.looked = looked
            self.listener.seen(revision, value)

    # ---- watching

    async def keep_watching(self) -> None:
        wait_s = WAIT_MIN_S
        while True:
            answer = await self.asked(
                "kv/range", {"key": octets(self.root), "range_end": octets(after(self.root))}, again=True
            )
            if answer is not None and await self.watch(answer):
                wait_s = WAIT_MIN_S
            await asyncio.sleep(wait_s)
            wait_s = min(2 * wait_s, WAIT_MAX_S)

    async def watch(self, answer: Json) -> bool:
        """Process the present state in `answer`, then each change. Returns False if the watch never began."""
        self.take_record(answer)
        self.take_nodes(answer)
        begun = False
        try:
            async with aclosing(
                self.client.watch(self.root, after(self.root), int(answer["header"]["revision"]) + 1)
            ) as messages:
                async for message in messages:
                    if message.get("canceled"):
                        if "compact_revision" not in message:
                            self.reached(self.why_unasked, f"the watch is cancelled: {message.get('cancel_reason')}")
                            self.client.token = ""  # it may be that, and another login costs little
                        return begun
                    begun = True
                    self.reached(self.why_unasked, "")
                    self.take_events(message.get("events", []))
        except (EtcdAway, EtcdRefusal) as error:
            self.reached(self.why_unasked, f"the watch ended: {error}")
        return begun

    def take_nodes(self, answer: Json) -> None:
        nodes: dict[tuple[str, str], bytes] = {}
        for each in answer.get("kvs", []):
            place = self.place_of(b64decode(each["key"]))
            if place is not None:
                nodes[place] = value_of(each)
        self.tell_nodes(nodes)

    def take_events(self, events: list[Json]) -> None:
        nodes = dict(self.nodes)
        for event in events:
            kv = event["kv"]
            key, revision = b64decode(kv["key"]), int(kv["mod_revision"])
            is_gone = event.get("type") == "DELETE"
            place = self.place_of(key)
            if key == self.key:
                self.see(revision, 0 if is_gone else revision, b"" if is_gone else value_of(kv))
            elif place is not None and is_gone:
                nodes.pop(place, None)
            elif place is not None:
                nodes[place] = value_of(kv)
        self.tell_nodes(nodes)

    def place_of(self, key: bytes) -> tuple[str, str] | None:
        """Return node and store id of a key; None if the key is not a node's."""
        if not key.startswith(self.places):
            return None
        node, _, store = key[len(self.places) :].decode(errors="replace").partition("/")
        return node, store

    def tell_nodes(self, nodes: dict[tuple[str, str], bytes]) -> None:
        if self.own is not None and self.own[:2] not in nodes:
            self.own_changed.set()
        if nodes != self.nodes:
            self.nodes = nodes
            self.listener.present(dict(nodes))

    # ---- being there

    async def keep_present(self) -> None:
        while True:
            if not await self.stay():
                await asyncio.sleep(WAIT_MAX_S)

    async def stay(self) -> bool:
        """Keep this node's entry for as long as its lease lasts. Returns False if etcd does not take either."""
        if not self.may_stay():
            return False
        granted = await self.asked("lease/grant", {"TTL": str(self.presence_s)}, again=True)
        if granted is None:
            return False
        self.lease = str(granted["ID"])
        while True:
            if self.own_changed.is_set() and not await self.show():
                return False
            with suppress(TimeoutError):
                async with asyncio.timeout(self.presence_s / KEEP_ALIVES):
                    await self.own_changed.wait()
            if not self.own_changed.is_set() and self.may_stay():
                kept = await self.asked("lease/keepalive", {"ID": self.lease}, again=True)
                if kept is not None and int(kept.get("result", {}).get("TTL", 0)) <= 0:
                    self.own_changed.set()  # the key is gone with its lease
                    return True

    async def show(self) -> bool:
        """Write this node's own entry, and return whether etcd took it."""
        assert self.own is not None
        self.own_changed.clear()
        node, store, value = self.own
        key = self.places + f"{node}/{store}".encode()
        question = {"key": octets(key), "value": octets(value), "lease": self.lease}
        if await self.asked("kv/put", question, again=True) is None:
            self.own_changed.set()
            return False
        return True

    # ---- asking

    async def asked(self, path: str, question: Json, *, again: bool) -> Json | None:
        """Return the answer to a question, or None if there is none. Tell the listener whether etcd has answered."""
        ask = self.client.changed if path.startswith("kv/") else self.client.ask
        began_ns = monotonic_ns()
        try:
            answer = await ask(path, question, again=again)
        except (EtcdAway, EtcdRefusal) as error:
            self.reached(str(error), self.why_unwatched)
            return None
        self.took_us = (monotonic_ns() - began_ns) // NANOSECONDS
        self.times.record(self.took_us)
        self.reached("", self.why_unwatched)
        return answer

    def reached(self, why_unasked: str, why_unwatched: str) -> None:
        """Note whether questions are answered and the watch runs, and report a change of that to the listener."""
        self.why_unasked, self.why_unwatched = why_unasked, why_unwatched
        why = why_unasked or why_unwatched
        if why != self.told:
            self.told = why
            self.listener.reached(why)

    def begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = self.loop.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.ended)

    def ended(self, task: asyncio.Task[None]) -> None:
        self.tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.loop.call_exception_handler({"message": "the register in etcd", "exception": error, "task": task})


def value_of(kv: Json) -> bytes:
    return b64decode(kv.get("value", ""))


def make_register(settings: ClusterSettings, listener: RegisterListener) -> EtcdRegister:
    """Make the register that the options name."""
    etcd = settings.options.etcd
    timeout_s = etcd.timeout_ms / MS_PER_S
    client = EtcdClient(settings.etcd, settings.etcd_context, timeout_s, etcd.username, settings.etcd_password)
    return EtcdRegister(client, listener, settings.root, etcd.presence_s)
