"""Sending every client to another server (MQTT 5, section 4.11)."""

from __future__ import annotations

from typing import Final

from forebay.core.option_names import MOVED
from forebay.core.options import Options
from forebay.wire.mqtt import codes
from forebay.wire.mqtt import properties as props

DISCONNECT_OCTETS: Final = 16  # at most, without the reference itself


def redirect_answer(options: Options) -> tuple[int, bytes] | None:
    """Reason code and properties of the CONNACK for each client of version 5; None where clients are served.

    A client of version 3.1.1 cannot be told where to go: it gets return code 3, server unavailable.
    """
    if not options.mqtt_redirect:
        return None
    code = codes.SERVER_MOVED if options.mqtt_redirect_code == MOVED else codes.USE_ANOTHER_SERVER
    server = props.Property(props.SERVER_REFERENCE, 0, options.mqtt_redirect.encode(), b"")
    return code, props.encode_properties([server])


def server_reference(server: str, packet_octets_max: int) -> bytes:
    """Properties of a DISCONNECT that tell where to go; none where nobody knows, or the client takes no packet so long.

    packet_octets_max  of the client's CONNECT [MQTT-3.1.2-24]
    """
    octets = server.encode()
    if not octets or len(octets) + DISCONNECT_OCTETS > packet_octets_max:
        return b""
    return props.encode_properties([props.Property(props.SERVER_REFERENCE, 0, octets, b"")])
