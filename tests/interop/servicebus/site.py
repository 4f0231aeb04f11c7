"""A broker for clients of Azure Service Bus, and what they connect by."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from urllib.parse import quote_plus

from azure.servicebus import ServiceBusClient

from tests.broker_process import BrokerProcess

USER = "orders"
KEY = "c2VjcmV0LWtleQ=="
OTHER_KEY = "YW5vdGhlcg=="
LOCK_MS = 1500
OPTIONS: dict[str, object] = {
    "users": {USER: "pw", "reader": "pw"},
    "amqp_shared_access_keys": {USER: KEY, "reader": OTHER_KEY, "nobody": KEY},
    "permissions": [{"user": "reader", "vhost": "/", "configure": "^$", "write": "^$", "read": ".*"}],
    "queues": [
        {"name": "jobs", "dlq": {"enabled": True}},
        {"name": "short", "dlq": {"enabled": True}, "visibility_timeout_ms": LOCK_MS},
        {"name": "plain"},
        {"name": "chats", "visibility_timeout_ms": 2 * LOCK_MS},
    ],
}


def connection_string(broker: BrokerProcess, key: str = KEY, user: str = USER) -> str:
    secret = f"SharedAccessKeyName={user};SharedAccessKey={key}"
    return f"Endpoint=sb://127.0.0.1:{broker.amqp_port};{secret};UseDevelopmentEmulator=true;"


def signature(resource: str, key: str = KEY, user: str = USER, expires_s: float = 3600) -> str:
    """A shared access signature, made here as Azure's documentation says."""
    expiry = int(time.time() + expires_s)
    signed = f"{quote_plus(resource)}\n{expiry}".encode()
    proof = base64.b64encode(hmac.new(key.encode(), signed, hashlib.sha256).digest()).decode()
    return f"SharedAccessSignature sr={quote_plus(resource)}&sig={quote_plus(proof)}&se={expiry}&skn={user}"


def by_signature(broker: BrokerProcess, token: str) -> str:
    """A connection string with a token instead of a key."""
    endpoint = f"Endpoint=sb://127.0.0.1:{broker.amqp_port}"
    return f"{endpoint};SharedAccessSignature={token};UseDevelopmentEmulator=true;"


def client_of(broker: BrokerProcess, text: str | None = None) -> ServiceBusClient:
    return ServiceBusClient.from_connection_string(text or connection_string(broker), retry_total=0)
