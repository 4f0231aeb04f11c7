"""Links by which clients consume."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.consuming.message_sessions import SessionLock
from forebay.core.errors import INVALID, NOT_IMPLEMENTED, RequestError
from forebay.queue.leases.lease import Consumer, Delivery
from forebay.queue.queue import Queue
from forebay.routing.exchange import text
from forebay.session.amqp10.addresses import queue_path
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.link import LinkEndpoint, LinkError
from forebay.session.amqp10.outgoing.encode import DeliveryEncoder
from forebay.session.amqp10.output import SessionOutput
from forebay.session.amqp10.servicebus.locks import LockTokens
from forebay.session.amqp10.transactions import OpenTransaction
from forebay.session.amqp10.windows import SERIAL_MASK, serial_difference
from forebay.session.shared.topology import drop_own_queue
from forebay.session.shared.unsettled import BY_DEFAULT, REJECT, UnsettledDeliveries
from forebay.wire.amqp10.fields import ABSENT
from forebay.wire.amqp10.performatives import Flow, Transfer
from forebay.wire.amqp10.states import NOT_ALLOWED

CREDIT_MAX: Final = 1 << 31  # more is as good as no limit


@final
class SendingLink(LinkEndpoint):
    """One link by which a client consumes.

    consumer    of the queue
    queue       that it takes from; None for direct replies
    runs        the unsettled deliveries of the session
    limit       delivery-count at which the credit ends
    waiting     records that are the link's already and wait for the session's window
    is_stalled  its consumer gets nothing more before these are sent
    is_listed   the session has it among the links to answer
    is_draining the client has asked for what there is, and to hear when that was all
    owes_flow   the client has asked how the link stands
    acquisition transaction that the credit was given under; None for most
    owned       queue that ends with the link; b"" for none
    is_durable  the queue stays when the link is detached, and goes when it is closed
    is_lost     the queue is gone, or has taken back what the client holds
    session_lock  message group that is the client's alone
    tokens      of the locks of its messages, which are their delivery-tags; None but for clients of Azure Service Bus
    """

    def __init__(
        self,
        state: LinkContext,
        output: SessionOutput,
        runs: UnsettledDeliveries,
        name: str,
        handle: i64,
        consumer: Consumer,
        queue: Queue | None,
        encoder: DeliveryEncoder,
    ) -> None:
        super().__init__(name, handle, False)
        self.state = state
        self.vhost = state.vhost
        self.output = output
        self.runs = runs
        self.consumer = consumer
        self.queue = queue
        self.encoder = encoder
        self.limit: i64 = 0
        self.waiting: i64 = 0
        self.is_stalled = False
        self.is_listed = False
        self.is_draining = False
        self.owes_flow = False
        self.acquisition: OpenTransaction | None = None
        self.owned = b""
        self.is_durable = False
        self.is_lost = False
        self.tokens: LockTokens | None = None
        self.session_lock: SessionLock | None = None

    def delivery_tag(self, number: i64) -> bytes:
        """Return the delivery-tag of the delivery of a number."""
        tokens = self.tokens
        if tokens is not None:
            return tokens.token(number)
        return bytes([int(number >> 24 & 255), int(number >> 16 & 255), int(number >> 8 & 255), int(number & 255)])

    def has_lost_session(self, now_us: i64) -> bool:
        """Return whether the client's lock of its message group has ended."""
        return self.session_lock is not None and self.session_lock.until_us <= now_us

    def begin(self) -> None:
        pass  # the client gives the credit

    def undeliverable_how(self, how: i64) -> i64:
        """Return REJECT if the queue has dead letters, and nobody else consumes it; else the messages go back to it.

        RabbitMQ's clients call this outcome `discard`: what comes from them always goes to the dead letters.
        """
        queue = self.queue
        if queue is None or (queue.limits.dead_letter_exchange is None and not queue.limits.dlq):
            return how
        group = queue.groups.get(self.consumer.group)
        is_alone = group is None or len(group.consumers) < 2
        return REJECT if is_alone or self.state.knows_rabbitmq else how

    # ---- credit

    def on_flow(self, flow: Flow) -> None:
        if flow.properties is not None or self.acquisition is not None:
            self.begin_acquisition(flow)
        if flow.link_credit >= 0:
            seen = 0 if flow.delivery_count == ABSENT else flow.delivery_count
            self.limit = (seen + min(flow.link_credit, CREDIT_MAX - 1)) & SERIAL_MASK
            self.is_draining = flow.drain
            if not self.is_stalled:
                self.grant()
        if flow.echo:
            self.owes_flow = True

    def begin_acquisition(self, flow: Flow) -> None:
        """Send what comes next under the transaction that a flow names, or under none if it names none (4.4.3)."""
        id = None if flow.properties is None else flow.properties.get("txn-id")
        if id is None:
            self.acquisition = None
            return
        if not isinstance(id, bytes):
            raise LinkError(self, INVALID, f"flow: txn-id {id!r}: must be binary")
        if self.consumer.no_ack:
            raise LinkError(self, NOT_IMPLEMENTED, "flow: txn-id: the link's deliveries are settled when they are sent")
        try:
            found = self.state.transactions.find(id)
        except RequestError as error:
            raise LinkError(self, error.reason, error.text) from None
        if found is not self.acquisition:
            self.acquisition = found
            if self not in found.acquirers:
                found.acquirers.append(self)

    def end_acquisition(self, transaction: bytes) -> None:
        if self.acquisition is None or self.acquisition.id != transaction or not self.is_attached:
            return
        self.acquisition = None
        self.limit = (self.delivery_count + self.waiting) & SERIAL_MASK  # what waits has been granted
        self.is_draining = False
        if not self.is_stalled:
            self.grant()
        self.write_flow(False)

    def grant(self) -> None:
        """Let the consumer have what the client takes beside all that is on its way."""
        credit = max(0, serial_difference(self.limit, self.delivery_count) - self.waiting)
        self.vhost.consuming.flow(self.consumer, credit, self.is_draining)

    def stall(self) -> None:
        """Let the consumer have nothing more until `resume`."""
        self.is_stalled = True
        self.vhost.consuming.flow(self.consumer, 0, False)

    def resume(self) -> None:
        """Let the consumer have again what the client takes."""
        self.is_stalled = False
        if self.is_attached:
            self.grant()

    def end_turn(self) -> None:
        """Say how the link stands, if the client has asked, behind all that it is sent."""
        if self.is_stalled:
            return
        if self.is_draining and not self.consumer.drains:
            self.is_draining = self.owes_flow = False
            if serial_difference(self.limit, self.delivery_count) > 0:
                self.delivery_count = self.limit
            self.write_flow(True)
        elif self.owes_flow and not self.is_draining:
            self.owes_flow = False
            self.write_flow(False)

    def write_flow(self, drain: bool) -> None:
        flow = self.output.link_flow(self.handle)
        flow.delivery_count = self.delivery_count
        flow.link_credit = max(0, serial_difference(self.limit, self.delivery_count))
        flow.available = 0 if self.queue is None else max(0, self.queue.ready())
        flow.drain = drain
        self.output.put_flow(flow)

    def is_asked(self) -> bool:
        """Return whether the client waits for a flow."""
        return self.is_draining or self.owes_flow

    # ---- records out

    def cut_replies(self, delivery: Delivery) -> Delivery | None:
        """Return those of some direct replies that the client has given credit for; the others are lost."""
        room = max(0, serial_difference(self.limit, self.delivery_count) - self.waiting)
        if delivery.count <= room:
            return delivery
        return Delivery(delivery.consumer, delivery.block, delivery.index, room, None) if room else None

    def deliver(self, delivery: Delivery) -> None:
        raise AssertionError("the session writes the deliveries of its links")

    def on_transfer(self, transfer: Transfer, data: bytes, at: i64, end: i64) -> None:
        raise LinkError(self, NOT_ALLOWED, "transfer: the client is the receiver of this link")

    # ---- the end

    def release(self, is_closed: bool) -> None:
        self.is_attached = False
        self.state.receivers.pop(self.consumer.id, None)
        if self.session_lock is not None:
            self.session_lock.release()
        if not self.is_lost:
            self.runs.take_back(self, BY_DEFAULT)
        self.runs.forget(self)
        queue = self.queue
        if queue is None:
            self.vhost.direct_replies.close(self.consumer)
        self.vhost.consuming.cancel(self.consumer)
        if not self.owned or queue is None:
            return
        if not self.is_durable:
            drop_own_queue(self.state.session, self.owned)
        elif is_closed and not queue.consumer_count():
            drop_own_queue(self.state.session, self.owned)
            self.state.session.note_change("queue.delete", {"queue": self.owned, "messages": int(queue.ready())})

    def describe(self) -> dict[str, object]:
        return {
            "source_address": queue_path(self.consumer.queue_name),
            "queue_name": text(self.consumer.queue_name),
            "credit": int(max(0, serial_difference(self.limit, self.delivery_count))),
            "send_settled": self.consumer.no_ack,
        }
