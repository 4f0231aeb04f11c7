"""Words that options take."""

from __future__ import annotations

from typing import Final

NONE: Final = "none"
INTERNAL: Final = "internal"
OAUTH: Final = "oauth"
HTTP: Final = "http"
MQTT: Final = "mqtt"
AMQP: Final = "amqp"
BLOCKS: Final = "blocks"
COAP: Final = "coap"
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512"),
    *("EdDSA", "Ed25519", "HS256", "HS384", "HS512"),
)
USUAL: Final = ("RS256", "PS256", "ES256", "EdDSA")
CN: Final = "cn"
DN: Final = "dn"
SAN_DNS: Final = "san_dns"
SAN_EMAIL: Final = "san_email"
SAN_IP: Final = "san_ip"
SAN_URI: Final = "san_uri"

BACKENDS: Final = (INTERNAL, OAUTH, HTTP)
PROTOCOLS: Final = (MQTT, AMQP, BLOCKS, HTTP, COAP)
IDENTITIES: Final = (NONE, CN, DN, SAN_DNS, SAN_EMAIL, SAN_IP, SAN_URI)

DURABLE: Final = "durable"
MEMORY: Final = "memory"
REFUSE: Final = "refuse"
ADDRESS_QUEUES: Final = (DURABLE, MEMORY, REFUSE)
LOWEST: Final = "lowest"
HIGHEST: Final = "highest"
PLACES: Final = (LOWEST, HIGHEST)
USER: Final = "user"
VHOST: Final = "vhost"
CLIENT_ID_SCOPES: Final = (USER, VHOST)
HOLD: Final = "hold"
DROP: Final = "drop"
SPILL: Final = "spill"
OVERFLOWS: Final = (HOLD, SPILL, DROP)
FOREBAY: Final = "forebay"
FLUXMQ: Final = "fluxmq"
AUTO: Final = "auto"
RABBITMQ: Final = "RabbitMQ"
AMQP_PRODUCTS: Final = (AUTO, "forebay", RABBITMQ)
DELIVERY_HEADERS: Final = (NONE, FOREBAY, FLUXMQ)
MOVED: Final = "moved"
ANOTHER: Final = "another"
REDIRECTS: Final = (MOVED, ANOTHER)
ROUND_ROBIN: Final = "round_robin"
SHARED_STRATEGIES: Final = (ROUND_ROBIN, "random", "sticky", "least_inflight", "hash_topic", "hash_clientid")
OPTIONAL: Final = "optional"
REQUIRED: Final = "required"
CLIENT_AUTHS: Final = (NONE, OPTIONAL, REQUIRED)
TLS_1_2: Final = "1.2"
TLS_1_3: Final = "1.3"
TLS_VERSIONS: Final = (TLS_1_2, TLS_1_3)
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"
SCRAMS: Final = (SCRAM_SHA_256, SCRAM_SHA_512)
SECTIONS_OF_FLUXMQ: Final = {
    "server": "listeners are `amqp`, `mqtt`, `http` and those beside them",
    "broker": "limits of messages and sessions have options of their own, such as `message_octets_max`",
    "session": "what sessions keep is said by `mqtt_...`",
    "queue_manager": "what a group has read is noted as its consumers acknowledge it, and nothing waits to be captured",
    "storage": "files are in the folder `data`, and what is confirmed is on the disk",
    "hooks": "logins are asked for by `auth_backends`",
    "webhook": "where events are sent is said by `webhooks`",
    "ratelimit": "limits of rates are `client_messages_per_s` and those beside it",
    "auth": "users are in `users`, and who else is asked for them in `auth_backends`",
    "log": "what is logged is said by `log_level` and `log_format`",
}
# Options that somebody will look for, and why there is none.
REFUSED_OPTIONS: Final = {
    "coaps": "CoAP over DTLS is not there, as no maintained library for Python serves it; use `mqtts` or `https`, or "
    "let `coap` listen in a network of your own, such as a VPN",
    "coap_oscore": "OSCORE is not there, as no maintained library for Python serves it; use `mqtts` or `https`, or let "
    "`coap` listen in a network of your own, such as a VPN",
}
LOG_LEVELS: Final = ("debug", "info", "warning", "error")

# Types of queues.
CLASSIC_TYPE: Final = "classic"
QUORUM_TYPE: Final = "quorum"
STREAM_TYPE: Final = "stream"
QUEUE_TYPES: Final = (CLASSIC_TYPE, QUORUM_TYPE, STREAM_TYPE)
