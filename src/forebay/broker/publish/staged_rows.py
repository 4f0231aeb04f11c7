"""Publishing the rows of committed transactions: a bounded part of them each turn, so that others get theirs.

What a turn publishes and what it settles of the staging log are in one frame of the write-ahead log. Where all rows of
a block go to the same queues and ask for nothing special they are copied as a block, without a look at each.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import read_i32_le
from mypy_extensions import i64, u8

from forebay.broker.catalog.owned_names import owner_in
from forebay.broker.internal_log import RECORD_OVERHEAD
from forebay.broker.publish.admission import Admission
from forebay.broker.publish.headers import PublishHeaders, read_publish_headers
from forebay.broker.publish.outcome import TAKEN
from forebay.broker.publish.publishing import Publishing
from forebay.broker.publish.publishing_contract import BatchesContract
from forebay.broker.publish.route import Route
from forebay.broker.publish.staging import CommittedBatch, Staging
from forebay.core.errors import DamagedBlock, RequestError
from forebay.core.message import REJECTED, RETAIN, UNROUTABLE
from forebay.log.block import Block
from forebay.message.address import TOPIC_EXCHANGE
from forebay.message.formats.format import Format
from forebay.message.formats.table import EXCHANGE_FORMAT, format_of
from forebay.message.requests import MARKS, REQUESTS
from forebay.queue.declaration.limits import REJECT_PUBLISH
from forebay.queue.queue import SHARE

ROWS_AT_ONCE: Final = 20_000  # that one turn publishes one by one
OCTETS_AT_ONCE: Final = 8 << 20  # of the blocks that one turn looks at
PENDING_OCTETS_MAX: Final = 32 << 20  # on their way to the disk: with more of them rows wait
MEMO_MAX: Final = 10_000  # properties whose requests are remembered
MEMO_OCTETS_MAX: Final = 512  # longer properties are seldom the same twice


@final
class RowHeaders:
    """The requests in the properties of a row."""

    def __init__(self, format: Format, properties: bytes) -> None:
        found = format.requests(properties)
        self.marks: i64 = found & MARKS
        self.headers: PublishHeaders | None = read_publish_headers(format, properties) if found & REQUESTS else None


@final
class StagedRows(BatchesContract):
    """The memory of a vhost of the rows that it publishes.

    waits  nothing can be published before something else happens: room on the disk or in a queue
    """

    def __init__(self, publishing: Publishing, staging: Staging) -> None:
        self.publishing = publishing
        self.staging = staging
        self.waits = False
        self.known_format: Format = EXCHANGE_FORMAT
        self.known_headers: dict[bytes, RowHeaders] = {}  # of rows of this format
        self.octets: i64 = 0  # left of this turn's share, and rows
        self.rows: i64 = 0

    def publish(self) -> None:
        """Publish this turn's share of what is committed. A commit that cannot go on does not keep up the others."""
        self.octets = OCTETS_AT_ONCE
        self.rows = ROWS_AT_ONCE
        held_up: set[str] = set()
        for commit in list(self.staging.open.values()):
            if commit.query not in held_up and not self.publish_commit(commit):
                held_up.add(commit.query)
            if self.octets <= 0 or self.rows <= 0:
                break
        self.waits = len(held_up) > 0 and self.octets > 0 and self.rows > 0

    def publish_commit(self, commit: CommittedBatch) -> bool:
        """Publish rows of one commit; False where it has to wait for something."""
        staging = self.staging
        while commit.next() >= 0:
            if self.octets <= 0 or self.rows <= 0:
                return True
            if self.staging.store.pending() > PENDING_OCTETS_MAX:
                return False
            try:
                block = staging.block(commit.next())
            except DamagedBlock:
                return False
            self.octets -= block.octets()
            if commit.row == 0:
                route = self.way_of_all(block)
                if route is not None:
                    if not self.publish_block(commit, block, route):
                        return False
                    continue
            if not self.publish_rows(commit, block):
                return False
        staging.finish(commit)
        return True

    # ---- the contract with sessions

    def stage(self, query: str, batch: i64, part: str, rows: i64, block: bytes) -> bool:
        """Keep a block of rows for a batch that is not committed; return False, and keep none, if there is no room."""
        if not self.publishing.admission.take_room(self.staging.octets(block)):
            return False
        self.staging.stage(query, batch, part, rows, block, self.publishing.turn.now_us)
        return True

    def commit(self, query: str, batch: i64, parts: dict[str, int]) -> CommittedBatch:
        """Decide that the staged parts of a batch are published: see `Staging.commit`."""
        return self.staging.commit(query, batch, parts, self.publishing.turn.now_us)

    def abort(self, query: str, batch: i64) -> None:
        """Delete what is staged for a batch; RequestError(PRECONDITION) if it is committed."""
        self.staging.abort(query, batch)

    def is_committed(self, query: str, batch: i64) -> bool:
        """Return whether this batch of a query, or a later one, is committed."""
        return self.staging.is_committed(query, batch)

    def last_batch(self, query: str) -> i64:
        """Return the last batch of a query that was committed, -1 if none is known."""
        return self.staging.last_batch(query)

    def is_durable(self, lsn: i64) -> bool:
        """Return whether the disk has everything up to an lsn."""
        return lsn <= self.staging.store.durable

    # ---- whole blocks

    def way_of_all(self, block: Block) -> Route | None:
        """The route of a block's rows if all have the same, to queues that take whatever comes; None where not."""
        if not is_uniform(block, block.exchange_at, block.exchange_octets_at):
            return None
        if not is_uniform(block, block.key_at, block.key_octets_at):
            return None
        if format_of(block.format(0)).keys_are_topics or not has_one_format(block):
            return None
        route = self.route(False, block.exchange(0), block.routing_key(0))
        if route is None or route.headers_exchange is not None or route.audience is not None or route.copies:
            return None
        for queue in route.queues:
            if queue.kind == SHARE or queue.limits.refuses:
                return None
        return route

    def publish_block(self, commit: CommittedBatch, block: Block, route: Route) -> bool:
        """Publish all rows of a block the same way, as a block if none of them asks for something special."""
        count = block.count
        octet = block.format(0)
        format = format_of(octet)
        marks: i64 = 0
        formats = bytearray()
        if is_uniform(block, block.properties_at, block.properties_octets_at):
            row = self.headers_of(format, block.properties(0))
            if row.headers is not None:
                return self.publish_rows(commit, block)
            marks = row.marks
            formats = bytearray([int(octet | marks)]) * int(count)
        else:
            for index in range(count):
                row = self.headers_of(format, block.properties(index))
                if row.headers is not None:
                    return self.publish_rows(commit, block)
                marks |= row.marks
                formats.append(int(octet | row.marks))
        if not self.publishing.publish_block(route, block, bytes(formats), marks):
            return False
        self.staging.advance(commit, count, 0 if route.queues else count, -1)
        return True

    # ---- row by row

    def publish_rows(self, commit: CommittedBatch, block: Block) -> bool:
        """Publish rows of a block from where it goes on; False where one of them has to wait."""
        user = owner_in(commit.query).encode()
        index = commit.row
        unroutable: i64 = 0
        waits = False
        while index < block.count and self.rows > 0:
            status = self.publish_row(block, index, user)
            if status == REJECTED:
                waits = True
                break
            self.rows -= 1
            if status == UNROUTABLE:
                unroutable += 1
            index += 1
        rows = index - commit.row
        if rows > 0:  # else there is nothing to write down, and no sync would be the last
            self.staging.advance(commit, rows, unroutable, index if index < block.count else -1)
        return not waits

    def publish_row(self, block: Block, index: i64, user: bytes) -> i64:
        """Publish a row for a user; REJECTED only for what is to be tried again."""
        octet = block.format(index)
        format = format_of(octet)
        exchange = block.exchange(index)
        key = block.routing_key(index)
        properties = block.properties(index)
        is_topic = format.keys_are_topics and exchange == TOPIC_EXCHANGE
        route = self.route(is_topic, exchange, key)
        if route is None:
            return UNROUTABLE
        row = self.headers_of(format, properties)
        headers = row.headers
        octet |= row.marks
        if headers is not None and headers.is_delayed() and not self.publishing.delayed.has_places(1):
            return REJECTED
        if route.headers_exchange is not None and headers is None:
            route = self.publishing.router.resolve(route, u8(octet), properties)
        if self.publishing.crowding.refusing and self.publishing.admission.over_quota(route) is not None:
            return REJECTED
        for queue in route.queues:
            if queue.limits.overflow == REJECT_PUBLISH and queue.is_full():
                return REJECTED
        body = block.body(index)
        if not has_room(
            self.publishing.admission, route, headers, len(properties) + len(body) + len(exchange) + len(key)
        ):
            return REJECTED
        outcome = TAKEN
        if headers is not None:
            outcome = self.publishing.publish_with_headers(route, headers, u8(octet), body, user)
        elif is_topic and octet & RETAIN:
            outcome = self.publishing.retain(key, u8(octet), properties, body)
        if headers is None and outcome is TAKEN:
            outcome = self.publishing.publish(route, u8(octet), properties, body)
        # There was room for it: it was refused for good, and a dead-letter exchange may have it.
        return UNROUTABLE if outcome.status == REJECTED else outcome.status

    # ---- what is remembered

    def route(self, is_topic: bool, exchange: bytes, key: bytes) -> Route | None:
        """Return the route of an exchange and key, or None if the exchange no longer exists."""
        router = self.publishing.router
        try:
            return router.route_topic(key, None) if is_topic else router.route(exchange, key)
        except RequestError:
            return None  # its exchange is gone

    def headers_of(self, format: Format, properties: bytes) -> RowHeaders:
        """Return the requests in checked properties of a format."""
        if format is not self.known_format:
            self.known_format = format
            self.known_headers.clear()
        row = self.known_headers.get(properties)
        if row is None:
            row = RowHeaders(format, properties)
            if len(properties) <= MEMO_OCTETS_MAX:
                if len(self.known_headers) >= MEMO_MAX:
                    self.known_headers.clear()
                self.known_headers[properties] = row
        return row


def has_room(admission: Admission, route: Route, headers: PublishHeaders | None, octets: i64) -> bool:
    """Return whether the disk has room for a row of `octets` bytes and all its copies."""
    copies = route.durable + 1  # a topic may retain it
    if headers is not None:
        copies += len(headers.keys) + 2  # a record for each of its keys, and those that name it
    return admission.has_room((octets + RECORD_OVERHEAD) * copies)


def is_uniform(block: Block, offsets_at: i64, octets_at: i64) -> bool:
    """True if all values of a column are the same octets."""
    data = block.data
    octets = i64(read_i32_le(data, offsets_at + 4))
    for index in range(2, block.count + 1):
        if i64(read_i32_le(data, offsets_at + 4 * index)) != octets * index:
            return False
    return data[octets_at : octets_at + octets * block.count] == data[octets_at : octets_at + octets] * block.count


def has_one_format(block: Block) -> bool:
    """True if all records of a block have the same."""
    formats = block.data[block.formats_at : block.formats_at + block.count]
    return formats == formats[:1] * block.count
