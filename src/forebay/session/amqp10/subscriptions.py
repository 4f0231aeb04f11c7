"""Subscriptions to topics: queues that are bound to the topic exchange for the links that consume them (3.5.6).

A subscription is one link's own, and goes with it. A durable one stays until a link by which it is consumed is closed.
Links whose source has the capability `shared` consume one subscription together. Its name is the links' name up to the
first `|`, as JMS clients write it, within the client's container; with the capability `global` within the vhost.
"""

from __future__ import annotations

from typing import Final

from forebay.broker.contract import ANY_SESSION
from forebay.core.errors import NOT_FOUND, PRECONDITION, RequestError
from forebay.filter.parser import parse
from forebay.message.address import TOPIC_EXCHANGE
from forebay.queue.declaration.arguments import LATER
from forebay.routing.exchange import text
from forebay.routing.topic_trie import swap_key
from forebay.session.amqp10.context import LinkContext
from forebay.session.amqp10.outgoing.consumer_arguments import FILTER
from forebay.session.shared.topology import bind_queue, declare_queue, delete_queue
from forebay.wire.amqp10.performatives import Attach
from forebay.wire.amqp10.termini import NEVER, LinkSource

CONSUMER_NAMES_MAX: Final = 255
PUBLISH_FILTER: Final = "x-publish-filter"
UNSETTLED_STATE: Final = 2  # durability of a terminus that keeps all

# Capabilities of a source.
SHARED: Final = "shared"
GLOBAL: Final = "global"
TOPIC: Final = "topic"


def subscribe(state: LinkContext, attach: Attach, topic: bytes, is_durable: bool, condition: str) -> bytes:
    """Return the queue of a subscription to a topic, which is made if it is not there.

    is_durable  the queue keeps what comes while no link is attached
    condition   of the messages that it takes; "" for all
    """
    assert attach.source is not None
    link, capabilities = attach.name, attach.source.capabilities
    arguments: dict[str, object] = {PUBLISH_FILTER: condition} if condition else {}
    is_shared = SHARED in capabilities
    if not is_durable and not is_shared:
        name = make_temporary(state, arguments)
    else:
        name = subscription_queue(state, link, capabilities, is_durable)
        found = subscribed_topic(state, name)
        if found and (found != topic or condition != subscribed_condition(state, name)):
            # It has been made for something else, and begins anew.
            if state.vhost.queue(name, ANY_SESSION).consumer_count():
                raise RequestError(PRECONDITION, f"attach: name '{link}': is in use for topic '{text(found)}'")
            delete_queue(state.session, name, True, False)
        if not is_durable and state.vhost.find_queue(name) is None:
            state.temporary = name  # to be deleted if the attach fails
        declare_queue(state.session, name, is_durable, False, not is_durable, arguments)
    bind_queue(state.session, name, TOPIC_EXCHANGE, topic, {})
    return name


def take_condition(arguments: dict[str, object]) -> str:
    """Take a filter out of a consumer's arguments that the consumer's queue can have instead; "" if there is none.

    What does not match is not in the queue then. What depends on the queue itself the consumer has to look at.
    """
    condition = arguments.get(FILTER)
    if not isinstance(condition, str) or LATER & parse(condition).properties:
        return ""
    del arguments[FILTER]
    return condition


def subscribed_condition(state: LinkContext, name: bytes) -> str:
    """Return the condition of a subscription; "" if it takes all messages."""
    condition = state.vhost.queue(name, ANY_SESSION).spec.arguments.get(PUBLISH_FILTER, "")
    return condition if isinstance(condition, str) else ""


def make_temporary(state: LinkContext, arguments: dict[str, object] | None = None) -> bytes:
    """Return the name of a new queue that only this connection may consume, and that ends with its link.

    An attach that comes again, as a right was asked for, has the queue that it had before.
    """
    if not state.temporary:
        state.temporary = declare_queue(state.session, b"", False, True, True, arguments or {}).name
    return state.temporary


def subscription_queue(state: LinkContext, link: str, capabilities: list[str], is_durable: bool = True) -> bytes:
    """Return the name of the queue of a subscription that is durable or shared."""
    kind, container = "subscription", state.container
    if SHARED in capabilities:
        kind = "shared-subscription" if is_durable else "volatile-subscription"
        link = link.partition("|")[0]
        if GLOBAL in capabilities:
            container = ""
    name = f"{kind}.{container}.{link}".encode()
    if len(name) > CONSUMER_NAMES_MAX:
        raise RequestError(PRECONDITION, f"attach: name '{link}': container-id and name are too long together")
    return name


def subscribed_topic(state: LinkContext, name: bytes) -> bytes:
    """Return the binding key of a subscription's queue; b"" if there is no such subscription."""
    queue = state.vhost.find_queue(name)
    if queue is None:
        return b""
    bindings = list(state.vhost.exchange(TOPIC_EXCHANGE).bindings.get(int(queue.id), {}).values())
    return bindings[0].routing_key if bindings else b""


def find_subscription(state: LinkContext, attach: Attach) -> LinkSource:
    """Return the source of a durable subscription, for a client that names no other than the link's name.

    Whether that is a shared one is among the capabilities that the client desires.
    """
    capabilities = [each for each in attach.desired_capabilities if each in (SHARED, GLOBAL)]
    topic = subscribed_topic(state, subscription_queue(state, attach.name, capabilities))
    if not topic:
        raise RequestError(NOT_FOUND, f"attach: source: there is no subscription of the name '{attach.name}'")
    found = LinkSource(text(swap_key(topic)))
    found.durable = UNSETTLED_STATE
    found.expiry_policy = NEVER
    found.capabilities = [TOPIC, *capabilities]
    return found
