"""Staging rows and committing them over the block protocol: what is checked before the broker keeps any of it.

Rows are checked as a publisher's messages are, when they come; what is committed later needs no second look.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.catalog.owned_names import owned_name
from forebay.broker.contract import VhostContract
from forebay.broker.publish.commands import MESSAGE, command_at, topic_command_at
from forebay.broker.publish.headers import read_publish_headers
from forebay.broker.publish.outcome import NO_ROOM
from forebay.broker.publish.replies import REPLY_QUEUE
from forebay.broker.publish.staged_rows import has_one_format, is_uniform
from forebay.broker.publish.staging import CommittedBatch
from forebay.core.errors import INVALID, NOT_FOUND, PRECONDITION, REFUSED, PeerError, RequestError
from forebay.core.options import Options
from forebay.directory.permissions import Rights
from forebay.log.block import HEAD_OCTETS, BadBlock, Block, check_columns, parse_block
from forebay.message.address import QUEUE_PREFIX, TOPIC_EXCHANGE
from forebay.message.formats.format import Format
from forebay.message.formats.table import format_of, known_format
from forebay.message.requests import REQUESTS
from forebay.routing.exchange import text
from forebay.routing.topic_trie import check_topic
from forebay.wire.blocks.frames import ABORT, COMMIT, TRANSACTION, Request
from forebay.wire.blocks.stage import decode_stage

CHECKED_MAX: Final = 10_000  # distinct values of one block that are remembered
COMMIT_OCTETS: Final = 1024  # a commit takes on the disk beside its parts
PART_OCTETS: Final = 16


@final
class Stager:
    """The transactions of one connection.

    commit  the one whose answer is awaited
    again   it was committed before
    """

    def __init__(self, options: Options) -> None:
        self.body_octets_max: i64 = options.message_octets_max
        self.depth_max: i64 = options.table_depth_max
        self.commit: CommittedBatch | None = None
        self.again = False
        self.rows: i64 = 0
        self.octets: i64 = 0

    def answer(self, vhost: VhostContract, rights: Rights, request: Request) -> dict[str, object] | None:
        """The answer to a request; None while its commit is on its way. RequestError if it asks the impossible."""
        if rights.grants.permission is None:
            raise RequestError(REFUSED, f"{request.op}: no vhost is entered")
        query = owned_name(rights.user, "query", request.query)
        if request.op == TRANSACTION:
            return {"batch": int(vhost.batches.last_batch(query))}
        if request.op == ABORT:
            vhost.batches.abort(query, request.batch)
            return {}
        assert request.op == COMMIT, request.op
        commit = self.commit
        if commit is None:
            octets: i64 = COMMIT_OCTETS
            for part in request.parts:
                octets += len(part.encode()) + PART_OCTETS
            if not vhost.take_room(octets):
                raise RequestError(REFUSED, f"commit: {NO_ROOM.reason}")
            self.again = vhost.batches.is_committed(query, request.batch)
            commit = vhost.batches.commit(query, request.batch, request.parts)
            self.commit = commit
        if not commit.finished or not vhost.batches.is_durable(commit.lsn):
            return None
        self.commit = None
        return {"rows": int(commit.rows), "unroutable": int(commit.unroutable), "again": self.again}

    def stage(self, vhost: VhostContract, rights: Rights, data: bytes, at: i64, end: i64) -> dict[str, object]:
        """Keep the rows of the STAGE payload data[at:end]; the answer.

        raises  PeerError, or RequestError if any of them may not be published: then none is kept
        """
        stage = decode_stage(data, at, end)
        query = owned_name(rights.user, "query", stage.query)
        if vhost.batches.is_committed(query, stage.batch):
            return {"rows": 0, "again": True}
        octets = data[at + stage.block_at : end]
        try:
            block = parse_block(octets[:HEAD_OCTETS], octets[HEAD_OCTETS:])  # none with a longer head
            check_columns(block)
            if block.annotated:
                raise BadBlock("annotations are the broker's alone")
        except BadBlock as error:
            raise RequestError(INVALID, f"stage: {error}") from None
        self.check_addresses(vhost, rights, block)
        self.check_properties(vhost, rights, block)
        self.check_bodies(block)
        if not vhost.batches.stage(query, stage.batch, stage.part, block.count, octets):
            raise RequestError(REFUSED, f"stage: {NO_ROOM.reason}")
        self.rows += block.count
        self.octets += len(octets)
        return {"rows": int(block.count), "again": False}

    # ---- what rows are checked for

    def check_addresses(self, vhost: VhostContract, rights: Rights, block: Block) -> None:
        """RequestError unless the user may publish wherever the rows go, and there is such a place."""
        count: i64 = 1 if has_one_address(block) else block.count
        seen: set[tuple[i64, bytes, bytes]] = set()
        for index in range(count):
            address = (block.format(index), block.exchange(index), block.routing_key(index))
            if address in seen:
                continue
            try:
                check_address(vhost, rights, address[0], address[1], address[2])
            except RequestError as error:
                raise RequestError(error.reason, f"stage: row {index}: {error.text}") from None
            if len(seen) < CHECKED_MAX:
                seen.add(address)

    def check_properties(self, vhost: VhostContract, rights: Rights, block: Block) -> None:
        """RequestError unless the properties of every row are good, for what its format says that they are."""
        alike = has_one_format(block) and is_uniform(block, block.properties_at, block.properties_octets_at)
        seen: set[bytes] = set()
        for index in range(block.count):
            properties = block.properties(index)
            format = format_of(block.format(index))
            marked = bytes([int(format.number)]) + properties
            if marked in seen:
                continue
            by_address = False
            try:
                by_address = self.check_row(vhost, rights, format, block.exchange(index), properties)
            except PeerError as error:
                raise RequestError(INVALID, f"stage: row {index}: properties: {error.text}") from None
            except RequestError as error:
                raise RequestError(error.reason, f"stage: row {index}: {error.text}") from None
            if not by_address:
                if alike:
                    return
                if len(seen) < CHECKED_MAX:
                    seen.add(marked)

    def check_row(
        self, vhost: VhostContract, rights: Rights, format: Format, exchange: bytes, properties: bytes
    ) -> bool:
        """Errors as for a publisher's properties; whether they would have to be checked for another exchange again."""
        found = format.check(properties, rights.user.encode(), self.depth_max)
        if format.reply_to(properties) == REPLY_QUEUE:
            raise RequestError(PRECONDITION, "fast reply consumer does not exist")
        if not found & REQUESTS:
            return False
        keys = read_publish_headers(format, properties).keys
        for key in keys:
            rights.check_publish(exchange, key, vhost.is_topic_exchange(exchange))
        return len(keys) > 0

    def check_bodies(self, block: Block) -> None:
        """RequestError where a row's value is longer than a message may be."""
        if block.body_span(0, block.count) <= self.body_octets_max:
            return
        for index in range(block.count):
            octets = block.body_span(index, 1)
            if octets > self.body_octets_max:
                most = self.body_octets_max
                raise RequestError(INVALID, f"stage: row {index}: {octets} octets, message_octets_max is {most}")


def check_address(vhost: VhostContract, rights: Rights, format: i64, exchange: bytes, key: bytes) -> None:
    """RequestError unless the user may publish a record of this format there, and it leads to something."""
    known = known_format(format)
    if known is None or not known.may_publish(format):
        raise RequestError(INVALID, f"format {format} is neither that of AMQP 0.9.1 nor one of MQTT")
    if known.keys_are_topics and exchange == TOPIC_EXCHANGE:
        check_topic(key)
        if key.startswith(b"$") and (not key.startswith(QUEUE_PREFIX) or topic_command_at(key)):
            raise RequestError(REFUSED, f"topic '{text(key)}' is no topic of messages")
        rights.check_publish_topic(key)
        vhost.routes.route_topic(key, None)
        return
    command, _ = command_at(exchange, key)
    if command != MESSAGE:
        raise RequestError(REFUSED, f"routing key '{text(key)}' is a command, no queue")
    rights.check_publish(exchange, key, vhost.is_topic_exchange(exchange))
    route = vhost.routes.route(exchange, key)
    if not exchange and not route.queues:
        raise RequestError(NOT_FOUND, f"no queue '{text(key)}' in vhost '{text(vhost.name)}'")


def has_one_address(block: Block) -> bool:
    """True if all rows go to the same place."""
    if not has_one_format(block) or not is_uniform(block, block.exchange_at, block.exchange_octets_at):
        return False
    return is_uniform(block, block.key_at, block.key_octets_at)
