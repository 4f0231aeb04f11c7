"""The answer to an attach: which link it makes, or why there is none (2.6.3).

What the broker refuses is attached without the terminus and detached with the error: that is how clients tell it from a
link that ended later.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.contract import ANY_SESSION
from forebay.broker.publish.replies import REPLY_PREFIX
from forebay.core.errors import (
    INVALID,
    NOT_ALLOWED,
    NOT_FOUND,
    NOT_IMPLEMENTED,
    REFUSED,
    TOO_MANY,
    RequestError,
)
from forebay.directory.permissions import READ
from forebay.message.address import QUEUE_PREFIX, consumed_queue
from forebay.queue.leases.lease import Delivery
from forebay.queue.queue import STREAM
from forebay.routing.exchange import text
from forebay.session.amqp10.addresses import (
    MANAGEMENT,
    ConsumeAddress,
    PublishAddress,
    names_queue,
    parse_source,
    parse_target,
    queue_path,
)
from forebay.session.amqp10.conditions import error_of
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.incoming.confirms import SessionConfirms
from forebay.session.amqp10.incoming.coordinator import CoordinatorLink
from forebay.session.amqp10.incoming.receiving import ReceivingLink
from forebay.session.amqp10.link import LinkEndpoint
from forebay.session.amqp10.management.link_pair import ManagementRequests, ManagementResponses
from forebay.session.amqp10.outgoing.consumer_arguments import arguments_in, filters_in_force
from forebay.session.amqp10.outgoing.encode import DeliveryEncoder
from forebay.session.amqp10.outgoing.outcomes import OUTCOMES, settle_how
from forebay.session.amqp10.outgoing.sending import SendingLink
from forebay.session.amqp10.output import SessionOutput
from forebay.session.amqp10.servicebus.access import EntityAccess
from forebay.session.amqp10.servicebus.entities import entity_queue, parse_entity
from forebay.session.amqp10.servicebus.entity_sessions import (
    SESSION_FILTER,
    asked_session,
    asks_for_session,
    give_session,
    lock_session,
)
from forebay.session.amqp10.servicebus.node_links import attach_node, is_node_link
from forebay.session.amqp10.subscriptions import (
    CONSUMER_NAMES_MAX,
    SHARED,
    find_subscription,
    make_temporary,
    subscribe,
    subscription_queue,
    take_condition,
)
from forebay.session.shared.topology import declare_queue, drop_own_queue
from forebay.session.shared.unsettled import UnsettledDeliveries
from forebay.wire.amqp10.performatives import (
    RECEIVER_FIRST,
    ROLE_SENDER,
    SENDER_SETTLED,
    SENDER_UNSETTLED,
    Attach,
    Detach,
    Flow,
    Transfer,
)
from forebay.wire.amqp10.states import IS_RELEASED
from forebay.wire.amqp10.termini import (
    COPY,
    DELETE_ON_CLOSE,
    LINK_DETACH,
    MOVE,
    NEVER,
    Coordinator,
    LifetimePolicy,
    LinkSource,
    LinkTarget,
)

NAME_CHARACTERS_MAX: Final = 255
VOLATILE_QUEUE: Final = "rabbitmq:volatile-queue"  # capability of a source of direct replies
LINK_OCTETS: Final = 2048  # of memory, beside its consumer
TRANSACTION_CAPABILITIES: Final = ("amqp:local-transactions", "amqp:multi-txns-per-ssn", "amqp:multi-ssns-per-txn")


@final
class RefusedLink(LinkEndpoint):
    """A link that came to nothing: its handle stays taken until the client has detached it."""

    def __init__(self, name: str, handle: i64, is_sender: bool) -> None:
        super().__init__(name, handle, is_sender)
        self.is_attached = False
        self.is_detaching = True

    def begin(self) -> None:
        pass

    def on_transfer(self, transfer: Transfer, data: bytes, at: i64, end: i64) -> None:
        pass

    def on_flow(self, flow: Flow) -> None:
        pass

    def deliver(self, delivery: Delivery) -> None:
        pass

    def end_turn(self) -> None:
        pass

    def release(self, is_closed: bool) -> None:
        pass

    def describe(self) -> dict[str, object]:
        return {}


def attach_link(
    state: LinkContext, output: SessionOutput, confirms: SessionConfirms, runs: UnsettledDeliveries, attach: Attach
) -> LinkEndpoint:
    """Return the link that an attach makes, answered. Raises Later, Undecided, and nothing is done."""
    answer = Attach(attach.name, attach.handle, not attach.role)
    answer.source = attach.source
    answer.target = attach.target
    answer.snd_settle_mode = attach.snd_settle_mode
    answer.rcv_settle_mode = attach.rcv_settle_mode
    answer.properties = attach.properties
    try:
        check_attach(state, attach)
        state.meter.start(100)
        if is_node_link(state, attach):
            link, answer = attach_node(state, output, attach)
        elif attach.role == ROLE_SENDER:
            link = attach_publisher(state, output, confirms, attach, answer)
        else:
            link = attach_consumer(state, output, runs, attach, answer)
    except RequestError as error:
        if state.temporary:
            drop_own_queue(state.session, state.temporary)
            state.temporary = b""
        if error.reason == REFUSED:
            state.session.note_denied(attach.role == ROLE_SENDER, error.text)
        refuse(output, attach, error)
        return RefusedLink(attach.name, attach.handle, attach.role == ROLE_SENDER)
    state.temporary = b""
    if attach.role == ROLE_SENDER and attach.initial_delivery_count > 0:
        link.delivery_count = attach.initial_delivery_count
    output.put(answer)
    return link


def check_attach(state: LinkContext, attach: Attach) -> None:
    """Refuse what no link can have, and one link more than there is memory for."""
    if len(attach.name) > NAME_CHARACTERS_MAX:
        raise RequestError(INVALID, f"attach: name of {len(attach.name)} characters: at most {NAME_CHARACTERS_MAX}")
    if (attach.unsettled is not None and attach.unsettled.pairs) or attach.incomplete_unsettled:
        raise RequestError(NOT_IMPLEMENTED, "attach: unsettled: deliveries cannot be resumed")
    state.vhost.memory.check(state.session.id, LINK_OCTETS, f"link '{attach.name}'")


def refuse(output: SessionOutput, attach: Attach, error: RequestError) -> None:
    """Write an attach that has nothing at the broker's end, and a detach with the error."""
    answer = Attach(attach.name, attach.handle, not attach.role)
    if attach.role == ROLE_SENDER:
        answer.source = attach.source or LinkSource()
        answer.target = None
    else:
        answer.source = None
        answer.target = attach.target or LinkTarget()
        answer.initial_delivery_count = 0
    output.put(answer)
    output.put(Detach(attach.handle, True, error_of(error.reason, error.text)))


# ---- links by which the client publishes


def attach_publisher(
    state: LinkContext, output: SessionOutput, confirms: SessionConfirms, attach: Attach, answer: Attach
) -> LinkEndpoint:
    """Return the link of a client that sends."""
    target = attach.target
    if state.access is not None:
        return attach_entity_sender(state, state.access, output, confirms, attach, answer)
    if isinstance(target, Coordinator):
        answer.target = Coordinator(list(TRANSACTION_CAPABILITIES))
        answer.source = attach.source or LinkSource()
        return CoordinatorLink(state, state.transactions, output, confirms, attach.name, attach.handle)
    if target is None:
        raise RequestError(INVALID, "attach: target: missing")
    answer.source = attach.source or LinkSource()
    answer.max_message_size = state.message_octets_max
    answer.rcv_settle_mode = RECEIVER_FIRST  # a message is settled with its outcome
    if target.address == MANAGEMENT and is_paired(attach):
        return ManagementRequests(state, output, attach.name, attach.handle)
    address: PublishAddress | None = None
    owned = b""
    if target.dynamic:
        owned = make_temporary(state)
        address = PublishAddress(b"", owned, owned)
        answer.target = dynamic_target(target, owned)
    elif target.address is not None:
        address = parse_target(text_of(target.address, "target"), target.capabilities, queue_addresses(state))
        if address.queue.startswith(REPLY_PREFIX):
            if not state.vhost.direct_replies.has(address.queue):
                raise RequestError(NOT_FOUND, f"no consumer of replies '{text(address.queue)}'")
        elif address.queue:
            find_queue(state, address.queue, address.is_declared)  # which may be another connection's own: a reply's
    if address is not None:
        raw = address.exchange + b"\0" + address.routing_key
        state.find_target(raw, address)  # which refuses what the user may not publish to
    state.publishes = True
    return ReceivingLink(state, output, confirms, attach.name, attach.handle, address, owned)


def attach_entity_sender(
    state: LinkContext,
    access: EntityAccess,
    output: SessionOutput,
    confirms: SessionConfirms,
    attach: Attach,
    answer: Attach,
) -> LinkEndpoint:
    """Return the link of a client of Azure Service Bus that sends to a queue."""
    target = attach.target
    if not isinstance(target, LinkTarget) or target.dynamic or not isinstance(target.address, str):
        raise RequestError(NOT_IMPLEMENTED, "attach: target: must be the address of an entity")
    entity = parse_entity(target.address)
    access.check(entity.path, state.vhost.now_us())
    if entity.is_dead_letters:
        raise RequestError(NOT_ALLOWED, f"attach: target: nothing can be sent to '{entity.path}'")
    answer.source = attach.source or LinkSource()
    answer.max_message_size = state.message_octets_max
    answer.rcv_settle_mode = RECEIVER_FIRST
    address = PublishAddress(b"", entity.queue, entity.queue)
    find_queue(state, entity.queue, names_queue(entity.path, [], queue_addresses(state)))
    state.find_target(b"\0" + entity.queue, address)  # which refuses what the user may not publish to
    state.publishes = True
    link = ReceivingLink(state, output, confirms, attach.name, attach.handle, address, b"")
    link.entity = entity.path
    return link


def dynamic_target(target: LinkTarget, queue: bytes) -> LinkTarget:
    """Return the target of a queue that was made for the link."""
    made = LinkTarget(queue_path(queue))
    made.dynamic = True
    made.expiry_policy = LINK_DETACH
    made.dynamic_properties = {"lifetime-policy": LifetimePolicy(DELETE_ON_CLOSE)}
    made.capabilities = target.capabilities
    return made


# ---- links by which the client consumes


def attach_consumer(
    state: LinkContext, output: SessionOutput, runs: UnsettledDeliveries, attach: Attach, answer: Attach
) -> LinkEndpoint:
    """Return the link of a client that receives."""
    source = attach.source
    if state.access is not None:
        return attach_entity_receiver(state, state.access, output, runs, attach, answer)
    is_found = source is None
    if source is None:
        source = attach.source = find_subscription(state, attach)
    answer.target = attach.target if attach.target is not None else LinkTarget()
    answer.initial_delivery_count = 0
    if source.address == MANAGEMENT and is_paired(attach):
        answer.snd_settle_mode = SENDER_SETTLED
        return ManagementResponses(state, output, attach.name, attach.handle, MANAGEMENT)
    owned = b""
    if source.dynamic and VOLATILE_QUEUE in source.capabilities:
        return attach_replies(state, output, runs, attach, answer)
    if source.dynamic:
        owned = make_temporary(state)
        address = ConsumeAddress(owned)
    else:
        address = parse_source(text_of(source.address, "source"), source.capabilities, queue_addresses(state))
    is_settled = attach.snd_settle_mode == SENDER_SETTLED
    answer.snd_settle_mode = SENDER_SETTLED if is_settled else SENDER_UNSETTLED
    arguments = arguments_in(attach.properties, source.filter)  # before a queue is made that a wrong filter would leave
    is_durable = bool(address.topic) and (source.durable > 0 or source.expiry_policy == NEVER)
    if address.topic:
        if is_found:
            owned = subscription_queue(state, attach.name, source.capabilities)
        else:
            owned = subscribe(state, attach, address.topic, is_durable, take_condition(arguments))
        name = owned
        if SHARED in source.capabilities and not is_durable:
            owned = b""  # the queue goes with its last consumer, and not with this one
    else:
        name = address.queue
        if not name.startswith(QUEUE_PREFIX):
            find_queue(state, name, address.is_declared)
    link = consume(state, output, runs, attach, name, is_settled, arguments)
    link.owned = owned
    link.is_durable = is_durable
    answer.source = source_in_force(source, link, owned if source.dynamic else b"")
    return link


def attach_entity_receiver(
    state: LinkContext,
    access: EntityAccess,
    output: SessionOutput,
    runs: UnsettledDeliveries,
    attach: Attach,
    answer: Attach,
) -> LinkEndpoint:
    """Return the link of a client of Azure Service Bus that receives from a queue, or from its dead letters."""
    source = attach.source
    if source is None or source.dynamic or not isinstance(source.address, str):
        raise RequestError(NOT_IMPLEMENTED, "attach: source: must be the address of an entity")
    entity = parse_entity(source.address)
    access.check(entity.path, state.vhost.now_us())
    answer.target = attach.target if attach.target is not None else LinkTarget()
    answer.initial_delivery_count = 0
    is_settled = attach.snd_settle_mode == SENDER_SETTLED
    answer.snd_settle_mode = SENDER_SETTLED if is_settled else SENDER_UNSETTLED
    arguments = arguments_in(attach.properties, source.filter)
    if not entity.is_dead_letters:
        find_queue(state, entity.queue, names_queue(entity.path, [], queue_addresses(state)))
    name = entity_queue(state.vhost, entity)
    if state.vhost.queue(name, ANY_SESSION).kind == STREAM:
        raise RequestError(NOT_IMPLEMENTED, f"attach: source: '{entity.path}' is a stream, which has no locks")
    link = consume(state, output, runs, attach, name, is_settled, arguments, True)
    link.entity = entity.path
    if asks_for_session(source.filter):
        lock_until = state.vhost.now_us() + link.consumer.timeout_us
        try:
            lock = lock_session(state, state.vhost.queue_of(link.consumer), asked_session(source.filter), lock_until)
            answer.properties = {**(attach.properties or {}), **give_session(state, link, lock)}
        except RequestError:
            link.release(True)
            raise
    if not is_settled and state.locks is not None:
        link.tokens = state.locks.tokens_of(runs)
    answer.source = source_in_force(source, link, b"")
    if link.session_lock is not None:
        answer.source.filter = {**(answer.source.filter or {}), SESSION_FILTER: text(link.session_lock.group)}
    return link


def consume(
    state: LinkContext,
    output: SessionOutput,
    runs: UnsettledDeliveries,
    attach: Attach,
    name: bytes,
    is_settled: bool,
    arguments: dict[str, object],
    is_entity: bool = False,
) -> SendingLink:
    """Return the link of a new consumer, which gets nothing before the client gives it credit.

    name       of the queue, or the address `$queue/...` that makes it
    is_entity  the client is one of Azure Service Bus: a message that it holds for too long goes back to the queue
    """
    vhost = state.vhost
    if state.subscribes is not None and not state.subscribes.take(int(vhost.now_us())):
        raise RequestError(TOO_MANY, "attach: more consumers a second than client_subscribes_per_s")
    queue_name = consumed_queue(name)
    state.rights.check_queue(READ, queue_name)
    state.rights.check_made(name, False)
    assert attach.source is not None
    tag = attach.name.encode("utf-8")[:CONSUMER_NAMES_MAX]
    session = state.session
    browses = attach.source.distribution_mode == COPY and "x-stream-offset" not in arguments
    if browses and vhost.queue(queue_name, ANY_SESSION).kind != STREAM:
        consumer = vhost.consuming.browse(name, session.id, output.channel, tag, is_settled, arguments)
    else:
        consumer = vhost.consuming.consume(
            name, session.id, output.channel, tag, is_settled, False, 0, arguments, not is_entity
        )
    vhost.consuming.flow(consumer, 0, False)
    session.has_delivered = True
    queue = vhost.queue_of(consumer)
    encoder = DeliveryEncoder(queue.kind == STREAM, queue.id, is_entity, consumer.tells_lease and not is_entity)
    link = SendingLink(state, output, runs, attach.name, attach.handle, consumer, queue, encoder)
    state.receivers[consumer.id] = link
    return link


def attach_replies(
    state: LinkContext, output: SessionOutput, runs: UnsettledDeliveries, attach: Attach, answer: Attach
) -> SendingLink:
    """Return the link of a client that receives direct replies: no queue has them, and no disk.

    What comes while the client has given no credit is lost, as is what comes after the link has ended.
    """
    source = attach.source
    assert source is not None
    if attach.snd_settle_mode != SENDER_SETTLED:
        raise RequestError(INVALID, f"attach: source: {VOLATILE_QUEUE}: snd-settle-mode must be settled")
    if source.durable or source.expiry_policy == NEVER:
        raise RequestError(INVALID, f"attach: source: {VOLATILE_QUEUE}: durable must be 0, expiry-policy link-detach")
    session = state.session
    tag = attach.name.encode("utf-8")[:CONSUMER_NAMES_MAX]
    opened = state.vhost.consuming.consume_replies(session.id, output.channel, tag)
    opened.consumer.queue_name = opened.name
    link = SendingLink(state, output, runs, attach.name, attach.handle, opened.consumer, None, DeliveryEncoder(False))
    state.receivers[opened.consumer.id] = link
    session.has_delivered = True
    made = LinkSource(queue_path(opened.name))
    made.dynamic = True
    made.expiry_policy = LINK_DETACH
    made.dynamic_properties = {"lifetime-policy": LifetimePolicy(DELETE_ON_CLOSE)}
    made.capabilities = [VOLATILE_QUEUE]
    made.distribution_mode = MOVE
    made.outcomes = list(OUTCOMES)
    made.default_outcome = IS_RELEASED
    answer.source = made
    answer.snd_settle_mode = SENDER_SETTLED
    return link


def source_in_force(source: LinkSource, link: SendingLink, dynamic: bytes) -> LinkSource:
    """Return the source of a link as it is, which may be less than what was asked for."""
    made = LinkSource(queue_path(dynamic) if dynamic else source.address)
    made.outcomes = list(OUTCOMES)
    wanted = source.default_outcome
    effect = settle_how(wanted, False, link.vhost.now_us())
    made.default_outcome = IS_RELEASED if effect is None else wanted
    if effect is not None:
        link.default_how = effect.kind
    made.capabilities = source.capabilities
    is_copied = link.encoder.is_stream or link.consumer.group < 0
    made.distribution_mode = COPY if is_copied else MOVE
    made.filter = filters_in_force(source.filter)
    if dynamic:
        made.dynamic = True
        made.expiry_policy = LINK_DETACH
        made.dynamic_properties = {"lifetime-policy": LifetimePolicy(DELETE_ON_CLOSE)}
    elif link.is_durable:
        made.durable = source.durable
        made.expiry_policy = NEVER
    return made


# ---- queues


def text_of(address: object, terminus: str) -> str:
    """Return an address, which must be text."""
    if not isinstance(address, str):
        raise RequestError(INVALID, f"attach: {terminus}: address {address!r} must be a string")
    return address


def queue_addresses(state: LinkContext) -> list[str]:
    return state.options.amqp_queue_addresses


def is_paired(attach: Attach) -> bool:
    """Return whether the link is one of a pair for requests and answers."""
    return attach.properties is not None and attach.properties.get("paired") is True


def find_queue(state: LinkContext, name: bytes, is_declared: bool) -> None:
    """Check that there is a queue; declare it if it may be missing."""
    vhost = state.vhost
    if is_declared and vhost.find_queue(name) is None:
        declare_queue(state.session, name, True, False, False, {})
    vhost.queue(name, ANY_SESSION)  # whoever's it is
