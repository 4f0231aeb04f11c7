"""The power fails at any moment: a broker that starts on what the disk kept has all that was confirmed.

Clients work with a broker whose every change of its files is written down (journal.c), and note how far that journal
went when each confirm came. Then folders are made as disks may hold them (power.py), a broker's recovery runs on each,
and what it finds is held against the clients' notes. POWER_LOSS_CUTS in the environment asks for more folders.
"""

from __future__ import annotations

import os
import random
import shutil
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from forebay.broker.vhosts import Vhosts
from forebay.core.errors import StorageError
from forebay.core.options import make_options
from forebay.log.queue_log import QueueLog
from forebay.log.store import Store
from forebay.node.wanted import store_options
from forebay.server.system.clock import SystemClock
from forebay.server.system.disk import DataDisk
from tests.behaviour.kinds import open_channel
from tests.broker_process import BrokerProcess
from tests.changing_files import changing_files
from tests.conformance.mqtt.raw import connected
from tests.conformance.mqtt.raw import publish as mqtt_publish
from tests.conformance.mqtt.v5.flows import expiry
from tests.crash.power import RENAME, UNLINK, Disk, Operation, read_journal
from tests.preload import library

CUTS = int(os.environ.get("POWER_LOSS_CUTS", "48"))
SEED = int(os.environ.get("POWER_LOSS_SEED", "0")) or random.randrange(1 << 32)
SOURCE = Path(__file__).with_name("journal.c")
OPTIONS = {"wal_octets_max": 1 << 20, "wal_chunk_octets": 64 << 10, "settle_margin_octets": 64 << 10}
NEVER = 1 << 62
NOBODY_HEARS = 0x10  # a PUBACK: stored, as it is retained
FILL = b" " * 1000
WAITING = b"$waiting"  # what the durable MQTT session has to get
RETAINED = b"$retained"
Found = dict[bytes, list[bytes]]


@dataclass(slots=True)
class Item:
    """What a client knows of one message, or of a queue, in octets of the journal.

    sure     it is on the disk
    leaving  from here on it may be gone, as somebody has asked for that
    gone     that is on the disk
    """

    sure: int = NEVER
    leaving: int = NEVER
    gone: int = NEVER


@dataclass(slots=True)
class Book:
    """What clients know of one queue; a body is never sent twice."""

    queue: Item = field(default_factory=Item)
    items: dict[bytes, Item] = field(default_factory=dict)

    def faults(self, found: list[bytes] | None, end: int) -> list[str]:
        """What a broker that found this after so many octets of the journal did wrong."""
        out = []
        if found is None:
            return ["the queue is not there"] if self.queue.sure <= end < self.queue.leaving else []
        if self.queue.gone <= end:
            out.append("the queue is there again")
        numbers = [int(body.split()[0]) for body in found]
        if sorted(set(numbers)) != numbers:
            out.append(f"they are not in order, or twice there: {numbers[:20]}")
        there = set(found)
        out += [f"never sent: {body[:20]!r}" for body in there - self.items.keys()]
        for body, item in self.items.items():
            if item.sure <= end < item.leaving and body not in there:
                out.append(f"{body[:20]!r} is lost")
            if item.gone <= end and body in there:
                out.append(f"{body[:20]!r} came back")
        return out


class Clients:
    """They work until they are told to end; their notes are in `books`."""

    def __init__(self, broker: BrokerProcess, journal: Path) -> None:
        self.broker = broker
        self.journal = journal
        self.books: dict[bytes, Book] = {}
        self.ends = threading.Event()
        self.number = 0

    def now(self) -> int:
        """How far the journal goes."""
        return self.journal.stat().st_size

    def body(self, book: Book) -> bytes:
        self.number += 1
        body = b"%09d " % self.number + FILL
        book.items[body] = Item()
        return body

    @contextmanager
    def leaving(self, items: list[Item]) -> Iterator[None]:
        """Something is done that makes these go, and confirmed."""
        before = self.now()
        for item in items:
            item.leaving = min(item.leaving, before)
        yield
        after = self.now()
        for item in items:
            item.gone = min(item.gone, after)

    def work(self) -> None:
        """Publish to a queue and consume most of it; what was settled is on the disk with a later confirm."""
        channel = open_channel(self.broker)
        book = self.books[b"work"] = Book()
        channel.queue_declare("work", durable=True)
        book.queue.sure = self.now()
        settled: list[Item] = []
        while not self.ends.is_set():
            body = self.body(book)
            channel.basic_publish("", "work", body)
            book.items[body].sure = self.now()
            for item in settled:
                item.gone = book.items[body].sure
            settled = []
            if self.number % 4:
                method, _, got = channel.basic_get("work")
                if method is not None:
                    item = book.items[got]
                    item.leaving = self.now()
                    channel.basic_ack(method.delivery_tag)
                    settled.append(item)
        channel.connection.close()

    def keep(self) -> None:
        """Publish to a stream, and to a queue that is purged, deleted and declared again."""
        channel = open_channel(self.broker)
        self.books[b"stream"] = Book()
        channel.queue_declare("stream", durable=True, arguments={"x-queue-type": "stream"})
        self.books[b"stream"].queue.sure = self.now()
        rounds = 0
        while not self.ends.is_set():
            rounds += 1
            name = f"purged{rounds // 3}"
            book = self.books.setdefault(name.encode(), Book())
            channel.queue_declare(name, durable=True)
            book.queue.sure = min(self.now(), book.queue.sure)
            for number in range(40):
                for where in ("stream", name) if number % 8 == 0 else (name,):
                    mine = self.books[where.encode()]
                    body = self.body(mine)
                    channel.basic_publish("", where, body)
                    mine.items[body].sure = self.now()
            if rounds % 3 == 2:
                with self.leaving([book.queue, *book.items.values()]):
                    channel.queue_delete(name)
            else:
                with self.leaving(list(book.items.values())):
                    channel.queue_purge(name)
        channel.connection.close()

    def subscribe(self) -> None:
        """Publish what is retained, and what waits for a durable session whose client is away."""
        reader = connected(self.broker, "reader", properties=expiry(3600))
        reader.subscribe("waits/#")
        reader.close()
        writer = connected(self.broker, "writer")
        waiting = self.books[WAITING] = Book()
        retained = self.books[RETAINED] = Book()
        last = Item()
        while not self.ends.is_set() and len(waiting.items) < 900:
            body = self.body(waiting)
            assert writer.publish("waits/here", body) == 0
            waiting.items[body].sure = self.now()
            body = self.body(retained)
            last.leaving = self.now()
            writer.send(mqtt_publish("kept", body, 1, 1, bits=1))
            writer.acked(code=NOBODY_HEARS)
            last.gone = retained.items[body].sure = self.now()
            last = retained.items[body]
        writer.close()


def bodies(log: QueueLog, wanted: list[tuple[int, int]]) -> list[bytes]:
    found = []
    for first, end in wanted:
        at = first
        while at < end:
            block = log.block(at)
            if block is None or block.base >= end:
                break
            at = max(at, int(block.base))
            stop = min(end, int(block.end))
            found += [block.body(index - block.base) for index in range(at, stop)]
            at = stop
    return found


def started(folder: Path) -> Found:
    """What a broker finds that starts on a folder; it is stopped again in good order."""
    options = make_options(OPTIONS)
    disk = DataDisk(str(folder))
    clock = SystemClock()
    store = Store(disk, clock, store_options(options))
    try:
        recovery = store.open()
        vhosts = Vhosts(store, options, b"")
        vhosts.recover(recovery.entries, clock.now_us())
        store.start(vhosts.checkpoint())
        vhost = vhosts.by_name[b"/"]
        found = {
            name: bodies(queue.log, queue.needed(0, queue.log.end)) for name, queue in vhost.catalog.queues.items()
        }
        found[RETAINED] = [each.body for each in vhost.retained.matching(b"#", clock.now_us())]
        client = vhost.sessions.clients.get(b"reader")
        if client is not None:
            log = vhost.sessions.log
            found[WAITING] = bodies(log, client.mqueue.logged(0, log.end))
        store.close()
    finally:
        disk.close_all()
    return found


@dataclass(slots=True)
class Cut:
    """A moment: so many operations are done, and the next one is not, or in part."""

    operations: int
    random: bool
    seed: int


class Worked:
    """What a broker and its clients left: the journal, and the clients' notes."""

    def __init__(self, folder: Path, journal: list[Operation], books: dict[bytes, Book]) -> None:
        self.folder = folder
        self.journal = journal
        self.books = books

    def cuts(self, chance: random.Random) -> list[Cut]:
        """Moments of all kinds, in their order: half of them around changes of names."""
        names = [at for at, each in enumerate(self.journal) if each.kind not in (b"w", b"s")]
        found = []
        for number in range(CUTS):
            at = chance.choice(names) + chance.randint(-1, 2) if number % 4 < 2 else chance.randrange(len(self.journal))
            found.append(Cut(max(0, min(at, len(self.journal) - 1)), number % 2 == 0, chance.randrange(1 << 32)))
        return sorted(found, key=lambda each: each.operations)

    def try_cuts(self, cuts: list[Cut]) -> list[str]:
        """Start a broker on what the disk may hold at each of them; what was wrong then."""
        faults: list[str] = []
        disk = Disk()
        done = 0
        for cut in cuts:
            while done < cut.operations:
                disk.do(self.journal[done])
                done += 1
            shutil.rmtree(self.folder, ignore_errors=True)
            chance = random.Random(cut.seed)
            if cut.random:
                disk.write(self.folder, chance)
            else:
                disk.write(self.folder, None, self.journal[done] if chance.random() < 0.5 else None)
            end = self.journal[done - 1].end if done else 0
            faults += [f"{cut}: {fault}" for fault in self.faults_of(end, chance.random() < 0.2)]
        return faults

    def faults_of(self, end: int, twice: bool) -> list[str]:
        try:
            found = started(self.folder)
            if twice and started(self.folder) != found:
                return ["the next start finds something else"]
        except StorageError as error:
            return [f"no broker starts: {error}"]
        return [
            f"{name.decode()}: {fault}"
            for name, book in self.books.items()
            for fault in book.faults(found.get(name), end)[:5]
        ]


def has_changed_files(data: Path) -> bool:
    """Whether files have become full, were rewritten, and went."""
    numbers = [int(path.stem) for path in changing_files(data / "wal", "*.wal")]
    return len(changing_files(data / "queues", "*.seg")) > 2 and bool(numbers) and min(numbers) > 2


def work(broker: BrokerProcess, clients: Clients) -> None:
    """Have the clients work until files have come and gone; the broker is killed at the end, and started again."""
    tasks: list[Callable[[], None]] = [clients.work, clients.keep, clients.subscribe]
    with ThreadPoolExecutor(len(tasks)) as threads:
        running: list[Future[None]] = [threads.submit(task) for task in tasks]
        try:
            while not has_changed_files(broker.data) and not any(each.done() for each in running[:2]):
                clients.ends.wait(0.1)
        finally:
            clients.ends.set()
        for each in running:
            each.result()
    broker.kill9()
    broker.start()
    channel = open_channel(broker)
    for _ in range(20):
        body = clients.body(clients.books[b"stream"])
        channel.basic_publish("", "stream", body)
        clients.books[b"stream"].items[body].sure = clients.now()
    channel.connection.close()
    broker.stop()


@pytest.fixture(scope="module")
def worked(tmp_path_factory: pytest.TempPathFactory) -> Worked:
    folder = tmp_path_factory.mktemp("power")
    journal = folder / "journal"
    data = folder / "broker" / "data"
    wrapper = ["env", f"LD_PRELOAD={library(SOURCE, folder)}", f"JOURNAL={journal}", f"JOURNAL_ROOT={data}"]
    broker = BrokerProcess(folder / "broker", data=data, wrapper=wrapper, **OPTIONS)
    broker.start()
    try:
        clients = Clients(broker, journal)
        work(broker, clients)
        broker.finish()
    finally:
        broker.abandon()
    operations = read_journal(journal)
    disk = Disk()
    for each in operations:
        disk.do(each)
    disk.write(folder / "whole", None)
    assert octets_of(folder / "whole") == octets_of(data), "something was done to the files that is not in the journal"
    return Worked(folder / "cut", operations, clients.books)


def octets_of(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != "LOCK"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_what_was_confirmed_outlives_a_power_cut(worked: Worked) -> None:
    kinds = {each.kind for each in worked.journal}
    assert {RENAME, UNLINK} <= kinds
    cuts = worked.cuts(random.Random(SEED))
    faults = worked.try_cuts(cuts)
    print(f"{len(cuts)} starts, {len(worked.journal)} operations, {worked.journal[-1].end} octets")
    assert not faults, f"POWER_LOSS_SEED={SEED}: {len(faults)} faults: {faults[:20]}"
