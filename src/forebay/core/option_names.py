"""Words that options of logins and certificates take."""

from __future__ import annotations

from typing import Final

NONE: Final = "none"
INTERNAL: Final = "internal"
OAUTH: Final = "oauth"
HTTP: Final = "http"
MQTT: Final = "mqtt"
AMQP: Final = "amqp"
BLOCKS: Final = "blocks"
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
PROTOCOLS: Final = (MQTT, AMQP, BLOCKS, HTTP)
IDENTITIES: Final = (NONE, CN, DN, SAN_DNS, SAN_EMAIL, SAN_IP, SAN_URI)
