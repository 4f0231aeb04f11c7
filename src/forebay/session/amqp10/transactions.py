"""The open transactions of a connection (part 4): messages and outcomes that wait for the discharge."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import TOO_MANY, RequestError
from forebay.session.amqp10.link import LinkEndpoint
from forebay.session.amqp10.outgoing.outcomes import OutcomeEffect
from forebay.session.shared.held_publishes import HELD_OCTETS, HeldPublishes
from forebay.session.shared.unsettled import RETURN, UnsettledDeliveries
from forebay.wire.amqp10.states import UNKNOWN_TRANSACTION

TRANSACTIONS_MAX: Final = 16  # of one connection
OUTCOMES_MAX: Final = 100_000  # ranges that one transaction settles


@final
class HeldOutcome:
    """An outcome of deliveries with tags from `first` to `last`, in the session whose deliveries these are."""

    def __init__(self, deliveries: UnsettledDeliveries, first: i64, last: i64, effect: OutcomeEffect) -> None:
        self.deliveries = deliveries
        self.first: i64 = first
        self.last: i64 = last
        self.effect = effect


@final
class AcquiredRange:
    """Deliveries with tags from `first` to `last` that were sent under a transaction."""

    def __init__(self, deliveries: UnsettledDeliveries, first: i64, last: i64) -> None:
        self.deliveries = deliveries
        self.first: i64 = first
        self.last: i64 = last


@final
class OpenTransaction:
    """One transaction.

    coordinator  link that declared it
    acquired     unsettled deliveries that were sent under it, as first and last tags in their session
    acquirers    links whose credit belongs to it
    """

    def __init__(self, id: bytes, coordinator: LinkEndpoint, octets_max: i64) -> None:
        self.id = id
        self.coordinator = coordinator
        self.publishes = HeldPublishes(octets_max)
        self.outcomes: list[HeldOutcome] = []
        self.acquired: list[AcquiredRange] = []
        self.acquirers: list[LinkEndpoint] = []

    def acquire(self, deliveries: UnsettledDeliveries, first: i64, last: i64) -> None:
        """Note that deliveries were sent under the transaction."""
        if self.acquired:
            before = self.acquired[len(self.acquired) - 1]
            if before.deliveries is deliveries and before.last + 1 == first:
                before.last = last
                return
        self.acquired.append(AcquiredRange(deliveries, first, last))

    def end_acquisition(self) -> None:
        """End the credit that links were given under the transaction."""
        for link in self.acquirers:
            link.end_acquisition(self.id)
        self.acquirers = []

    def settle(self, outcome: HeldOutcome) -> None:
        """Hold an outcome back."""
        if len(self.outcomes) >= OUTCOMES_MAX:
            raise RequestError(TOO_MANY, f"transaction: more than {OUTCOMES_MAX} outcomes before its discharge")
        self.publishes.charge(HELD_OCTETS + i64(len(outcome.effect.annotations)))
        self.outcomes.append(outcome)

    def roll_back(self) -> None:
        """Forget the publishes, and give back what was to be settled and what was acquired."""
        for held in self.outcomes:
            held.deliveries.settle(held.first, held.last, RETURN)
        for acquired in self.acquired:
            acquired.deliveries.settle(acquired.first, acquired.last, RETURN)
        self.outcomes = []
        self.acquired = []
        self.publishes.clear()


@final
class Transactions:
    """The open transactions of one connection, by their names."""

    def __init__(self, octets_max: i64) -> None:
        self.octets_max: i64 = octets_max
        self.open: dict[bytes, OpenTransaction] = {}
        self.next: i64 = 1

    def declare(self, coordinator: LinkEndpoint) -> OpenTransaction:
        """Begin a transaction."""
        if len(self.open) >= TRANSACTIONS_MAX:
            raise RequestError(TOO_MANY, f"declare: more than {TRANSACTIONS_MAX} transactions at once")
        made = OpenTransaction(b"%d" % int(self.next), coordinator, self.octets_max)
        self.next += 1
        self.open[made.id] = made
        return made

    def find(self, id: bytes) -> OpenTransaction:
        """Return a transaction. Raises RequestError(UNKNOWN_TRANSACTION) if no such one is open."""
        found = self.open.get(id)
        if found is None:
            raise RequestError(UNKNOWN_TRANSACTION, f"transaction {id.hex()} is not open")
        return found

    def end(self, transaction: OpenTransaction) -> None:
        """Take a transaction out that commits or rolls back."""
        del self.open[transaction.id]
        transaction.end_acquisition()

    def roll_back_all(self, coordinator: LinkEndpoint) -> None:
        """Roll back what one link has declared."""
        for each in list(self.open.values()):
            if each.coordinator is coordinator:
                self.end(each)
                each.roll_back()
