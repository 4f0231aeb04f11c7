"""Transactions of sinks: rows that wait for their commit, and what was committed.

A record of the log `$staging` is one block as a client staged it: rows of one part of one batch of one query. Its
annotation is the msgpack of [query, batch, part, rows]. A commit is a note; from then on the transaction cannot be
undone, and turn by turn its blocks are published and settled (broker/publish/staged_rows.py), both in one frame of the
write-ahead log: a crash goes on where it was.

Notes, by the group of their entry:

    0          what is settled (queue/work/ledger.py)
    COMMITTED  msgpack of [query, batch, microseconds, [part, ...]]
    PROGRESS   msgpack of [query, batch, rows, unroutable, offset, row, finished]: rows published and unroutable so far;
               below `row` those of the block at `offset` are published
    FORGOTTEN  the query's name: nothing is known of it any more
"""

from __future__ import annotations

from typing import Final, final

import msgspec
from librt.strings import read_i32_le
from mypy_extensions import i64, u8

from forebay.broker.catalog.owned_names import name_in
from forebay.broker.internal_log import RECORD_OVERHEAD, STAGING_LOG, LedgerLog
from forebay.core.errors import PRECONDITION, REFUSED, RequestError, note_half_change
from forebay.core.stored.entry_kinds import INTERNAL
from forebay.log.block import HEAD_OCTETS, BadBlock, Block, trusted_block
from forebay.log.store import FrameEntry, Store
from forebay.message.annotations import STAGED, annotation, with_annotation
from forebay.message.formats.table import EXCHANGE_FORMAT

LOG_NAME: Final = "$staging"
SETTLED: Final = 0
COMMITTED: Final = 1
PROGRESS: Final = 2
FORGOTTEN: Final = 3
TRANSACTION: Final = msgspec.msgpack.Decoder(tuple[str, int, str, int])
COMMIT_NOTE: Final = msgspec.msgpack.Decoder(tuple[str, int, int, list[str]])
PROGRESS_NOTE: Final = msgspec.msgpack.Decoder(tuple[str, int, int, int, int, int, bool])
SEAL_OCTETS: Final = 64 << 20  # a block of the log longer than this is sealed before the turn ends


@final
class StagedPart:
    """The rows that one task staged."""

    def __init__(self) -> None:
        self.offsets: list[int] = []
        self.rows: i64 = 0
        self.octets: i64 = 0


@final
class Staged:
    """The parts of one batch that nobody has committed.

    stamp_us  when the last of it came
    """

    def __init__(self) -> None:
        self.parts: dict[str, StagedPart] = {}
        self.stamp_us: i64 = 0

    def rows(self) -> i64:
        """Return the number of rows in all parts."""
        rows: i64 = 0
        for part in self.parts.values():
            rows += part.rows
        return rows

    def octets(self) -> i64:
        """Return the size in bytes of the blocks of all parts."""
        octets: i64 = 0
        for part in self.parts.values():
            octets += part.octets
        return octets


@final
class CommittedBatch:
    """The last batch of a query that was committed, or one before it whose rows are still on their way.

    offsets     of the blocks that are left, in the order of the parts
    row         those of the first block below it are published
    rows        published so far, `unroutable` of them nowhere
    finished    all are; on disk when `lsn` is
    """

    def __init__(self, query: str, batch: i64, used_us: i64, parts: list[str]) -> None:
        self.query = query
        self.batch: i64 = batch
        self.used_us: i64 = used_us
        self.parts = parts
        self.offsets: list[int] = []
        self.at: i64 = 0  # of the next one in `offsets`
        self.row: i64 = 0
        self.rows: i64 = 0
        self.unroutable: i64 = 0
        self.finished = False
        self.lsn: i64 = 0

    def next(self) -> i64:
        """Offset of the block that is published next; -1 where none is left."""
        return self.offsets[self.at] if self.at < len(self.offsets) else -1

    def note(self) -> bytes:
        """Return the commit encoded for the log."""
        return msgspec.msgpack.encode([self.query, int(self.batch), int(self.used_us), self.parts])

    def progress(self) -> bytes:
        """The place that it came to."""
        numbers = [int(self.batch), int(self.rows), int(self.unroutable), int(self.next()), int(self.row)]
        return msgspec.msgpack.encode([self.query, *numbers, self.finished])


@final
class Staging(LedgerLog):
    """The transactions of one vhost.

    A query is known by an owned name (broker/catalog/owned_names.py): that of another user is another query.

    memory_ms  how long a query is remembered after its last commit, `queries_max` of them at most
    expiry_ms  how long parts wait for a commit
    staged     by query and batch
    last       of each query, the one not used for longest first
    open       commits whose rows are on their way, in the order of the commits
    """

    def __init__(self, store: Store, memory_ms: i64, expiry_ms: i64, queries_max: i64, vhost: i64 = 0) -> None:
        super().__init__(STAGING_LOG, LOG_NAME, store, vhost)
        self.memory_us: i64 = memory_ms * 1000
        self.expiry_us: i64 = expiry_ms * 1000
        self.queries_max: i64 = queries_max
        self.staged: dict[tuple[str, int], Staged] = {}
        self.last: dict[str, CommittedBatch] = {}
        self.open: dict[tuple[str, int], CommittedBatch] = {}
        self.gone: list[int] = []  # published or thrown away in this turn; some are perhaps not sealed yet
        self.moved: list[CommittedBatch] = []  # went on in this turn
        self.now_us: i64 = 0
        self.published: i64 = 0  # rows
        # In recovery only: the blocks of open commits by part, and where the first of them goes on.
        self.found: dict[tuple[str, int], dict[str, list[int]]] = {}
        self.resumed: dict[tuple[str, int], int] = {}

    # ---- what clients do

    def is_committed(self, query: str, batch: i64) -> bool:
        """Return whether this batch of the query, or a later one, is committed."""
        return batch <= self.last_batch(query)

    def last_of(self, query: str) -> CommittedBatch | None:
        """Return the last batch of a query, or else of the one of its name from before queries had owners."""
        return self.last.get(query) or self.last.get(name_in(query))

    def octets(self, block: bytes) -> i64:
        """Return the most bytes that `stage` writes to disk for a block."""
        return len(block) + RECORD_OVERHEAD + 1024

    def stage(self, query: str, batch: i64, part: str, rows: i64, block: bytes, now_us: i64) -> None:
        """Keep the octets of a block for a batch that is not committed."""
        try:
            assert not self.is_committed(query, batch)
            offset: i64 = self.log.end + self.log.writer.count
            transaction = msgspec.msgpack.encode([query, int(batch), part, int(rows)])
            self.log.append_annotated(
                u8(EXCHANGE_FORMAT.number), b"", b"", b"", block, with_annotation(b"", STAGED, transaction)
            )
            self.wait(query, batch, part, rows, len(block), offset, now_us)
            if self.log.writer.bodies.size() > SEAL_OCTETS:
                self.make_readable(now_us)
        except Exception as error:
            note_half_change(error)
            raise

    def wait(self, query: str, batch: i64, part: str, rows: i64, octets: i64, offset: i64, now_us: i64) -> None:
        staged = self.staged.get((query, int(batch)))
        if staged is None:
            staged = Staged()
            self.staged[query, int(batch)] = staged
        staged.stamp_us = now_us
        of_part = staged.parts.get(part)
        if of_part is None:
            of_part = StagedPart()
            staged.parts[part] = of_part
        of_part.offsets.append(int(offset))
        of_part.rows += rows
        of_part.octets += octets

    def commit(self, query: str, batch: i64, parts: dict[str, int], now_us: i64) -> CommittedBatch:
        """Decide that these parts are published, and nothing else that was staged up to this batch.

        parts   each with its rows
        raises  RequestError, and nothing is decided: PRECONDITION where not just these rows are staged (the end of a
                part may be lost in a crash), REFUSED where too many commits are remembered that none can go
        """
        try:
            last = self.last_of(query)
            if last is not None and batch <= last.batch:
                last.used_us = now_us
                del self.last[last.query]
                self.last[last.query] = last
                known = self.open.get((last.query, int(batch))) or last
                if known.batch == batch:
                    return known
                none = CommittedBatch(query, batch, now_us, [])
                none.finished = True
                return none
            staged = self.staged.get((query, int(batch)))
            made = CommittedBatch(query, batch, now_us, list(parts))
            for name, rows in parts.items():
                part = None if staged is None else staged.parts.get(name)
                there: i64 = 0 if part is None else part.rows
                if part is None or there != rows:
                    text = f"only {there} of {rows} rows" if there < rows else f"{there} rows, not {rows},"
                    raise RequestError(
                        PRECONDITION,
                        f"commit: {text} of part '{name}' of batch {batch} of query '{name_in(query)}' are staged",
                    )
                made.offsets += part.offsets
            self.make_place(query)
            self.note(COMMITTED, made.note(), True)
            self.last.pop(query, None)
            self.last[query] = made
            self.open[query, int(batch)] = made
            for each in [each for each in self.staged if each[0] == query and each[1] <= batch]:
                self.throw_away(each, parts if each[1] == batch else {})
            return made
        except Exception as error:
            note_half_change(error)
            raise

    def make_place(self, query: str) -> None:
        """Forget queries until another can be remembered."""
        if query in self.last or len(self.last) < self.queries_max:
            return
        for name, last in self.last.items():
            if last.finished:
                self.forget(name)
                return
        raise RequestError(REFUSED, f"transactions_max: {self.queries_max} transactions are on their way already")

    def forget(self, query: str) -> None:
        del self.last[query]
        self.note(FORGOTTEN, query.encode(), False)

    def abort(self, query: str, batch: i64) -> None:
        """Throw away what was staged for a batch; RequestError(PRECONDITION) where it is committed."""
        try:
            if self.is_committed(query, batch):
                raise RequestError(PRECONDITION, f"abort: batch {batch} of query '{name_in(query)}' is committed")
            if (query, int(batch)) in self.staged:
                self.throw_away((query, int(batch)), {})
        except Exception as error:
            note_half_change(error)
            raise

    def throw_away(self, name: tuple[str, int], kept: dict[str, int]) -> None:
        """Settle what was staged for a batch, but for these parts."""
        for part, staged in self.staged.pop(name).parts.items():
            if part not in kept:
                self.gone += staged.offsets

    def last_batch(self, query: str) -> i64:
        """Return the last committed batch of a query, or -1 if none is known."""
        last = self.last_of(query)
        return -1 if last is None else last.batch

    # ---- publishing what is committed

    def block(self, offset: i64) -> Block:
        """The rows of a block that is staged."""
        if offset >= self.log.end:
            self.make_readable(self.now_us)
        stored = self.log.block(offset)
        assert stored is not None and stored.base <= offset, "what is staged is in the log"
        return staged_block(stored, offset - stored.base)

    def advance(self, commit: CommittedBatch, rows: i64, unroutable: i64, row: i64) -> None:
        """Note that so many more rows were published; `row` is where the block goes on, -1 if it is done."""
        commit.rows += rows
        commit.unroutable += unroutable
        self.published += rows
        if row < 0:
            self.gone.append(int(commit.next()))
            commit.at += 1
            row = 0
        commit.row = row
        if commit not in self.moved:
            self.moved.append(commit)

    def finish(self, commit: CommittedBatch) -> None:
        """Note that all rows of the commit are published, or will be with this turn."""
        assert commit.next() < 0
        commit.finished = True
        commit.parts = []
        commit.offsets = []
        commit.at = 0
        commit.lsn = self.store.lsn
        del self.open[commit.query, int(commit.batch)]
        if commit not in self.moved:
            self.moved.append(commit)

    # ---- the turn, and time

    def end_turn(self, now_us: i64) -> None:
        self.now_us = now_us
        self.make_readable(now_us)
        self.source.truncate()
        if self.gone:
            for offset in sorted(self.gone):
                self.ledger.settle(offset, 1)
            self.gone = []
            self.note(SETTLED, self.ledger.progress(), True)
        for commit in self.moved:
            self.note(PROGRESS, commit.progress(), True)
        self.moved = []

    def sweep(self, now_us: i64) -> None:
        """About once a second: what nobody has committed in time goes, and queries that nobody uses."""
        for name in [name for name, staged in self.staged.items() if staged.stamp_us + self.expiry_us <= now_us]:
            self.throw_away(name, {})
        while self.last:
            query = next(iter(self.last))
            last = self.last[query]
            if last.used_us + self.memory_us > now_us or not last.finished:
                return
            self.forget(query)

    # ---- the log

    def checkpoint(self) -> list[FrameEntry]:
        entries = super().checkpoint()
        # Those that are on their way come last, in their order; of one query the last commit is the one that counts.
        commits = [last for last in self.last.values() if last.finished]
        for commit in commits + list(self.open.values()):
            entries.append(FrameEntry(INTERNAL, self.number, COMMITTED, commit.note()))
            entries.append(FrameEntry(INTERNAL, self.number, PROGRESS, commit.progress()))
        return entries

    def restore(self, group: int, payload: bytes) -> None:
        if group == SETTLED:
            self.ledger.restore(payload)
        elif group == FORGOTTEN:
            self.last.pop(payload.decode(), None)
        elif group == COMMITTED:
            commit = CommittedBatch(*COMMIT_NOTE.decode(payload))
            self.last.pop(commit.query, None)
            self.last[commit.query] = commit
            self.open[commit.query, int(commit.batch)] = commit
        else:
            self.restore_progress(payload)

    def restore_progress(self, payload: bytes) -> None:
        query, batch, rows, unroutable, offset, row, finished = PROGRESS_NOTE.decode(payload)
        name = query, batch
        commit = self.open.get(name)
        if commit is None:
            return
        commit.rows = rows
        commit.unroutable = unroutable
        commit.row = row
        self.resumed[name] = offset
        if finished:
            commit.finished = True
            commit.parts = []
            del self.open[name]

    def recovered(self, now_us: i64) -> None:
        self.now_us = now_us
        super().recovered(now_us)
        for name, commit in self.open.items():
            of_parts = self.found.get(name, {})
            for part in commit.parts:
                commit.offsets += of_parts.get(part, [])
            if commit.next() != self.resumed.get(name, -1):
                commit.row = 0
        self.found = {}
        self.resumed = {}

    def take_in(self, block: Block, first: i64, end: i64, now_us: i64) -> None:
        for offset in range(first, end):
            transaction = annotation(block.annotations(offset - block.base), STAGED)
            query, batch, part, rows = TRANSACTION.decode(transaction)
            name = query, batch
            commit = self.open.get(name)
            if commit is not None and part in commit.parts:
                self.found.setdefault(name, {}).setdefault(part, []).append(int(offset))
            elif self.is_committed(query, batch):
                self.gone.append(int(offset))
            else:
                octets = block.body_span(offset - block.base, 1)
                self.wait(query, batch, part, rows, octets, offset, now_us)


def staged_block(stored: Block, index: i64) -> Block:
    """The block that is the body of a record; it was checked when it came."""
    data = stored.tail
    start: i64 = 0
    end: i64 = len(data)
    if not end:
        # Cut once: it may be long.
        data = stored.data
        at = stored.body_at + 4 * index
        start = stored.body_octets_at + i64(read_i32_le(data, at))
        end = stored.body_octets_at + i64(read_i32_le(data, at + 4))
    try:
        return trusted_block(data[start : start + HEAD_OCTETS], data[start + HEAD_OCTETS : end])
    except BadBlock as error:
        raise AssertionError("a staged block is whole") from error
