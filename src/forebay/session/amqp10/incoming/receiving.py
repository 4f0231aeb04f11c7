"""Links by which clients publish."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64, u8

from forebay.broker.publish.headers import PublishHeaders, read_publish_headers
from forebay.broker.publish.outcome import TAKEN, PublishOutcome
from forebay.core.errors import (
    INVALID,
    MALFORMED,
    NOT_IMPLEMENTED,
    PRECONDITION,
    REFUSED,
    TOO_LARGE,
    TOO_MANY,
    PeerError,
    RequestError,
)
from forebay.core.message import AMQP10, REJECTED, UNROUTABLE
from forebay.message.address import QUEUE_PREFIX
from forebay.message.formats.table import format_of
from forebay.message.requests import MARKS, REQUESTS
from forebay.queue.leases.lease import Delivery
from forebay.routing.exchange import text
from forebay.session.amqp10.addresses import PublishAddress, exchange_path, parse_target, queue_path
from forebay.session.amqp10.conditions import error_of
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.incoming.confirms import SessionConfirms
from forebay.session.amqp10.incoming.publish import check_command, check_copies, publish_held, publish_message
from forebay.session.amqp10.link import LinkEndpoint, LinkError
from forebay.session.amqp10.output import SessionOutput
from forebay.session.amqp10.servicebus.batches import BATCH_FORMAT, split_batch
from forebay.session.shared.held_publishes import HeldPublish, HeldPublishes
from forebay.session.shared.target import PublishTarget
from forebay.session.shared.topology import drop_own_queue
from forebay.wire.amqp10.decoder import read_u32, value_end
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.outgoing import RELEASED_STATE
from forebay.wire.amqp10.performatives import Flow, Transfer
from forebay.wire.amqp10.sections import DATA, TO, Sections, list_field, octets_at, split_sections
from forebay.wire.amqp10.states import (
    IS_ACCEPTED,
    RESOURCE_LIMIT_EXCEEDED,
    TRANSFER_LIMIT_EXCEEDED,
    Error,
    Rejected,
    TransactionalState,
)
from forebay.wire.amqp10.values import BINARY_8, BINARY_32, DESCRIBED, ULONG_SMALL, Symbol

FORMAT: Final = format_of(AMQP10)
LINK_CREDIT: Final = 1000
FRAMES_MAX: Final = 65_535  # of one message
PARTIAL_MAX: Final = 4  # times message_octets_max that messages of a connection have which are not whole
PART_OCTETS: Final = 64  # of memory, beside the octets of a frame
UNCHECKED: Final = b"\xff"  # the properties of no message: those of one without any are b""
CACHED_OCTETS_MAX: Final = 16 << 10  # of properties that are remembered for the next message
# Of the meter: octets of properties that are checked, or read, a point.
CHECK_SHIFT: Final = 6
READ_SHIFT: Final = 2


@final
class ReceivingLink(LinkEndpoint):
    """One link by which a client publishes.

    address       where its messages go; None if each says so itself
    target        of the last message
    properties    sections before the body of the last message: checked, and often the next one's
    format        octet of the record that a message with these properties makes
    headers       what they ask for, if they ask for anything
    credit        deliveries that the client may still send
    parts         of a message that comes in several frames, of `octets` so far; None between messages
    kept          what they take of the connection's memory
    delivery_id   of that message, `is_settled`, `is_foreign`, `is_batch` and `transaction` of it
    is_ignored    that message is a resumed one
    owned         queue that ends with the link; b"" for none
    """

    def __init__(
        self,
        state: LinkContext,
        output: SessionOutput,
        confirms: SessionConfirms,
        name: str,
        handle: i64,
        address: PublishAddress | None,
        owned: bytes,
    ) -> None:
        super().__init__(name, handle, True)
        self.state = state
        self.vhost = state.vhost
        self.output = output
        self.confirms = confirms
        self.address = address
        self.raw = b"" if address is None else address.exchange + b"\0" + address.routing_key
        self.owned = owned
        self.target: PublishTarget | None = None
        self.properties = b""
        self.format: u8 = AMQP10
        self.headers: PublishHeaders | None = None
        self.credit: i64 = 0
        self.parts: list[bytes] | None = None
        self.frames: i64 = 0
        self.octets: i64 = 0
        self.kept: i64 = 0
        self.delivery_id: i64 = 0
        self.is_settled = False
        self.is_foreign = False
        self.is_batch = False
        self.is_ignored = False
        self.transaction = b""
        self.traffic = confirms.traffic
        self.taken: i64 = 0
        self.returned: i64 = 0
        self.dropped: i64 = 0

    def begin(self) -> None:
        self.grant()

    # ---- transfers in

    def on_transfer(self, transfer: Transfer, data: bytes, at: i64, end: i64) -> None:
        parts = self.parts
        if parts is None:
            self.check_first(transfer)
            if not transfer.more and not transfer.aborted and not transfer.resume:
                if end - at > self.state.message_octets_max:
                    raise self.too_large(end - at)
                self.finish(data[at:end])
                self.complete()
                return
            self.is_ignored = transfer.resume  # nothing is unsettled here that it could be a part of (2.7.5)
        elif transfer.delivery_id >= 0 and transfer.delivery_id != self.delivery_id:
            raise self.wrong(f"transfer: delivery-id {transfer.delivery_id} before the end of {self.delivery_id}")
        elif transfer.settled:
            self.is_settled = True
        if transfer.aborted or (self.is_ignored and not transfer.more):
            self.complete()
            return
        if self.is_ignored:
            self.parts = []
            return
        octets = end - at + (self.octets if parts is not None else 0)
        if octets > self.state.message_octets_max:
            raise self.too_large(octets)
        if parts is None:
            parts = self.parts = []
            self.frames = 0
        if transfer.more:
            self.keep_part(parts, data, at, end)
            return
        self.finish(b"".join([*parts, data[at:end]]))
        self.complete()

    def keep_part(self, parts: list[bytes], data: bytes, at: i64, end: i64) -> None:
        """Keep what one frame of a message brings, of which there is more to come."""
        state = self.state
        octets = end - at
        self.frames += 1
        if self.frames > FRAMES_MAX:
            raise LinkError(self, RESOURCE_LIMIT_EXCEEDED, f"a message in more than {FRAMES_MAX} frames")
        if octets == 0:
            return
        if state.partial_octets + octets > PARTIAL_MAX * state.message_octets_max:
            text = f"messages that have begun have more than {PARTIAL_MAX} times message_octets_max together"
            raise LinkError(self, RESOURCE_LIMIT_EXCEEDED, text)
        parts.append(data[at:end])
        self.octets += octets
        self.kept += octets + PART_OCTETS
        state.partial_octets += octets + PART_OCTETS

    def forget_parts(self) -> None:
        """Keep nothing more of a message that came in several frames."""
        self.parts = None
        self.octets = 0
        if self.kept:
            self.state.partial_octets -= self.kept
            self.kept = 0

    def check_first(self, transfer: Transfer) -> None:
        """Take what the first frame of a message says of it."""
        if transfer.delivery_id < 0:
            raise self.wrong("transfer: delivery-id is absent in the first frame of a message")
        if self.credit <= 0:
            raise LinkError(self, TRANSFER_LIMIT_EXCEEDED, "transfer: the link has no credit")
        state = transfer.state
        self.transaction = state.txn_id if isinstance(state, TransactionalState) else b""
        self.delivery_id = transfer.delivery_id
        self.is_settled = transfer.settled
        self.is_foreign = transfer.message_format > 0
        self.is_batch = self.is_foreign and transfer.message_format == BATCH_FORMAT and self.entity != ""

    def complete(self) -> None:
        """Count a message, whatever became of it."""
        if self.parts is not None:
            self.forget_parts()
        self.credit -= 1
        self.count_deliveries(1)
        if self.credit <= LINK_CREDIT >> 1:
            self.grant()

    def grant(self) -> None:
        """Let the client send more."""
        self.credit = LINK_CREDIT
        self.write_flow()

    def write_flow(self) -> None:
        flow = self.output.link_flow(self.handle)
        flow.delivery_count = self.delivery_count
        flow.link_credit = self.credit
        self.output.put_flow(flow)

    def wrong(self, text: str) -> LinkError:
        return LinkError(self, INVALID, text)

    def too_large(self, octets: i64) -> LinkError:
        most = self.state.message_octets_max
        return LinkError(self, TOO_LARGE, f"message size {octets} is larger than configured max size {most}")

    # ---- publishing

    def finish(self, payload: bytes) -> None:
        """Publish a whole message, and say or remember what its publisher is owed. Raises Later, with nothing done."""
        state = self.state
        meter = state.meter
        meter.start_message(False)
        try:
            if self.is_foreign:
                self.finish_batch(payload)
                return
            at: i64 = -1 if self.address is None else known_body_at(payload, self.properties)
            if at >= 0:  # as mostly: the properties of the message before, and one data section
                properties = self.properties
                target = self.find_fixed_target()
            else:
                sections = split_sections(payload, 0, i64(len(payload)))
                properties = properties_column(payload, sections)
                if properties != self.properties:
                    self.check(properties)
                target = self.find_target(sections, payload)
                at = sections.body_at
            body = payload[at:]
            if self.transaction:
                self.hold(self.transaction, target, properties, body)
                return
            if target.plain and self.headers is None:
                outcome = self.vhost.messages.publish(target.route, self.format, properties, body)
            else:
                outcome = publish_message(state, target, self.headers, self.format, properties, body)
        except (PeerError, RequestError) as error:
            self.refuse(error.reason, error.text)
            return
        self.taken += 1
        self.traffic.received += 1
        if outcome is not TAKEN and not self.conclude(outcome):
            return
        if not self.is_settled:
            self.traffic.expecting += 1
            self.unsettled += 1
            self.confirms.add(self, self.delivery_id)

    def finish_batch(self, payload: bytes) -> None:
        """Publish all messages of a batch, or none. Raises Later, PeerError, RequestError, with nothing done."""
        if not self.is_batch or self.transaction:
            raise RequestError(NOT_IMPLEMENTED, "transfer: message-format: must be 0")
        state = self.state
        publishes = HeldPublishes(PARTIAL_MAX * state.message_octets_max)
        target = self.find_fixed_target()
        for message in split_batch(payload):
            sections = split_sections(message, 0, i64(len(message)))
            properties = properties_column(message, sections)
            self.check(properties)
            if self.headers is not None:
                check_copies(state, target, self.headers)
            publishes.publish(HeldPublish(target, self.headers, self.format, properties, message[sections.body_at :]))
        if not publishes.is_welcome(self.vhost):
            raise RequestError(TOO_MANY, "a queue or the disk has no room for all of the batch")
        outcome = TAKEN
        for held in publishes.held:
            outcome = publish_held(state, held)
            self.taken += 1
            self.traffic.received += 1
            if outcome is not TAKEN and outcome.status == REJECTED:
                break  # as memory of what was sent before had no room
        if outcome is not TAKEN and not self.conclude(outcome):
            return
        if not self.is_settled:
            self.traffic.expecting += 1
            self.unsettled += 1
            self.confirms.add(self, self.delivery_id)

    def hold(self, transaction: bytes, target: PublishTarget, properties: bytes, body: bytes) -> None:
        """Hold a message back until its transaction is committed, and say what becomes of it then."""
        check_command(target)
        if self.headers is not None:
            check_copies(self.state, target, self.headers)
        held = HeldPublish(target, self.headers, self.format, properties, body)
        self.state.transactions.find(transaction).publishes.publish(held)
        self.taken += 1
        self.traffic.received += 1
        if not self.is_settled:
            self.output.put_outcome(self.delivery_id, encode_value(TransactionalState(transaction, IS_ACCEPTED)))

    def check(self, properties: bytes) -> None:
        """Check the sections before the body, and find what they ask for."""
        state = self.state
        state.meter.start(i64(len(properties)) >> CHECK_SHIFT)
        self.properties = UNCHECKED  # nothing holds of them if one of these checks fails
        found = FORMAT.check(properties, state.user, state.depth_max)
        self.headers = read_publish_headers(FORMAT, properties) if found & REQUESTS else None
        self.format = stored_format(found)
        if len(properties) <= CACHED_OCTETS_MAX:
            self.properties = properties

    def find_fixed_target(self) -> PublishTarget:
        """Return the target of the link's own address."""
        target = self.target
        if target is None or not target.is_valid():
            assert self.address is not None
            self.state.meter.start(0)
            target = self.target = self.state.find_target(self.raw, self.address)
        return target

    def find_target(self, sections: Sections, payload: bytes) -> PublishTarget:
        """Return the target of a message: the link's, or the one that it names itself."""
        if self.address is not None:
            return self.find_fixed_target()
        end = sections.body_at
        raw = octets_at(payload, list_field(payload, sections.properties, end, TO), end)
        if not raw:
            raise RequestError(PRECONDITION, "properties: to: missing, and the link has no target address")
        target = self.target
        if target is not None and target.raw == raw and target.is_valid():
            return target
        address = parse_target(address_text(raw), [], self.state.options.amqp_queue_addresses)
        self.state.meter.start(0)
        target = self.target = self.state.find_target(raw, address)
        return target

    def conclude(self, outcome: PublishOutcome) -> bool:
        """Answer a message that was not simply taken. Return whether its acceptance waits for the disk."""
        self.state.meter.note_pressing(outcome.pressing)
        if outcome.status == UNROUTABLE:
            if self.is_settled:
                self.dropped += 1
                self.traffic.dropped += 1
            else:
                self.returned += 1
                self.traffic.returned += 1
                self.output.put_outcome(self.delivery_id, RELEASED_STATE)
            return False
        if outcome.status == REJECTED:
            if not self.is_settled:
                error = Error(RESOURCE_LIMIT_EXCEEDED, outcome.reason)
                if outcome.queues:
                    error.info = {"queue": text(outcome.queues[0].name), "reason": Symbol("maxlen")}
                self.output.put_outcome(self.delivery_id, encode_value(Rejected(error)))
            return False
        return True

    def refuse(self, reason: str, why: str) -> None:
        """Reject a message, or end the link of one that its publisher takes for sent."""
        if self.is_settled:
            raise LinkError(self, reason, why)
        if reason == REFUSED:
            self.state.session.note_denied(True, why)
        if reason == MALFORMED:
            self.properties = UNCHECKED
        self.output.put_outcome(self.delivery_id, encode_value(Rejected(error_of(reason, why))))

    # ---- the link

    def on_flow(self, flow: Flow) -> None:
        if flow.echo:
            self.write_flow()

    def deliver(self, delivery: Delivery) -> None:
        raise AssertionError("nothing is delivered by a link that the client sends by")

    def end_turn(self) -> None:
        pass

    def release(self, is_closed: bool) -> None:
        self.is_attached = False
        self.forget_parts()
        if self.owned:
            drop_own_queue(self.state.session, self.owned)

    def describe(self) -> dict[str, object]:
        address = self.address
        where = None
        if address is not None:
            where = exchange_path(address.exchange, address.routing_key)
            if address.routing_key.startswith(QUEUE_PREFIX):
                where = text(address.routing_key)
            elif not address.exchange:
                where = queue_path(address.routing_key)
        return {
            "target_address": where,
            "credit": int(self.credit),
            "max_message_size": int(self.state.message_octets_max),
            "unconfirmed_messages": int(self.unsettled),
        }


def known_body_at(payload: bytes, properties: bytes) -> i64:
    """Return where the body of a message begins that has these properties and one data section; -1 for any other."""
    at = i64(len(properties))
    end = i64(len(payload))
    if at + 5 > end or payload[at] != DESCRIBED or payload[at + 1] != ULONG_SMALL or payload[at + 2] != DATA:
        return -1
    octets: i64 = -1
    if payload[at + 3] == BINARY_8:
        octets = 5 + i64(payload[at + 4])
    elif payload[at + 3] == BINARY_32 and at + 8 <= end:
        octets = 8 + read_u32(payload, at + 4)
    return at if at + octets == end and payload.startswith(properties) else -1


def stored_format(requests: i64) -> u8:
    """Return the octet of a record that a message with these requests in its properties makes."""
    return u8(AMQP10 | requests & MARKS)


def properties_column(payload: bytes, sections: Sections) -> bytes:
    """Return the sections before the body, without the delivery annotations: those are for this hop alone (3.2.2)."""
    at = sections.delivery_annotations
    if at < 0:
        return payload[: sections.body_at]
    start = 0 if sections.header < 0 else value_end(payload, sections.header, sections.end)
    return payload[:start] + payload[value_end(payload, at, sections.end) : sections.body_at]


def address_text(octets: bytes) -> str:
    """Return the text of a message's own address."""
    try:
        return octets.decode("utf-8")
    except UnicodeDecodeError:
        raise RequestError(INVALID, "properties: to: is no UTF-8") from None
