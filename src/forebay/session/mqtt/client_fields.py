"""The fields of one MQTT connection, for people."""

from __future__ import annotations

from forebay.broker.mqtt.client_session import ClientSession
from forebay.session.mqtt.incoming.publish import Inbox
from forebay.session.mqtt.outgoing.deliver import Outbox
from forebay.wire.mqtt.codes import V5


def client_fields(inbox: Inbox, outbox: Outbox, client: ClientSession) -> dict[str, object]:
    """Return the counts of both directions, and those of the client's session."""
    return {
        "protocol": "MQTT 5.0" if inbox.version == V5 else "MQTT 3.1.1",
        "received": int(inbox.received),
        "ignored": int(inbox.ignored),
        "sent": int(outbox.encoder.sent),
        "too_large": int(outbox.encoder.too_large),
        "expired": int(outbox.encoder.expired),
        "inflight": int(outbox.window.inflight),
        "inflight_max": int(outbox.window.size),
        "client_id": client.client_id.decode(),
        "durable": client.durable,
        "subscriptions": len(client.subscriptions),
        "waiting": int(client.mqueue.count),
        "dropped": int(client.mqueue.dropped),
    }
