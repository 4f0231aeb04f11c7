"""The open transactions of a connection (part 4): messages and outcomes that wait for the discharge."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import TOO_MANY, RequestError
from forebay.session.amqp10.link import LinkEndpoint
from forebay.session.amqp10.outgoing.outcomes import OutcomeEffect
from forebay.session.shared.held_publishes import HeldPublishes
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
class OpenTransaction:
    """One transaction.

    coordinator  link that declared it
    """

    def __init__(self, id: bytes, coordinator: LinkEndpoint, octets_max: i64) -> None:
        self.id = id
        self.coordinator = coordinator
        self.publishes = HeldPublishes(octets_max)
        self.outcomes: list[HeldOutcome] = []

    def settle(self, outcome: HeldOutcome) -> None:
        """Hold an outcome back."""
        if len(self.outcomes) >= OUTCOMES_MAX:
            raise RequestError(TOO_MANY, f"transaction: more than {OUTCOMES_MAX} outcomes before its discharge")
        self.outcomes.append(outcome)

    def roll_back(self) -> None:
        """Forget the publishes, and give back what was to be settled."""
        for held in self.outcomes:
            held.deliveries.settle(held.first, held.last, RETURN)
        self.outcomes = []
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

    def roll_back_all(self, coordinator: LinkEndpoint) -> None:
        """Roll back what one link has declared."""
        for each in list(self.open.values()):
            if each.coordinator is coordinator:
                del self.open[each.id]
                each.roll_back()
