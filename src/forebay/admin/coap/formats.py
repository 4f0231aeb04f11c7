"""Content types by their numbers in the option Content-Format (RFC 7252, section 12.3, and the IANA registry)."""

from __future__ import annotations

from typing import Final

from forebay.wire.coap.request import NONE

JSON: Final = 50
LINKS: Final = 40
BY_NUMBER: Final = {
    0: "text/plain;charset=utf-8",
    LINKS: "application/link-format",
    41: "application/xml",
    42: "application/octet-stream",
    47: "application/exi",
    JSON: "application/json",
    51: "application/json-patch+json",
    52: "application/merge-patch+json",
    60: "application/cbor",
    61: "application/cwt",
    63: "application/cbor-seq",
    110: "application/senml+json",
    111: "application/sensml+json",
    112: "application/senml+cbor",
    113: "application/sensml+cbor",
    11542: "application/vnd.oma.lwm2m+tlv",
    11543: "application/vnd.oma.lwm2m+json",
    11544: "application/vnd.oma.lwm2m+cbor",
}
_NUMBERS: Final = {name.replace(" ", ""): number for number, name in BY_NUMBER.items()} | {"text/plain": 0}


def number_of(content_type: str) -> int:
    """Return the number of a content type, NONE if it has none."""
    return _NUMBERS.get(content_type.replace(" ", "").lower(), NONE)
