"""The fields of one MQTT connection, for people."""

from __future__ import annotations

from forebay.broker.mqtt.client_session import ClientSession
from forebay.session.mqtt.incoming.publish import Inbox
from forebay.session.mqtt.outgoing.deliver import Outbox
from forebay.wire.mqtt.codes import V5


def client_fields(inbox: Inbox, outbox: Outbox, client: ClientSession | None) -> dict[str, object]:
    """Counts of both directions, and of the session; `client` is None before the CONNECT is accepted."""
    fields: dict[str, object] = {
        "protocol": "MQTT 5.0" if inbox.version == V5 else "MQTT 3.1.1",
        "received": int(inbox.received),
        "ignored": int(inbox.ignored),
        "sent": int(outbox.encoder.sent),
        "too_large": int(outbox.encoder.too_large),
        "expired": int(outbox.encoder.expired),
        "inflight": int(outbox.window.inflight),
        "inflight_max": int(outbox.window.size),
    }
    if client is not None:
        fields["client_id"] = client.client_id.decode()
        fields["durable"] = client.durable
        fields["subscriptions"] = len(client.subscriptions)
        fields["waiting"] = int(client.mqueue.count)
        fields["dropped"] = int(client.mqueue.dropped)
    return fields
