"""Requests to a node of the broker's own, such as `$cbs`, and their answers, as Azure Service Bus has them.

A request names an operation in its application properties, and is answered with the request's message-id as the
correlation-id, a status as of HTTP and a description.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.core.errors import INVALID, MALFORMED, PeerError, RequestError
from forebay.wire.amqp10.decoder import ValueReader
from forebay.wire.amqp10.fields import code_of
from forebay.wire.amqp10.performatives import RECEIVER_FIRST, SENDER_SETTLED, Attach
from forebay.wire.amqp10.sections import (
    AMQP_VALUE,
    APPLICATION_PROPERTIES,
    MESSAGE_ID,
    PROPERTIES,
    PROPERTY_FIELDS,
    REPLY_TO,
    SECTION_NAMES,
    put_section,
)
from forebay.wire.amqp10.termini import LinkSource, LinkTarget
from forebay.wire.amqp10.values import Described, Int, Map, Number, Symbol

CLAIMS: Final = "$cbs"
PUT_TOKEN: Final = "put-token"
OK: Final = 200
ACCEPTED: Final = 202
NO_CONTENT: Final = 204
BAD_REQUEST: Final = 400
UNAUTHORIZED: Final = 401
FORBIDDEN: Final = 403
MISSING: Final = 404
CONFLICT: Final = 409
GONE: Final = 410
NOT_IMPLEMENTED: Final = 501
DESCRIPTION_OCTETS_MAX: Final = 500


@final
class NodeRequest:
    """One request.

    id          its message-id
    reply_to    address of the link that the answer goes by; "" for the one that there is
    operation   "" if it names none
    properties  its application properties
    body        the value of its amqp-value section
    """

    def __init__(self, id: object, reply_to: str, properties: dict[str, object], body: object) -> None:
        self.id = id
        self.reply_to = reply_to
        self.properties = properties
        self.body = body
        self.operation = text_in(properties, "operation")


@final
class NodeAnswer:
    """The answer to a request.

    body       value of its amqp-value section
    condition  of an error, such as `com.microsoft:message-lock-lost`; "" for none
    """

    def __init__(self, status: int, description: str = "", body: object = None, condition: str = "") -> None:
        self.status = status
        self.description = description
        self.body = body
        self.condition = condition


def read_node_request(data: bytes, at: i64, end: i64, depth_max: i64) -> NodeRequest:
    """Return the request in a message; PeerError(MALFORMED) if there is none.

    The sections may come in any order.
    """
    reader = ValueReader(data, at, end, depth_max)
    fields: list[object] = []
    properties: dict[str, object] = {}
    body: object = None
    while reader.pos < end:
        section = reader.value()
        if not isinstance(section, Described):
            raise PeerError(MALFORMED, "a section of a message is expected")
        code = code_of(section, SECTION_NAMES)
        if code == PROPERTIES and isinstance(section.value, list):
            fields = section.value
        elif code == APPLICATION_PROPERTIES and isinstance(section.value, Map):
            properties = names_of(section.value)
        elif code == AMQP_VALUE:
            body = section.value
    fields = fields + [None] * PROPERTY_FIELDS
    reply_to = fields[REPLY_TO]
    return NodeRequest(fields[MESSAGE_ID], reply_to if isinstance(reply_to, str) else "", properties, body)


def names_of(value: Map) -> dict[str, object]:
    """Return the pairs of a map whose keys are strings or symbols."""
    found: dict[str, object] = {}
    for key, each in value.pairs:
        if isinstance(key, Symbol):
            found[key.text] = each
        elif isinstance(key, str):
            found[key] = each
    return found


def text_in(fields: dict[str, object], name: str) -> str:
    """Return a field that is text; "" if it is absent or something else."""
    value = fields.get(name)
    if isinstance(value, Symbol):
        return value.text
    return value if isinstance(value, str) else ""


def number_in(fields: dict[str, object], name: str) -> int:
    """Return a field that is a whole number; RequestError(INVALID) if it is absent or something else."""
    value = fields.get(name)
    if isinstance(value, Number):
        return value.value
    if isinstance(value, bool) or not isinstance(value, int):
        raise RequestError(INVALID, f"field '{name}': {value!r:.100} must be a number")
    return value


def encode_claims_answer(request: NodeRequest, status: int, description: str) -> bytes:
    """Return the message that answers a request to `$cbs`."""
    fields: list[tuple[object, object]] = [("status-code", Int(status)), ("status-description", description)]
    return encode_message(request, fields, None)


def encode_node_answer(request: NodeRequest, answer: NodeAnswer) -> bytes:
    """Return the message that answers a request to a node `$management`."""
    description = answer.description[:DESCRIPTION_OCTETS_MAX]
    fields: list[tuple[object, object]] = [("statusCode", Int(answer.status)), ("statusDescription", description)]
    if answer.condition:
        fields.append(("errorCondition", Symbol(answer.condition)))
    return encode_message(request, fields, answer.body)


def encode_message(request: NodeRequest, fields: list[tuple[object, object]], body: object) -> bytes:
    """Return a message with these application properties and this body, in answer to a request."""
    out = BytesWriter()
    put_section(out, PROPERTIES, [None, None, None, None, None, request.id])
    put_section(out, APPLICATION_PROPERTIES, Map(fields))
    put_section(out, AMQP_VALUE, body)
    return out.getvalue()


# ---- links


def answer_request_link(attach: Attach, message_octets_max: i64) -> Attach:
    """Return the answer to the attach of a link by which requests come."""
    answer = Attach(attach.name, attach.handle, not attach.role)
    answer.source = attach.source or LinkSource()
    answer.target = attach.target
    answer.snd_settle_mode = attach.snd_settle_mode
    answer.rcv_settle_mode = RECEIVER_FIRST
    answer.properties = attach.properties
    answer.max_message_size = message_octets_max
    return answer


def answer_response_link(attach: Attach) -> Attach:
    """Return the answer to the attach of a link by which answers go."""
    answer = Attach(attach.name, attach.handle, not attach.role)
    answer.source = attach.source
    answer.target = attach.target or LinkTarget()
    answer.snd_settle_mode = SENDER_SETTLED
    answer.rcv_settle_mode = attach.rcv_settle_mode
    answer.properties = attach.properties
    answer.initial_delivery_count = 0
    return answer


def is_claims_link(attach: Attach) -> bool:
    """Return whether a link is one to or from `$cbs`."""
    if attach.role:
        return attach.source is not None and attach.source.address == CLAIMS
    target = attach.target
    return isinstance(target, LinkTarget) and target.address == CLAIMS
