"""The link by which a client declares and discharges transactions (4.1).

What a client sends and settles under the name of a transaction is done in one turn, and so in one frame of the
write-ahead log, when that is committed.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import (
    INVALID,
    MALFORMED,
    NOT_ALLOWED,
    NOT_IMPLEMENTED,
    PeerError,
    RequestError,
    note_half_change,
)
from forebay.core.message import REJECTED
from forebay.queue.leases.lease import Delivery
from forebay.session.amqp10.conditions import error_of
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.incoming.confirms import SessionConfirms
from forebay.session.amqp10.incoming.publish import publish_held
from forebay.session.amqp10.link import LinkEndpoint, LinkError
from forebay.session.amqp10.output import SessionOutput
from forebay.session.amqp10.transactions import OpenTransaction, Transactions
from forebay.wire.amqp10.decoder import decode_value
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.performatives import Declare, Discharge, Flow, Transfer, performative_of
from forebay.wire.amqp10.sections import AMQP_VALUE, data_value, split_sections
from forebay.wire.amqp10.states import TRANSACTION_ROLLBACK, DeclaredState, Rejected

COORDINATOR_CREDIT: Final = 100


@final
class CoordinatorLink(LinkEndpoint):
    """A link by which a client declares and discharges transactions."""

    def __init__(
        self,
        context: LinkContext,
        transactions: Transactions,
        output: SessionOutput,
        confirms: SessionConfirms,
        name: str,
        handle: i64,
    ) -> None:
        super().__init__(name, handle, True)
        self.context = context
        self.transactions = transactions
        self.output = output
        self.confirms = confirms

    def begin(self) -> None:
        self.write_flow()

    def write_flow(self) -> None:
        self.output.put_credit(self.handle, self.delivery_count, COORDINATOR_CREDIT)

    def on_transfer(self, transfer: Transfer, data: bytes, at: i64, end: i64) -> None:
        if transfer.aborted:
            self.count_deliveries(1)
            self.write_flow()
            return
        if transfer.more or transfer.settled or transfer.delivery_id < 0:
            raise LinkError(
                self, NOT_ALLOWED, "declare and discharge must be one frame with a delivery-id, not settled"
            )
        try:
            request = read_request(data, at, end, self.context.depth_max)
            if isinstance(request, Declare):
                if request.global_id is not None:
                    raise RequestError(NOT_IMPLEMENTED, "declare: global-id: there are no distributed transactions")
                made = self.transactions.declare(self)
                self.output.put_outcome(transfer.delivery_id, encode_value(DeclaredState(made.id)))
            elif isinstance(request, Discharge):
                self.discharge(request, transfer.delivery_id)
            else:
                raise RequestError(INVALID, "a coordinator takes declare and discharge")
        except (PeerError, RequestError) as error:
            rejected = Rejected(error_of(error.reason, error.text))
            self.output.put_outcome(transfer.delivery_id, encode_value(rejected))
        self.count_deliveries(1)
        self.write_flow()

    def discharge(self, request: Discharge, delivery_id: i64) -> None:
        """Commit a transaction, which is accepted once it is on disk, or roll it back."""
        transaction = self.transactions.find(request.txn_id)
        if not request.fail:
            self.commit(transaction)
        self.transactions.end(transaction)
        if request.fail:
            transaction.roll_back()
        self.unsettled += 1
        self.confirms.add(self, delivery_id)

    def commit(self, transaction: OpenTransaction) -> None:
        """Do all that a transaction holds back, or none of it and roll it back. Raises Later, with nothing done."""
        context = self.context
        publishes = transaction.publishes
        try:
            while publishes.found < len(publishes.held):  # those before have been found, where it had to wait
                held = publishes.held[publishes.found]
                if not held.target.is_valid():
                    held.target = context.find_target_again(held.target)
                publishes.found += 1
            publishes.found = 0
            if not publishes.is_welcome(context.vhost):
                raise RequestError(TRANSACTION_ROLLBACK, "discharge: a queue or the disk has no room for all of it")
        except RequestError as error:
            self.transactions.end(transaction)
            transaction.roll_back()
            raise RequestError(TRANSACTION_ROLLBACK, error.text) from None
        try:
            for held in publishes.held:
                outcome = publish_held(context, held)
                context.meter.note_pressing(outcome.pressing)
                if outcome.status == REJECTED:  # as memory of what was sent before had no room
                    self.transactions.end(transaction)
                    raise RequestError(TRANSACTION_ROLLBACK, f"discharge: only a part is done: {outcome.reason}")
            if transaction.outcomes:
                context.vhost.hurry()  # acknowledgements wait for somebody else's commit otherwise
            for settled in transaction.outcomes:
                settled.effect.apply(settled.deliveries, settled.first, settled.last)
        except Exception as error:
            note_half_change(error)
            raise

    def on_flow(self, flow: Flow) -> None:
        if flow.echo:
            self.write_flow()

    def deliver(self, delivery: Delivery) -> None:
        raise AssertionError("no queue is delivered by this link")

    def end_turn(self) -> None:
        pass

    def release(self, is_closed: bool) -> None:
        self.is_attached = False
        self.transactions.roll_back_all(self)

    def describe(self) -> dict[str, object]:
        return {"target_address": None, "transactions": len(self.transactions.open), "credit": COORDINATOR_CREDIT}


def read_request(data: bytes, at: i64, end: i64, depth_max: i64) -> object:
    """Return what a message to a coordinator asks for. Raises PeerError(MALFORMED)."""
    found = split_sections(data, at, end)
    if found.body_kind != AMQP_VALUE:
        raise PeerError(MALFORMED, "a message to a coordinator must have one amqp-value section")
    return performative_of(decode_value(data, data_value(data, found.body_at), found.footer_at, depth_max))
