"""The fields of a message as subscribers get it that are sent JSON: over HTTP and over CoAP."""

from __future__ import annotations

import base64

from mypy_extensions import i64

from forebay.broker.mqtt.fanout import topic_at
from forebay.log.block import Block
from forebay.message.formats.table import format_of
from forebay.message.properties import properties_of
from forebay.message.rendered import rendered_at
from forebay.message.shown import plain
from forebay.routing.exchange import text


def event_fields(block: Block, index: i64) -> dict[str, object]:
    """Return the fields of a message, for an event."""
    format = block.format(index)
    properties = properties_of(format, rendered_at(block, index))
    fields: dict[str, object] = {"topic": text(topic_at(block, index))}
    body = format_of(format).payload(block.body(index))
    try:
        fields["payload"] = body.decode()
    except UnicodeDecodeError:
        fields["payload_base64"] = base64.b64encode(body).decode()
    if properties.content_type is not None:
        fields["content_type"] = properties.content_type
    if properties.message_id is not None:
        fields["message_id"] = properties.message_id
    headers: dict[str, object] = {}
    for name, value in properties.named_values():
        headers[name] = plain(value)
    if headers:
        fields["headers"] = headers
    protocol = format_of(format)
    if protocol.keys_are_topics:
        fields["qos"] = int(protocol.qos(format))
    return fields
