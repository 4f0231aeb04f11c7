"""Properties with other headers, whatever their format."""

from __future__ import annotations

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.core.message import AMQP091, MQTT
from forebay.wire.amqp091.codec import TABLE_DEPTH_MAX, put_table
from forebay.wire.amqp091.properties import edit_headers
from forebay.wire.mqtt.properties import (
    USER_PROPERTY,
    Property,
    decode_properties,
    encode_properties,
    header_text,
    mqtt_text,
)


def edited(format: i64, properties: bytes, dropped: list[bytes], said: list[tuple[str, object]]) -> bytes:
    """Checked properties without the headers of some names, and with these at the end; the others stay as they were."""
    if format == AMQP091:
        added = BytesWriter()
        put_table(added, said)
        return edit_headers(properties, dropped, added.getvalue()[4:], TABLE_DEPTH_MAX)
    assert format == MQTT, f"format {format} has no headers"
    kept = [each for each in decode_properties(properties) if each.id != USER_PROPERTY or each.text not in dropped]
    for name, value in said:
        kept.append(Property(USER_PROPERTY, 0, mqtt_text(name), mqtt_text(header_text(value))))
    return encode_properties(kept)
