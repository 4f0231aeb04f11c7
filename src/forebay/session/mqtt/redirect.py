"""Sending every client to another server (MQTT 5, section 4.11)."""

from __future__ import annotations

from forebay.core.option_names import MOVED
from forebay.core.options import Options
from forebay.wire.mqtt import codes
from forebay.wire.mqtt import properties as props


def redirect_answer(options: Options) -> tuple[int, bytes] | None:
    """Reason code and properties of the CONNACK for each client of version 5; None where clients are served.

    A client of version 3.1.1 cannot be told where to go: it gets return code 3, server unavailable.
    """
    if not options.mqtt_redirect:
        return None
    code = codes.SERVER_MOVED if options.mqtt_redirect_code == MOVED else codes.USE_ANOTHER_SERVER
    server = props.Property(props.SERVER_REFERENCE, 0, options.mqtt_redirect.encode(), b"")
    return code, props.encode_properties([server])
