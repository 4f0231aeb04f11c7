"""The metrics of messages, of all queues, channels and clients together; sums that never fall."""

from __future__ import annotations

from typing import Final

from forebay.admin.metrics import family
from forebay.admin.metrics.family import Number, Row, counter, gauge
from forebay.admin.metrics.look import MetricsLook, Spread
from forebay.queue.counts import DELIVERY_LIMIT, EXPIRED, MAXLEN, REJECTED, Counts

AMQP091: Final = "amqp091"
MQTT: Final = "mqtt"


def by_reason(counts: Counts) -> dict[tuple[str, ...], Number]:
    """The dead letters, by reason."""
    return {
        (EXPIRED,): int(counts.expired),
        (REJECTED,): int(counts.rejected),
        (MAXLEN,): int(counts.dropped),
        (DELIVERY_LIMIT,): int(counts.limited),
    }


def dropped_by_reason(look: MetricsLook) -> dict[tuple[str, ...], Number]:
    """Messages that somebody did not get, by why; of what died in queues also what went on as a dead letter."""
    totals = look.totals
    return {
        **by_reason(look.counts),
        ("queue_full",): int(look.counts.refused),
        ("unroutable",): int(look.flow.unroutable),
        ("client_queue_full",): totals.dropped_queue_full,
        ("client_not_reading",): totals.dropped_not_read,
        ("client_expired",): totals.dropped_expired,
        ("client_too_large",): totals.dropped_too_large,
    }


MESSAGE_ROWS: Final[tuple[Row[MetricsLook], ...]] = (
    Row(
        counter("rabbitmq_channel_messages_published", family.CHANNEL, "Messages published on channels."),
        lambda look: int(look.traffic.received),
    ),
    Row(
        counter("rabbitmq_channel_messages_confirmed", family.CHANNEL, "Of these, confirmed."),
        lambda look: int(look.traffic.confirmed),
    ),
    Row(
        counter("rabbitmq_channel_messages_unroutable_returned", family.CHANNEL, "Mandatory messages returned."),
        lambda look: int(look.traffic.returned),
    ),
    Row(
        counter("rabbitmq_channel_messages_unroutable_dropped", family.CHANNEL, "Other messages without a route."),
        lambda look: int(look.traffic.dropped),
    ),
    Row(
        counter("rabbitmq_channel_get_empty", family.CHANNEL, "basic.get on an empty queue."),
        lambda look: int(look.traffic.gets_empty),
    ),
    Row(
        counter("rabbitmq_channel_messages_delivered_ack", family.CHANNEL, "Messages delivered, to be acknowledged."),
        lambda look: int(look.counts.delivered),
    ),
    Row(
        counter("rabbitmq_channel_messages_delivered", family.CHANNEL, "Messages delivered without acknowledgement."),
        lambda look: int(look.counts.delivered_settled),
    ),
    Row(
        counter("rabbitmq_channel_get_ack", family.CHANNEL, "Messages fetched, to be acknowledged."),
        lambda look: int(look.counts.got),
    ),
    Row(
        counter("rabbitmq_channel_get", family.CHANNEL, "Messages fetched without acknowledgement."),
        lambda look: int(look.counts.got_settled),
    ),
    Row(
        counter("rabbitmq_channel_messages_redelivered", family.CHANNEL, "Messages delivered again."),
        lambda look: int(look.counts.redelivered),
    ),
    Row(
        counter("rabbitmq_channel_messages_acked", family.CHANNEL, "Messages acknowledged."),
        lambda look: int(look.counts.acked),
    ),
    Row(
        counter("rabbitmq_connection_incoming_bytes", family.CONNECTION_COARSE, "Octets received."),
        lambda look: look.totals.octets_received,
    ),
    Row(
        counter("rabbitmq_connection_outgoing_bytes", family.CONNECTION_COARSE, "Octets sent."),
        lambda look: look.totals.octets_sent,
    ),
    Row(
        counter("rabbitmq_exchange_messages_published", family.EXCHANGE, "Messages published to exchanges."),
        lambda look: int(look.flow.published_in),
    ),
    Row(
        counter("forebay_exchange_messages_routed", family.EXCHANGE, "Copies of these for queues and subscribers."),
        lambda look: int(look.flow.published_out),
    ),
    Row(
        counter("forebay_exchange_messages_unroutable", family.EXCHANGE, "Messages without a route."),
        lambda look: int(look.flow.unroutable),
    ),
)

GLOBAL_ROWS: Final[tuple[Row[MetricsLook], ...]] = (
    Row(
        counter(
            "rabbitmq_global_messages_received_confirm", family.GLOBAL, "Messages whose publisher asks for confirms."
        ),
        lambda look: int(look.traffic.expecting),
    ),
    Row(
        counter("rabbitmq_global_messages_confirmed", family.GLOBAL, "Messages confirmed to AMQP publishers."),
        lambda look: int(look.traffic.confirmed),
    ),
    Row(
        counter("rabbitmq_global_messages_routed", family.GLOBAL, "Messages published that had a route."),
        lambda look: int(look.flow.published_in - look.flow.unroutable),
    ),
    Row(
        counter("rabbitmq_global_messages_unroutable_returned", family.GLOBAL, "Mandatory messages returned."),
        lambda look: int(look.traffic.returned),
    ),
    Row(
        counter("rabbitmq_global_messages_unroutable_dropped", family.GLOBAL, "Other AMQP messages without a route."),
        lambda look: int(look.traffic.dropped),
    ),
    Row(
        counter("rabbitmq_global_messages_delivered", family.GLOBAL, "Messages that queues delivered."),
        lambda look: int(
            look.counts.delivered + look.counts.delivered_settled + look.counts.got + look.counts.got_settled
        ),
    ),
    Row(
        counter(
            "rabbitmq_global_messages_delivered_consume_manual_ack",
            family.GLOBAL,
            "Messages delivered to consumers, to be acknowledged.",
        ),
        lambda look: int(look.counts.delivered),
    ),
    Row(
        counter(
            "rabbitmq_global_messages_delivered_consume_auto_ack",
            family.GLOBAL,
            "Messages delivered to consumers that acknowledge nothing.",
        ),
        lambda look: int(look.counts.delivered_settled),
    ),
    Row(
        counter(
            "rabbitmq_global_messages_delivered_get_manual_ack", family.GLOBAL, "Messages fetched, to acknowledge."
        ),
        lambda look: int(look.counts.got),
    ),
    Row(
        counter(
            "rabbitmq_global_messages_delivered_get_auto_ack",
            family.GLOBAL,
            "Messages fetched without acknowledgement.",
        ),
        lambda look: int(look.counts.got_settled),
    ),
    Row(
        counter("rabbitmq_global_messages_get_empty", family.GLOBAL, "basic.get on an empty queue."),
        lambda look: int(look.traffic.gets_empty),
    ),
    Row(
        counter("rabbitmq_global_messages_redelivered", family.GLOBAL, "Messages delivered again."),
        lambda look: int(look.counts.redelivered),
    ),
    Row(
        counter("rabbitmq_global_messages_acknowledged", family.GLOBAL, "Messages acknowledged."),
        lambda look: int(look.counts.acked),
    ),
    Row(
        counter("rabbitmq_global_messages_dead_lettered_expired", family.GLOBAL, "Dead letters that had expired."),
        lambda look: int(look.moved.expired),
    ),
    Row(
        counter("rabbitmq_global_messages_dead_lettered_rejected", family.GLOBAL, "Dead letters that were rejected."),
        lambda look: int(look.moved.rejected),
    ),
    Row(
        counter("rabbitmq_global_messages_dead_lettered_maxlen", family.GLOBAL, "Dead letters from full queues."),
        lambda look: int(look.moved.dropped),
    ),
    Row(
        counter(
            "rabbitmq_global_messages_dead_lettered_delivery_limit",
            family.GLOBAL,
            "Dead letters that failed too often.",
        ),
        lambda look: int(look.moved.limited),
    ),
)

MQTT_ROWS: Final[tuple[Row[MetricsLook], ...]] = (
    Row(
        gauge("forebay_mqtt_connections", family.MQTT, "MQTT clients that are connected."),
        lambda look: look.totals.clients_connected,
    ),
    Row(
        counter("forebay_mqtt_connects", family.MQTT, "MQTT CONNECTs."),
        lambda look: look.totals.connects,
    ),
    Row(
        gauge("forebay_mqtt_sessions", family.MQTT, "MQTT sessions, with and without a connection."),
        lambda look: look.totals.clients_connected + look.totals.clients_disconnected,
    ),
    Row(
        gauge("forebay_mqtt_sessions_offline", family.MQTT, "MQTT sessions without a connection."),
        lambda look: look.totals.clients_disconnected,
    ),
    Row(
        counter("forebay_mqtt_sessions_expired", family.MQTT, "MQTT sessions that ended by their expiry."),
        lambda look: look.totals.clients_expired,
    ),
    Row(
        counter("forebay_mqtt_packets_received", family.MQTT, "MQTT packets received, of any type."),
        lambda look: look.totals.packets_received,
    ),
    Row(
        counter("forebay_mqtt_packets_sent", family.MQTT, "MQTT packets sent, of any type."),
        lambda look: look.totals.packets_sent,
    ),
    Row(
        counter("forebay_mqtt_messages_received", family.MQTT, "MQTT PUBLISHes received."),
        lambda look: look.totals.publishes_received,
    ),
    Row(
        counter("forebay_mqtt_messages_sent", family.MQTT, "MQTT PUBLISHes sent."),
        lambda look: look.totals.publishes_sent,
    ),
    Row(
        counter("forebay_mqtt_payload_bytes_received", family.MQTT, "Octets of payload received."),
        lambda look: look.totals.publish_octets_received,
    ),
    Row(
        counter("forebay_mqtt_payload_bytes_sent", family.MQTT, "Octets of payload sent."),
        lambda look: look.totals.publish_octets_sent,
    ),
    Row(
        gauge("forebay_mqtt_subscriptions", family.MQTT, "Subscriptions to topics."),
        lambda look: look.totals.subscriptions,
    ),
    Row(
        gauge("forebay_mqtt_shared_subscriptions", family.MQTT, "Members of shared subscriptions."),
        lambda look: look.totals.shared_subscriptions,
    ),
    Row(gauge("forebay_mqtt_retained_messages", family.MQTT, "Retained messages."), lambda look: look.totals.retained),
    Row(
        gauge("forebay_mqtt_stored_messages", family.MQTT, "Retained messages, and messages that wait for clients."),
        lambda look: look.totals.stored_messages,
    ),
    Row(gauge("forebay_mqtt_stored_bytes", family.MQTT, "Octets of these."), lambda look: look.totals.stored_octets),
)

MESSAGE_SPREADS: Final[tuple[Spread, ...]] = (
    Spread(
        counter(
            "rabbitmq_global_messages_received", family.GLOBAL, "Messages received from publishers.", ("protocol",)
        ),
        lambda look: {
            (AMQP091,): int(look.traffic.received),
            (MQTT,): look.totals.publishes_received,
        },
    ),
    Spread(
        counter(
            "forebay_messages_dropped",
            family.GLOBAL,
            "Messages that a queue or client lost or refused, by reason, including those that became dead letters.",
            ("reason",),
        ),
        dropped_by_reason,
    ),
    Spread(
        counter(
            "forebay_dead_letters_moved",
            family.GLOBAL,
            "Dead letters moved, by the reason of their death.",
            ("reason",),
        ),
        lambda look: by_reason(look.moved),
    ),
)
