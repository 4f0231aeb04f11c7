"""The subscriptions of an MQTT client: topics, queues under `$queue/<name>[/<filter>]`, and shares of topics."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.consuming.consumer_arguments import ConsumerArguments
from forebay.broker.consuming.primary import reader_primary
from forebay.broker.contract import VhostContract
from forebay.broker.limits.topology_memory import consumer_octets
from forebay.broker.mqtt.audience import LOGGED, Recipient, identifier_property
from forebay.broker.mqtt.client_session import Subscription
from forebay.broker.mqtt.retained import RetainedSearch
from forebay.broker.mqtt.sessions import is_topic
from forebay.core.errors import DAMAGED, INVALID, NOT_IMPLEMENTED, PRECONDITION, REFUSED, TOO_MANY, RequestError
from forebay.core.options import Options
from forebay.core.reading.nearest import slip_of
from forebay.directory.permissions import Rights
from forebay.message.address import DEAD_LETTER_PREFIX, dead_letter_address
from forebay.message.events import SUBSCRIBE_DENIED
from forebay.queue.leases.lease import Consumer
from forebay.queue.queue import CLASSIC
from forebay.queue.stream.stream_group import StreamGroup
from forebay.routing.cut_work import WorkInHand
from forebay.session.mqtt.outgoing.deliver import Outbox
from forebay.session.mqtt.outgoing.encode import QueueSubscription
from forebay.session.mqtt.outgoing.feed import Feed
from forebay.session.mqtt.rights import decide
from forebay.session.session import note_denied
from forebay.session.subscribe_rate import subscribe_bucket
from forebay.wire.mqtt.codes import (
    FAILURE,
    FILTER_INVALID,
    NO_SUBSCRIPTION,
    QUOTA_EXCEEDED,
    REQUEST_CODES,
    SHARE_PREFIX,
    SUCCESS,
    V5,
    V311,
    filter_error,
)
from forebay.wire.mqtt.properties import SUBSCRIPTION_ID, USER_PROPERTY, decode_properties, number_of

NO_LOCAL: Final = 4
KEEP_RETAIN: Final = 8
RETAIN_IF_NEW: Final = 1  # retain handling
RETAIN_NEVER: Final = 2
QUEUE_QOS_MAX: Final = 1  # of what is delivered from a queue
GROUP_CHARACTERS_MAX: Final = 255
REASON_CHARACTERS_MAX: Final = 1000
# User property of SUBSCRIBE -> argument of Vhost.consume
ARGUMENTS: Final = (
    (b"consumer-group", "x-consumer-group"),
    (b"stream-offset", "x-stream-offset"),
    (b"auto-commit", "x-auto-commit"),
    (b"stream-filter", "x-stream-filter"),
    (b"stream-match-unfiltered", "x-stream-match-unfiltered"),
    (b"consumer-priority", "x-priority"),
    (b"filter", "x-filter"),
)
SHARE_ARGUMENTS: Final = ((b"filter", "x-filter"),)
PROPERTIES: Final = {argument: name.decode() for name, argument in ARGUMENTS}
PRIORITY_DIGITS_MAX: Final = 18


@final
class Subscriptions:
    """The subscriptions of one connection's session.

    default_group  consumer group of a 3.1.1 client, which has no way to name one
    """

    def __init__(
        self, session_id: i64, vhost: VhostContract, rights: Rights, outbox: Outbox, options: Options, work: WorkInHand
    ) -> None:
        self.session_id = session_id
        self.vhost = vhost
        self.rights = rights
        self.outbox = outbox
        self.levels_max: i64 = options.mqtt_topic_levels_max
        self.max_qos: i64 = options.mqtt_max_qos
        self.count_max: i64 = options.mqtt_max_subscriptions
        self.subscribes = subscribe_bucket(options)
        self.client = outbox.client
        self.default_group = (
            group_of_client(outbox.client.client_id.decode("utf-8")) if outbox.encoder.version == V311 else ""
        )
        self.queues: dict[bytes, QueueSubscription] | None = None  # by topic filter
        self.reason = ""
        self.asked: dict[bytes, list[bytes]] = {}  # the user properties of the packet in hand
        self.identifier: i64 = 0  # of its subscriptions
        self.search: RetainedSearch | None = None  # for what the subscription added last is to be given
        self.searched: Subscription | None = None
        self.work = work

    def begin(self) -> None:
        """Take up the subscriptions that the session has, without those that its user may not have any more.

        Subscriptions to queues need a consumer of this connection. Those to topics are not checked again where no
        right has changed since they were.
        """
        client = self.client
        are_checked = self.rights.stamp >= 0 and client.checked == self.rights.stamp
        for subscription in list(client.subscriptions.values()):
            is_of_topics = is_topic(subscription.filter)
            if is_of_topics and are_checked:
                continue
            try:
                self.rights.check_subscribe(subscription.filter)
                if not is_of_topics:
                    self.consume(subscription)
            except RequestError as error:
                if error.reason in (DAMAGED, TOO_MANY):
                    continue  # it stays: the next connection may find the file mended, or memory for it
                if error.reason == REFUSED:
                    note_denied(self.vhost, SUBSCRIBE_DENIED, self.rights.user, error.text)
                self.vhost.mqtt_clients.unsubscribe(client, subscription.filter)
        client.checked = self.rights.stamp

    # ---- SUBSCRIBE

    def begin_packet(self, properties: bytes) -> None:
        """Begin with a SUBSCRIBE or UNSUBSCRIBE that has these properties."""
        self.reason = ""
        self.identifier = number_of(properties, SUBSCRIPTION_ID, 0) if properties else 0
        self.asked = user_texts(properties)

    def add(self, filter: bytes, options: i64) -> i64:
        """Subscribe to one filter: the granted QoS or why not, with the reason added to `reason`."""
        if self.rights.grants.authorizer is not None:
            decide(self.rights, [filter])  # before anything is done, since it may be that all comes again
        wrong = filter_error(filter, self.levels_max)
        if wrong:
            return self.refused(REQUEST_CODES[INVALID], wrong)
        if self.subscribes is not None and not self.subscribes.take(int(self.vhost.now_us())):
            return self.refused(QUOTA_EXCEEDED, "more subscriptions a second than client_subscribes_per_s")
        client = self.client
        if self.count_max and filter not in client.subscriptions and i64(len(client.subscriptions)) >= self.count_max:
            return self.refused(QUOTA_EXCEEDED, f"there are {self.count_max} subscriptions, mqtt_max_subscriptions")
        wanted = Subscription(client, filter, min(options & 3, self.max_qos), self.vhost.sessions.next_offset())
        wanted.no_local = options & NO_LOCAL != 0
        wanted.keep_retain = options & KEEP_RETAIN != 0
        wanted.identifier = self.identifier
        try:
            self.rights.check_subscribe(filter)
            if is_topic(filter):
                check_unfiltered(filter, self.asked)
                self.add_topic(wanted, options >> 4 & 3)
            else:
                self.add_queue(wanted)
        except RequestError as error:
            if error.reason == REFUSED:
                note_denied(self.vhost, SUBSCRIBE_DENIED, self.rights.user, error.text)
            return self.refused(REQUEST_CODES.get(error.reason, FAILURE), error.text)
        return wanted.qos

    def refused(self, code: i64, text: str) -> i64:
        text = f"{self.reason}; {text}" if self.reason else text
        self.reason = text[:REASON_CHARACTERS_MAX]
        return code if self.outbox.encoder.version == V5 else FAILURE

    def add_topic(self, wanted: Subscription, handling: i64) -> None:
        """Subscribe to topics; what is retained on them follows as the client wants it [MQTT-3.3.1-9 to -11]."""
        new = self.vhost.mqtt_clients.subscribe(self.client, wanted)
        if handling == RETAIN_NEVER or (handling == RETAIN_IF_NEW and not new):
            return
        self.search = self.vhost.mqtt_clients.search_retained(wanted.filter)
        self.searched = wanted

    def find_retained(self) -> None:
        """Find what is retained for the subscription added last. Raise Later if the search takes another turn."""
        search = self.search
        wanted = self.searched
        if search is None or wanted is None:
            return
        self.work.advance(search)
        self.work.finish()
        numbers = search.numbers()
        self.search = self.searched = None
        if numbers:
            self.outbox.feeder.add(Feed(wanted.filter, wanted.qos, wanted.identifier, numbers))
            self.outbox.feed_on()  # at once: what is published from here on comes later

    def add_queue(self, wanted: Subscription) -> None:
        """Consume from a queue or a share, or go on as before if the same subscription is there."""
        filter = wanted.filter
        shared = filter.startswith(SHARE_PREFIX)
        if self.asked:
            check_asked(self.asked)
        if shared:
            wanted.arguments = arguments_in(self.asked, SHARE_ARGUMENTS)
        else:
            wanted.qos = min(wanted.qos, i64(QUEUE_QOS_MAX))
            wanted.arguments = self.arguments()
            self.check_queue(wanted)
        self.check_memory(wanted)
        old = None if self.queues is None else self.queues.get(filter)
        if old is not None:
            if shared and old.arguments == wanted.arguments:
                self.vhost.mqtt_clients.subscribe(self.client, wanted)
                old.recipient = self.shared_recipient(wanted)  # what it has in flight stays its own
                return
            if old.arguments == wanted.arguments and old.consumer.no_ack == (wanted.qos == 0):
                return
            self.drop_queue(old)
        if shared:
            if wanted.arguments:
                ConsumerArguments(wanted.arguments, self.vhost.name, filter)  # refused before there is a member more
            self.vhost.mqtt_clients.subscribe(self.client, wanted)
            self.consume(wanted)
        else:
            self.consume(wanted)
            self.vhost.mqtt_clients.subscribe(self.client, wanted)

    def check_memory(self, wanted: Subscription) -> None:
        """Refuse with RequestError(TOO_MANY) if there is no memory for the subscription and its consumer."""
        octets = consumer_octets(wanted.filter, wanted.arguments)
        self.vhost.mqtt_clients.check_subscription(self.client, wanted, self.session_id, octets)

    def check_queue(self, wanted: Subscription) -> None:
        """RequestError where the filter names no one queue, or nothing could be settled at QoS 0."""
        if wanted.filter.startswith(DEAD_LETTER_PREFIX):
            name = dead_letter_address(wanted.filter)[0]
            self.vhost.dead_letter_queue(name)
        else:
            name = queue_name(wanted.filter)
        queue = self.vhost.find_queue(name)
        if (
            wanted.qos == 0
            and queue is not None
            and queue.kind == CLASSIC
            and "x-stream-offset" not in wanted.arguments
        ):
            raise RequestError(
                PRECONDITION,
                f"QoS 0: nothing could be settled on queue '{name.decode()}'; subscribe with QoS 1",
            )

    def consume(self, subscription: Subscription) -> None:
        """Attach a consumer of this connection; RequestError where there is nothing to consume from."""
        filter = subscription.filter
        shared = filter.startswith(SHARE_PREFIX)
        no_ack = subscription.qos == 0 and not shared
        recipient: Recipient | None = None
        if shared:
            recipient = self.shared_recipient(subscription)
        consumer = self.vhost.consuming.consume(
            filter, self.session_id, 0, filter, no_ack, False, self.outbox.window.size, subscription.arguments
        )
        queue = QueueSubscription(filter, consumer, subscription.arguments, recipient)
        where = self.vhost.queue_of(consumer)
        queue.primary = reader_primary(where, consumer)
        queue.stream = isinstance(where.groups[consumer.group], StreamGroup)
        if self.queues is None:
            self.queues = {}
        self.queues[filter] = queue
        self.outbox.queues[int(consumer.id)] = queue

    def shared_recipient(self, subscription: Subscription) -> Recipient:
        recipient = Recipient(self.client, LOGGED, subscription.qos)
        recipient.keep_retain = subscription.keep_retain
        recipient.identifiers = identifier_property(subscription.identifier)
        return recipient

    def arguments(self) -> dict[str, object]:
        """The arguments of `Vhost.consume` that the user properties ask for."""
        found: dict[str, object] = {}
        if self.default_group:
            found["x-consumer-group"] = self.default_group
        found.update(arguments_in(self.asked, ARGUMENTS))
        return found

    # ---- the end of a subscription

    def end(self, filter: bytes) -> i64:
        """End the subscription to one filter: the code that says whether there was one, or that there can be none."""
        wrong = filter_error(filter, self.levels_max)
        if wrong and filter not in self.client.subscriptions:
            self.refused(FILTER_INVALID, wrong)
            return FILTER_INVALID
        return SUCCESS if self.remove(filter) else NO_SUBSCRIPTION

    def remove(self, filter: bytes) -> bool:
        self.outbox.feeder.stop(filter)
        queue = None if self.queues is None else self.queues.get(filter)
        if queue is not None:
            self.drop_queue(queue)
        return self.vhost.mqtt_clients.unsubscribe(self.client, filter)

    def drop_queue(self, subscription: QueueSubscription) -> None:
        assert self.queues is not None
        del self.queues[subscription.filter]
        self.outbox.forget(subscription.consumer)
        self.vhost.consuming.cancel(subscription.consumer)

    def cancelled(self, consumer: Consumer) -> bool:
        """The queue of a consumer is gone; whether a subscription of ours ends with it."""
        queue = self.outbox.queues.get(int(consumer.id))
        if queue is None or self.queues is None:
            return False
        self.outbox.forget(consumer)
        if self.queues.get(queue.filter) is not queue:
            return True
        del self.queues[queue.filter]
        subscription = self.client.subscriptions.get(queue.filter)
        if subscription is None:
            return False
        if queue.recipient is not None and self.vhost.find_queue(queue.filter) is not None:
            self.consume(subscription)  # the share became durable
            return False
        self.vhost.mqtt_clients.unsubscribe(self.client, queue.filter)
        return True


def queue_name(filter: bytes) -> bytes:
    """The queue in `$queue/<name>[/<filter>]`; RequestError where it is a pattern."""
    cut = filter.find(b"/", 7)
    name = filter[7:] if cut < 0 else filter[7:cut]
    if not name or name in (b"+", b"#"):
        raise RequestError(INVALID, f"queue name '{name.decode()}': must name one queue")
    if cut >= 0 and filter[cut + 1 : cut + 2] == b"$":
        raise RequestError(NOT_IMPLEMENTED, f"topic filter '{filter.decode()}': commands cannot be subscribed to")
    return name


def group_of_client(client_id: str) -> str:
    """The consumer group of a 3.1.1 client: its identifier up to the first '-'."""
    name = client_id.split("-", 1)[0].replace("@", "_")
    return name[:GROUP_CHARACTERS_MAX]


def user_texts(block: bytes) -> dict[bytes, list[bytes]]:
    """The user properties of a checked block: the values of each name."""
    found: dict[bytes, list[bytes]] = {}
    for property in decode_properties(block):
        if property.id == USER_PROPERTY:
            values = found.get(property.text)
            if values is None:
                found[property.text] = [property.value]
            else:
                values.append(property.value)
    return found


def check_unfiltered(filter: bytes, asked: dict[bytes, list[bytes]]) -> None:
    """RequestError where a subscription to topics asks for a filter: no queue stands behind it."""
    if b"filter" in asked:
        topics = filter.decode("utf-8")
        raise RequestError(NOT_IMPLEMENTED, f"filter: '{topics}' is no queue; subscribe to $share/NAME/{topics}")


def check_asked(asked: dict[bytes, list[bytes]]) -> None:
    """RequestError where a user property looks like one that would be heeded; others are the client's own."""
    for octets in asked:
        name = octets.decode("utf-8")
        meant = PROPERTIES.get(name, "") or slip_of(name.removeprefix("x-"), PROPERTIES.values())
        if not meant and name.startswith("x-") and name[2:] in PROPERTIES.values():
            meant = name[2:]
        if meant:
            raise RequestError(PRECONDITION, f"user property '{name}': nothing puts it in force; did you mean {meant}?")


def arguments_in(asked: dict[bytes, list[bytes]], names: tuple[tuple[bytes, str], ...]) -> dict[str, object]:
    """The arguments of `Vhost.consume` that these user properties ask for."""
    found: dict[str, object] = {}
    if not asked:
        return found
    for name, argument in names:
        values = asked.get(name)
        if values is not None:
            found[argument] = argument_value(argument, [each.decode("utf-8") for each in values])
    return found


def argument_value(argument: str, texts: list[str]) -> object:
    """An argument of `Vhost.consume` from its user properties; only a filter may have several, else the last counts."""
    if argument == "x-stream-filter":
        return texts
    text = texts[-1]
    if argument in ("x-auto-commit", "x-stream-match-unfiltered"):
        if text not in ("true", "false"):
            raise RequestError(INVALID, f"{argument[2:]}: {text!r} is neither true nor false")
        return text == "true"
    if argument == "x-priority":
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit()) or len(digits) > PRIORITY_DIGITS_MAX:
            raise RequestError(INVALID, f"consumer-priority: {text!r} is no whole number")
        return int(text)
    return text
