"""What an MQTT client is subscribed to: topics, and queues under `$queue/<name>[/<filter>]`."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.broker.vhost import Vhost
from forebay.core.errors import INVALID, NOT_IMPLEMENTED, PRECONDITION, RequestError
from forebay.queue.leases import Consumer
from forebay.queue.queue import CLASSIC
from forebay.session.mqtt_deliver import Outbox, QueueSubscription
from forebay.wire.mqtt import SHARE_PREFIX, Suback, Subscribe
from forebay.wire.mqtt_codes import (
    FAILURE,
    IMPLEMENTATION_ERROR,
    NO_SUBSCRIPTION,
    REQUEST_CODES,
    SHARED_UNSUPPORTED,
    SUBACK,
    SUBSCRIPTION_ID_UNSUPPORTED,
    SUCCESS,
    UNSUBACK,
    V5,
    filter_error,
)
from forebay.wire.mqtt_properties import SUBSCRIPTION_ID, number_of, user_property

QUEUE_PREFIX: Final = b"$queue/"
NO_LOCAL: Final = 4
QOS_MAX: Final = 1  # of what is delivered
GROUP_CHARACTERS_MAX: Final = 255
REASON_CHARACTERS_MAX: Final = 1000
# User property of SUBSCRIBE -> argument of Vhost.consume
ARGUMENTS: Final = (
    (b"consumer-group", "x-consumer-group"),
    (b"stream-offset", "x-stream-offset"),
    (b"auto-commit", "x-auto-commit"),
)


@final
class Subscriptions:
    """The subscriptions of one session.

    default_group  consumer group of a 3.1.1 client, which has no way to name one
    """

    def __init__(self, session_id: i64, vhost: Vhost, outbox: Outbox, levels_max: i64) -> None:
        self.session_id = session_id
        self.vhost = vhost
        self.outbox = outbox
        self.levels_max: i64 = levels_max
        self.default_group = ""
        self.queues: dict[bytes, QueueSubscription] = {}  # by topic filter
        self.topics: set[bytes] = set()
        self.reason = ""

    # ---- SUBSCRIBE

    def subscribe(self, packet: Subscribe) -> Suback:
        """Subscribe to each filter; the answer, with the reasons of those refused in `self.reason`."""
        self.reason = ""
        answers: list[int] = []
        for index, filter in enumerate(packet.filters):
            answers.append(int(self.add(filter, packet.options[index], packet.properties)))
        return Suback(SUBACK, packet.packet_id, bytes(answers), b"")

    def add(self, filter: bytes, options: i64, block: bytes) -> i64:
        """Subscribe to one filter: the granted QoS or why not."""
        wrong = filter_error(filter, self.levels_max)
        if wrong:
            return self.refused(REQUEST_CODES[INVALID], wrong)
        if filter.startswith(SHARE_PREFIX):
            return self.refused(SHARED_UNSUPPORTED, "shared subscriptions are not supported; consume from a queue")
        if block and number_of(block, SUBSCRIPTION_ID, 0):
            return self.refused(SUBSCRIPTION_ID_UNSUPPORTED, "subscription identifiers are not supported")
        if options & NO_LOCAL:
            return self.refused(IMPLEMENTATION_ERROR, "no-local is not supported")
        qos: i64 = options & 3
        qos = min(qos, QOS_MAX)
        try:
            if filter.startswith(QUEUE_PREFIX):
                return self.add_queue(filter, qos, block)
            self.vhost.subscribe_topic(filter, self.session_id, qos)
        except RequestError as error:
            return self.refused(REQUEST_CODES.get(error.reason, FAILURE), error.text)
        self.topics.add(filter)
        return qos

    def refused(self, code: i64, text: str) -> i64:
        text = f"{self.reason}; {text}" if self.reason else text
        self.reason = text[:REASON_CHARACTERS_MAX]
        return code if self.outbox.version == V5 else FAILURE

    def add_queue(self, filter: bytes, qos: i64, block: bytes) -> i64:
        """Consume from a queue, or go on as before if the same subscription is there."""
        name = queue_name(filter)
        arguments = self.arguments(block)
        queue = self.vhost.queues.get(name)
        if qos == 0 and queue is not None and queue.kind == CLASSIC and "x-stream-offset" not in arguments:
            raise RequestError(
                PRECONDITION,
                f"QoS 0: nothing could be settled on queue '{name.decode()}'; subscribe with QoS 1",
            )
        old = self.queues.get(filter)
        if old is not None:
            if old.arguments == arguments and old.consumer.no_ack == (qos == 0):
                return qos
            self.drop_queue(old)
        consumer = self.vhost.consume(
            filter, self.session_id, 0, filter, qos == 0, False, self.outbox.window, arguments
        )
        subscription = QueueSubscription(filter, consumer, arguments)
        self.queues[filter] = subscription
        self.outbox.queues[consumer.id] = subscription
        return qos

    def arguments(self, block: bytes) -> dict[str, object]:
        """The arguments of `Vhost.consume` that the user properties ask for."""
        found: dict[str, object] = {}
        if self.default_group:
            found["x-consumer-group"] = self.default_group
        if not block:
            return found
        for name, argument in ARGUMENTS:
            value = user_property(block, name)
            if value is not None:
                text = value.decode("utf-8")
                if argument == "x-auto-commit":
                    if text not in ("true", "false"):
                        raise RequestError(INVALID, f"auto-commit: {text!r} is neither true nor false")
                    found[argument] = text == "true"
                else:
                    found[argument] = text
        return found

    # ---- the end of a subscription

    def unsubscribe(self, packet: Subscribe) -> Suback:
        """End each subscription."""
        answers: list[int] = []
        for filter in packet.filters:
            answers.append(SUCCESS if self.remove(filter) else NO_SUBSCRIPTION)
        return Suback(UNSUBACK, packet.packet_id, bytes(answers) if self.outbox.version == V5 else b"", b"")

    def remove(self, filter: bytes) -> bool:
        queue = self.queues.get(filter)
        if queue is not None:
            self.drop_queue(queue)
            return True
        self.topics.discard(filter)
        return self.vhost.unsubscribe_topic(filter, self.session_id)

    def drop_queue(self, subscription: QueueSubscription) -> None:
        del self.queues[subscription.filter]
        self.outbox.forget(subscription.consumer)
        self.vhost.cancel(subscription.consumer)

    def cancelled(self, consumer: Consumer) -> bool:
        """The queue of a consumer is gone; whether it was one of ours."""
        subscription = self.outbox.queues.get(consumer.id)
        if subscription is None:
            return False
        self.outbox.forget(consumer)
        if self.queues.get(subscription.filter) is subscription:
            del self.queues[subscription.filter]
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
