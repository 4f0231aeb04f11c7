"""Delivery states and errors (parts 2.8, 3.4 and 4.5 of the standard).

received 0x23   accepted 0x24   rejected 0x25   released 0x26   modified 0x27
declared 0x33   transactional-state 0x34        error 0x1d
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.wire.amqp10.fields import FieldReader, code_of, true_or_none
from forebay.wire.amqp10.values import Composite, Described, Map, Symbol, Uint, Ulong, symbol_map

ERROR: Final = 0x1D
RECEIVED: Final = 0x23
ACCEPTED: Final = 0x24
REJECTED: Final = 0x25
RELEASED: Final = 0x26
MODIFIED: Final = 0x27
DECLARED: Final = 0x33
TRANSACTIONAL_STATE: Final = 0x34

STATE_NAMES: Final = {
    "amqp:error:list": ERROR,
    "amqp:received:list": RECEIVED,
    "amqp:accepted:list": ACCEPTED,
    "amqp:rejected:list": REJECTED,
    "amqp:released:list": RELEASED,
    "amqp:modified:list": MODIFIED,
    "amqp:declared:list": DECLARED,
    "amqp:transactional-state:list": TRANSACTIONAL_STATE,
}

# Error conditions (section 2.8.15 to 2.8.18, and 4.5.8).
INTERNAL_ERROR: Final = "amqp:internal-error"
NOT_FOUND: Final = "amqp:not-found"
UNAUTHORIZED_ACCESS: Final = "amqp:unauthorized-access"
DECODE_ERROR: Final = "amqp:decode-error"
RESOURCE_LIMIT_EXCEEDED: Final = "amqp:resource-limit-exceeded"
NOT_ALLOWED: Final = "amqp:not-allowed"
INVALID_FIELD: Final = "amqp:invalid-field"
NOT_IMPLEMENTED: Final = "amqp:not-implemented"
RESOURCE_LOCKED: Final = "amqp:resource-locked"
PRECONDITION_FAILED: Final = "amqp:precondition-failed"
RESOURCE_DELETED: Final = "amqp:resource-deleted"
ILLEGAL_STATE: Final = "amqp:illegal-state"
FRAME_SIZE_TOO_SMALL: Final = "amqp:frame-size-too-small"
CONNECTION_FORCED: Final = "amqp:connection:forced"
FRAMING_ERROR: Final = "amqp:connection:framing-error"
CONNECTION_REDIRECT: Final = "amqp:connection:redirect"
WINDOW_VIOLATION: Final = "amqp:session:window-violation"
ERRANT_LINK: Final = "amqp:session:errant-link"
HANDLE_IN_USE: Final = "amqp:session:handle-in-use"
UNATTACHED_HANDLE: Final = "amqp:session:unattached-handle"
DETACH_FORCED: Final = "amqp:link:detach-forced"
TRANSFER_LIMIT_EXCEEDED: Final = "amqp:link:transfer-limit-exceeded"
MESSAGE_SIZE_EXCEEDED: Final = "amqp:link:message-size-exceeded"
LINK_REDIRECT: Final = "amqp:link:redirect"
STOLEN: Final = "amqp:link:stolen"
UNKNOWN_TRANSACTION: Final = "amqp:transaction:unknown-id"
TRANSACTION_ROLLBACK: Final = "amqp:transaction:rollback"
TRANSACTION_TIMEOUT: Final = "amqp:transaction:timeout"


@final
class Error(Composite):
    """The reason for the failure of a delivery, link, session or connection.

    condition  a symbol, such as `amqp:not-found`
    info       details by name, or None
    """

    def __init__(self, condition: str, description: str | None = None, info: dict[str, object] | None = None) -> None:
        super().__init__(ERROR)
        self.condition = condition
        self.description = description
        self.info = info

    def fields(self) -> list[object]:
        return [Symbol(self.condition), self.description, symbol_map(self.info)]


@final
class Received(Composite):
    """The state of a partly transferred delivery: the number of whole sections, and of octets of the next section."""

    def __init__(self, section_number: i64, section_offset: i64) -> None:
        super().__init__(RECEIVED)
        self.section_number: i64 = section_number
        self.section_offset: i64 = section_offset

    def fields(self) -> list[object]:
        return [Uint(int(self.section_number)), Ulong(int(self.section_offset))]


@final
class Accepted(Composite):
    """The outcome of a delivery that the receiver processed."""

    def __init__(self) -> None:
        super().__init__(ACCEPTED)

    def fields(self) -> list[object]:
        return []


@final
class Rejected(Composite):
    """The outcome of a delivery that the receiver found invalid."""

    def __init__(self, error: Error | None = None) -> None:
        super().__init__(REJECTED)
        self.error = error

    def fields(self) -> list[object]:
        return [self.error]


@final
class Released(Composite):
    """The outcome of a delivery that the receiver did not process."""

    def __init__(self) -> None:
        super().__init__(RELEASED)

    def fields(self) -> list[object]:
        return []


@final
class Modified(Composite):
    """The outcome of a delivery that was not processed, with changes to the message before its redelivery.

    delivery_failed     count this attempt as a failed delivery
    undeliverable_here  do not redeliver to this link
    annotations         entries to merge into the message annotations, or None
    """

    def __init__(
        self, delivery_failed: bool = False, undeliverable_here: bool = False, annotations: Map | None = None
    ) -> None:
        super().__init__(MODIFIED)
        self.delivery_failed = delivery_failed
        self.undeliverable_here = undeliverable_here
        self.annotations = annotations

    def fields(self) -> list[object]:
        return [true_or_none(self.delivery_failed), true_or_none(self.undeliverable_here), self.annotations]


@final
class DeclaredState(Composite):
    """The outcome of a `Declare` message: the transaction `txn_id` has begun."""

    def __init__(self, txn_id: bytes) -> None:
        super().__init__(DECLARED)
        self.txn_id = txn_id

    def fields(self) -> list[object]:
        return [self.txn_id]


@final
class TransactionalState(Composite):
    """The state of a delivery within a transaction.

    outcome  outcome that applies once the transaction commits; a `Described` if the standard does not know it, or None
    """

    def __init__(self, txn_id: bytes, outcome: object = None) -> None:
        super().__init__(TRANSACTIONAL_STATE)
        self.txn_id = txn_id
        self.outcome = outcome

    def fields(self) -> list[object]:
        return [self.txn_id, self.outcome]


# Outcomes without fields: one shared object each.
IS_ACCEPTED: Final = Accepted()
IS_RELEASED: Final = Released()


def state_of(value: object) -> object:
    """Return a decoded value as a delivery state of this module, or unchanged if the standard does not define it."""
    if not isinstance(value, Described):
        return value
    code = code_of(value, STATE_NAMES)
    if code == ACCEPTED:
        FieldReader("accepted", value.value, 0)
        return IS_ACCEPTED
    if code == RELEASED:
        FieldReader("released", value.value, 0)
        return IS_RELEASED
    if code == MODIFIED:
        modified = FieldReader("modified", value.value, 3)
        return Modified(
            modified.boolean(0, "delivery-failed"),
            modified.boolean(1, "undeliverable-here"),
            modified.map(2, "message-annotations"),
        )
    if code == REJECTED:
        return Rejected(error_of(FieldReader("rejected", value.value, 1), 0, "error"))
    if code == RECEIVED:
        received = FieldReader("received", value.value, 2)
        number = received.required_uint(0, "section-number")
        return Received(number, received.required_ulong(1, "section-offset"))
    if code == TRANSACTIONAL_STATE:
        state = FieldReader("transactional-state", value.value, 2)
        return TransactionalState(state.required_binary(0, "txn-id"), state_of(state.value(1)))
    if code == DECLARED:
        return DeclaredState(FieldReader("declared", value.value, 1).required_binary(0, "txn-id"))
    return value


def error_of(fields: FieldReader, index: i64, field: str) -> Error | None:
    """Return the field at `index` as an error, or None if it is absent."""
    value = fields.value(index)
    if value is None:
        return None
    if not isinstance(value, Described) or code_of(value, STATE_NAMES) != ERROR:
        raise fields.wrong(field, "error", value)
    error = FieldReader("error", value.value, 3)
    return Error(error.required_symbol(0, "condition"), error.string(1, "description"), error.name_map(2, "info"))
