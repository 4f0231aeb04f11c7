"""The rights that operations take, beside those of administrators, who may run all.

RabbitMQ's tags say who may ask at all: `management` sees the vhosts that it may enter, `policymaker` may also set
policies and parameters there, `monitoring` sees everything, `administrator` may do everything. What is done to queues
and exchanges takes the permissions besides that a client needs for it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

from forebay.broker.catalog.declare_rights import check_bind_exchange, check_declare_exchange, check_declare_queue
from forebay.broker.vhost import Vhost
from forebay.core.errors import REFUSED, RequestError
from forebay.directory.logins.authorizer import Principal
from forebay.directory.permissions import CONFIGURE, READ, WRITE, Rights
from forebay.directory.users import ADMINISTRATOR
from forebay.management.arguments import GivenArguments, refuse
from forebay.message.address import named_queue

NO_SESSION: Final = 0  # an administrator owns no exclusive queue
MONITORING: Final = "monitoring"
POLICYMAKER: Final = "policymaker"
MANAGEMENT: Final = "management"
ADMINISTRATORS: Final = frozenset({ADMINISTRATOR})
MANAGERS: Final = frozenset({ADMINISTRATOR, MONITORING, POLICYMAKER, MANAGEMENT})
MONITORS: Final = frozenset({ADMINISTRATOR, MONITORING})
POLICYMAKERS: Final = frozenset({ADMINISTRATOR, POLICYMAKER})


class Gate(ABC):
    """The vhosts and connections that somebody is about to administer, and who may enter and has opened them."""

    @abstractmethod
    def tags_of(self, principal: Principal) -> frozenset[str]:
        """Return the principal's tags."""

    @abstractmethod
    def visible(self, principal: Principal, vhost: str) -> Vhost:
        """Return the vhost of that name. Raises RequestError NOT_FOUND, or REFUSED if it is not visible; Undecided."""

    @abstractmethod
    def rights(self, principal: Principal, vhost: Vhost) -> Rights:
        """Return the rights of a client in a vhost. Raises RequestError(NOT_ALLOWED), Undecided."""

    @abstractmethod
    def owner(self, connection: int) -> str:
        """Return the user of a connection; "" if no connection has that number."""


class Need:
    """The right that an operation takes: a tag, by itself that of administrators.

    told  the callers that may run it, for its page
    tags  of which the caller must have one
    """

    def __init__(self, told: str, tags: frozenset[str] = ADMINISTRATORS) -> None:
        self.told = told
        self.tags = tags

    def check_tags(self, user: str, tags: frozenset[str]) -> None:
        """Raise RequestError(REFUSED) if the caller has none of the tags."""
        if not tags & self.tags:
            raise lacking(user, self.tags)

    def check(self, gate: Gate, principal: Principal, given: GivenArguments, as_client: bool) -> Rights | None:
        """Check that the caller may run the operation. Return the rights for later checks; None if all is allowed.

        as_client  administrators, too, may do only what their permissions let their clients do
        raises     RequestError: REFUSED, NOT_ALLOWED, LOCKED where a queue is another connection's own; Undecided
        """
        return None


class VhostNeed(Need):
    """A tag, a vhost that the caller may enter, and there what a client needs to do the same."""

    def __init__(
        self,
        told: str,
        right: Callable[[Vhost, Rights, GivenArguments], None] | None = None,
        tags: frozenset[str] = MANAGERS,
    ) -> None:
        super().__init__(told, tags)
        self.right = right

    def check(self, gate: Gate, principal: Principal, given: GivenArguments, as_client: bool) -> Rights | None:
        if not as_client and ADMINISTRATOR in gate.tags_of(principal):
            return None
        vhost = gate.visible(principal, given.text("vhost"))
        if self.right is None:
            return None
        rights = gate.rights(principal, vhost)
        self.right(vhost, rights, given)
        return rights


class ConnectionNeed(Need):
    """A tag, and a connection of the caller's own."""

    def check(self, gate: Gate, principal: Principal, given: GivenArguments, as_client: bool) -> Rights | None:
        if gate.owner(given.whole("id")) != principal.user and ADMINISTRATOR not in gate.tags_of(principal):
            raise lacking(principal.user, ADMINISTRATORS)
        return None


def lacking(user: str, tags: frozenset[str]) -> RequestError:
    """Return the error for a user who has none of these tags."""
    return RequestError(REFUSED, f"user '{user}' lacks the tag {' or '.join(sorted(tags))}")


# ---- what clients need


def check_read(vhost: Vhost, rights: Rights, given: GivenArguments) -> None:
    """Check that the queue may be read; all queues of the vhost, where none is named, are for administrators."""
    if "queue" not in given:
        raise lacking(rights.user, ADMINISTRATORS)
    check_queue(vhost, rights, given.octets("queue"), READ)


def check_move(vhost: Vhost, rights: Rights, given: GivenArguments) -> None:
    """Check that messages may be read there and published here; a key that each keeps is checked when it goes."""
    check_read(vhost, rights, given)
    exchange = given.octets("exchange")
    if "routing_key" in given:
        rights.check_publish(exchange, given.octets("routing_key"), vhost.catalog.is_topic_exchange(exchange))
    else:
        rights.check_exchange(WRITE, exchange)


def check_configure(vhost: Vhost, rights: Rights, given: GivenArguments) -> None:
    """Check that the queue may be changed."""
    check_queue(vhost, rights, given.octets("queue"), CONFIGURE)


def check_queue(vhost: Vhost, rights: Rights, name: bytes, right: str) -> None:
    """Check that a right covers the queue, and that it is no connection's own."""
    rights.check_queue(right, name)
    check_not_owned(vhost, name)


def check_not_owned(vhost: Vhost, name: bytes) -> None:
    """Raise RequestError(LOCKED) if the queue is exclusive to a connection."""
    found = vhost.catalog.queues.get(named_queue(name))
    if found is not None:
        vhost.catalog.check_owner(found, NO_SESSION)


def check_queue_declared(vhost: Vhost, rights: Rights, given: GivenArguments) -> None:
    """Check that the queue may be declared with its arguments."""
    check_declare_queue(vhost.catalog, rights, given.octets("queue"), given.table("arguments"))


def check_exchange_declared(vhost: Vhost, rights: Rights, given: GivenArguments) -> None:
    """Check that the exchange may be declared with its arguments."""
    check_declare_exchange(vhost.catalog, rights, given.octets("exchange"), given.table("arguments"))


def check_exchange_deleted(vhost: Vhost, rights: Rights, given: GivenArguments) -> None:
    """Check that the exchange may be deleted."""
    rights.check_exchange(CONFIGURE, given.octets("exchange"))


def check_bound(vhost: Vhost, rights: Rights, given: GivenArguments) -> None:
    """Check that a binding may be made or deleted."""
    destination, source, key = given.octets("destination"), given.octets("exchange"), given.octets("routing_key")
    if is_to_exchange(given.text("destination_type")):
        check_bind_exchange(vhost.catalog, rights, destination, source, key)
    else:
        rights.check_bind(destination, source, key, vhost.catalog.is_topic_exchange(source))
        check_not_owned(vhost, destination)


def is_to_exchange(type: str) -> bool:
    """Return whether a binding of this type of destination leads to an exchange; RequestError(INVALID) for a third."""
    if type not in {"queue", "exchange"}:
        raise refuse("destination_type", type, "is neither queue nor exchange")
    return type == "exchange"


UNOWNED: Final = "unless it is another connection's own"
ADMINISTER: Final = Need("administrators")
ENTER: Final = VhostNeed("users with a tag who may enter the vhost")
SET_POLICY: Final = VhostNeed("users with the tag policymaker who may enter the vhost", None, POLICYMAKERS)
READ_QUEUE: Final = VhostNeed(f"users with a tag who may read the queue, {UNOWNED}", check_read)
MOVE: Final = VhostNeed(
    f"users with a tag who may read the queue, {UNOWNED}, and may publish where they go", check_move
)
CONFIGURE_QUEUE: Final = VhostNeed(f"users with a tag who may configure the queue, {UNOWNED}", check_configure)
DECLARE_QUEUE: Final = VhostNeed(
    "users with a tag who may configure the queue, and may publish where its dead letters go", check_queue_declared
)
DECLARE_EXCHANGE: Final = VhostNeed(
    "users with a tag who may configure the exchange, and may publish to its alternate exchange",
    check_exchange_declared,
)
DELETE_EXCHANGE: Final = VhostNeed("users with a tag who may configure the exchange", check_exchange_deleted)
BIND: Final = VhostNeed(
    "users with a tag who may read the exchange that messages come from, and may write where they go", check_bound
)
CLOSE: Final = ConnectionNeed("the user with a tag who opened it", MANAGERS)


def told(need: Need) -> str:
    """Return a text that names the callers that may run an operation over HTTP, for its page."""
    return need.told if need is ADMINISTER else f"{need.told}; administrators"
