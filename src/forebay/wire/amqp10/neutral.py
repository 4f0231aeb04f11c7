"""Conversion between the sections before the body of an AMQP 1.0 message and protocol-neutral properties.

    1.0                             neutral
    header                          durable, priority, expiration_ms
    message and correlation id      text or octets with the type of the id
    creation-time                   timestamp_s and timestamp_rest_ms
    group-id                        group_id; also encoded from app_id, as in RabbitMQ
    reply-to /queues/<name>         reply_to <name>
    reply-to /exchanges/amq.topic/  reply_topic
    application-properties          headers; lists and maps are not encoded
    annotation x-basic-type         type
    annotation x-opt-deaths         header x-death
    annotations x-opt-dlq-…         headers dlq-…
    other annotations               message_annotations; headers `x-…` are encoded as annotations

Types without a neutral counterpart are decoded as the closest one: uuid, symbol and char as a text, a timestamp as
seconds, a number of any width as an int. Decimals are dropped. An int is encoded as an int, or as a long if needed.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import quote, unquote_to_bytes

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.core.message import NUMBER_ID, OCTETS_ID, TEXT_ID, UNTYPED_ID, UUID_ID, Properties
from forebay.wire.amqp10.sections import (
    ABSOLUTE_EXPIRY_TIME,
    APPLICATION_PROPERTIES,
    CONTENT_ENCODING,
    CONTENT_TYPE,
    CORRELATION_ID,
    CREATION_TIME,
    DURABLE,
    GROUP_ID,
    GROUP_SEQUENCE,
    MESSAGE_ANNOTATIONS,
    MESSAGE_ID,
    PRIORITY,
    PROPERTIES,
    PROPERTY_FIELDS,
    REPLY_TO,
    REPLY_TO_GROUP_ID,
    SUBJECT,
    TO,
    TTL,
    USER_ID,
    flag_at,
    list_field,
    number_at,
    put_header,
    put_section,
    split_sections,
    value_at,
)
from forebay.wire.amqp10.values import (
    CHAR,
    MAP_32,
    STRING_32,
    TIMESTAMP,
    Array,
    Decimal,
    Described,
    Float,
    Int,
    Map,
    Number,
    Symbol,
    Timestamp,
    Uint,
    Ulong,
    Uuid,
    trim,
)

QUEUES: Final = "/queues/"
EXCHANGES: Final = "/exchanges/"
TOPICS: Final = "/exchanges/amq.topic/"
UUID_PREFIX: Final = "urn:uuid:"
SAFE: Final = "-._~"
TTL_MAX: Final = 0xFFFFFFFF
INT_MAX: Final = (1 << 31) - 1
LONG_MAX: Final = (1 << 63) - 1

TYPE_ANNOTATION: Final = "x-basic-type"
CC_ANNOTATION: Final = "x-cc"
RECEIVED_ANNOTATION: Final = "x-opt-rabbitmq-received-time"
DEATHS_ANNOTATION: Final = "x-opt-deaths"
BROKER_PREFIX: Final = "x-opt-"
MARK_PREFIX: Final = "x-opt-dlq-"
MARK_NAMES: Final = ("id", "queue", "offset", "reason", "deliveries", "time-ms", "group")
MARK_ANNOTATIONS: Final = [MARK_PREFIX + name for name in MARK_NAMES]
CC_HEADER: Final = "CC"
BCC_HEADER: Final = "BCC"
RECEIVED_HEADER: Final = "timestamp_in_ms"
DEATHS_HEADER: Final = "x-death"
GROUP_HEADER: Final = "x-group-id"
TEXT_HEADER: Final = "mqtt-payload-format"  # carries MQTT's payload format indicator, as in AMQP 0.9.1


# ---- to the neutral form


def decode_neutral(data: bytes) -> Properties:
    """Return encoded sections as protocol-neutral properties. Raises PeerError(MALFORMED) if they cannot be decoded."""
    found = split_sections(data, 0, len(data))
    made = Properties()
    made.durable = flag_at(data, list_field(data, found.header, found.end, DURABLE))
    priority = number_at(data, list_field(data, found.header, found.end, PRIORITY))
    if priority >= 0:
        made.priority = int(priority)
    ttl = number_at(data, list_field(data, found.header, found.end, TTL))
    if ttl >= 0:
        made.expiration_ms = int(ttl)
    if found.properties >= 0:
        decode_fields(made, value_at(data, found.properties, found.end))
    named = value_at(data, found.application_properties, found.end)
    if isinstance(named, Map):
        for key, value in named.pairs:
            if isinstance(key, str) and not isinstance(value, Decimal):
                if key == TEXT_HEADER:
                    made.body_is_text = neutral_value(value) == 1
                else:
                    made.headers.append((key, neutral_value(value)))
    annotations = value_at(data, found.message_annotations, found.end)
    if isinstance(annotations, Map):
        decode_annotations(made, annotations)
    return made


def decode_fields(made: Properties, fields: object) -> None:
    """Set the properties that the fields of the properties section define."""
    if not isinstance(fields, list):
        return
    fields = fields + [None] * (PROPERTY_FIELDS - len(fields))
    made.message_id, made.message_id_type = text_id(fields[MESSAGE_ID])
    made.correlation_id, made.correlation_id_type = octets_id(fields[CORRELATION_ID])
    user = fields[USER_ID]
    if isinstance(user, bytes):
        made.user_id = user.decode("utf-8", "replace")
    made.to = text_of(fields[TO])
    made.subject = text_of(fields[SUBJECT])
    decode_reply_to(made, text_of(fields[REPLY_TO]))
    made.content_type = text_of(fields[CONTENT_TYPE])
    made.content_encoding = text_of(fields[CONTENT_ENCODING])
    expiry = fields[ABSOLUTE_EXPIRY_TIME]
    if isinstance(expiry, Timestamp):
        made.absolute_expiry_ms = expiry.value
    created = fields[CREATION_TIME]
    if isinstance(created, Timestamp) and created.value >= 0:
        made.timestamp_s = created.value // 1000
        made.timestamp_rest_ms = i64(created.value % 1000)
    made.group_id = text_of(fields[GROUP_ID])
    sequence = fields[GROUP_SEQUENCE]
    if isinstance(sequence, Uint):
        made.group_sequence = sequence.value
    made.reply_to_group_id = text_of(fields[REPLY_TO_GROUP_ID])


def decode_reply_to(made: Properties, address: str | None) -> None:
    """Set `reply_to`, and for a topic address `reply_topic`. A queue address becomes the queue's name."""
    if address is None:
        return
    made.reply_to = address
    if address.startswith(QUEUES) and "/" not in address[len(QUEUES) :]:
        made.reply_to = percent_decoded(address[len(QUEUES) :])
    elif address.startswith(TOPICS) and "/" not in address[len(TOPICS) :]:
        key = percent_decoded(address[len(TOPICS) :])
        made.reply_topic = key.replace("/", "\0").replace(".", "/").replace("\0", ".")


def decode_annotations(made: Properties, annotations: Map) -> None:
    """Set the properties that message annotations define: fields, headers, and `message_annotations` for the rest."""
    others: list[tuple[object, object]] = []
    for key, value in annotations.pairs:
        if isinstance(value, Decimal):
            continue
        name: object = key.value if isinstance(key, Ulong) else text_of(key)
        if name == TYPE_ANNOTATION:
            made.type = text_of(value)
        elif name == DEATHS_ANNOTATION:
            made.headers.append((DEATHS_HEADER, decode_deaths(value)))
        elif isinstance(name, str) and name.startswith(MARK_PREFIX):
            made.headers.append((name[len(BROKER_PREFIX) :], neutral_value(value)))
        elif name == RECEIVED_ANNOTATION and isinstance(value, Timestamp):
            others.append((name, value.value))
        elif name is not None:
            others.append((name, neutral_value(value)))
    if others:
        made.message_annotations = others


def decode_deaths(value: object) -> list[object]:
    """Return the value of x-opt-deaths as the tables of the header x-death, empty if it is not an array."""
    tables: list[object] = []
    if not isinstance(value, Array):
        return tables
    for each in value.items:
        if not isinstance(each, Map):
            continue
        table: dict[str, object] = {}
        for key, field in each.pairs:
            name = text_of(key)
            if name == "first-time":
                table["time"] = neutral_value(field)
            elif name == "ttl":
                table["original-expiration"] = str(neutral_value(field))
            elif name is not None and name != "last-time":
                table[name] = neutral_value(field)
        tables.append(table)
    return tables


def text_of(value: object) -> str | None:
    """Return the text of a string or a symbol, or None for any other value."""
    if isinstance(value, Symbol):
        return value.text
    return value if isinstance(value, str) else None


def text_id(value: object) -> tuple[str | None, i64]:
    """Return a message or correlation id as a text, with its type. None for an id of another type."""
    if isinstance(value, Ulong):
        return str(value.value), NUMBER_ID
    if isinstance(value, Uuid):
        return UUID_PREFIX + value.text(), UUID_ID
    if isinstance(value, bytes):
        return value.hex(), OCTETS_ID
    return text_of(value), UNTYPED_ID


def octets_id(value: object) -> tuple[bytes | None, i64]:
    """Return a message or correlation id as octets, with its type. None for an id of another type."""
    if isinstance(value, bytes):
        return value, OCTETS_ID
    text, kind = text_id(value)
    if text is None:
        return None, kind
    return text.encode("utf-8", "replace"), TEXT_ID if kind == UNTYPED_ID else kind


def neutral_value(value: object) -> object:
    """Return a decoded value in the types of the neutral form."""
    if isinstance(value, Number):
        if value.code == TIMESTAMP:
            return value.value // 1000
        return chr(value.value) if value.code == CHAR else value.value
    if isinstance(value, Symbol):
        return value.text
    if isinstance(value, Float):
        return value.number()
    if isinstance(value, Uuid):
        return value.text()
    if isinstance(value, list):
        return [neutral_value(each) for each in value]
    if isinstance(value, Array):
        return [neutral_value(each) for each in value.items]
    if isinstance(value, Map):
        table: dict[str, object] = {}
        for key, each in value.pairs:
            table[str(neutral_value(key))] = neutral_value(each)
        return table
    if isinstance(value, Described):
        return neutral_value(value.value)
    return None if isinstance(value, Decimal) else value


def percent_decoded(part: str) -> str:
    """Return a percent-encoded segment of an address as text."""
    return unquote_to_bytes(part).decode("utf-8", "replace")


# ---- from the neutral form


def encode_neutral(properties: Properties) -> bytes:
    """Return protocol-neutral properties as encoded sections."""
    out = BytesWriter()
    priority = properties.priority
    ttl = properties.expiration_ms
    put_header(
        out,
        properties.durable,
        -1 if priority is None else i64(max(0, min(priority, 255))),
        -1 if ttl is None else i64(max(0, min(ttl, TTL_MAX))),
        False,
        0,
    )
    annotations: list[tuple[object, object]] = []
    named: list[tuple[object, object]] = []
    encode_headers(properties, annotations, named)
    if annotations:
        put_section(out, MESSAGE_ANNOTATIONS, Map(annotations))
    fields = trim(encode_fields(properties))
    if fields:
        put_section(out, PROPERTIES, fields)
    if named:
        put_section(out, APPLICATION_PROPERTIES, Map(named))
    return out.getvalue()


def encode_fields(properties: Properties) -> list[object]:
    """Return the fields of the properties section."""
    fields: list[object] = [None] * PROPERTY_FIELDS
    fields[MESSAGE_ID] = typed_id(properties.message_id, properties.message_id_type)
    user = properties.user_id
    fields[USER_ID] = None if user is None else user.encode("utf-8", "replace")
    fields[TO] = properties.to
    fields[SUBJECT] = properties.subject
    fields[REPLY_TO] = reply_address(properties)
    fields[CORRELATION_ID] = typed_octets(properties.correlation_id, properties.correlation_id_type)
    fields[CONTENT_TYPE] = symbol_of(properties.content_type)
    fields[CONTENT_ENCODING] = symbol_of(properties.content_encoding)
    expiry = properties.absolute_expiry_ms
    fields[ABSOLUTE_EXPIRY_TIME] = None if expiry is None else Timestamp(expiry)
    seconds = properties.timestamp_s
    if seconds is not None and seconds < LONG_MAX // 1000:
        fields[CREATION_TIME] = Timestamp(seconds * 1000 + int(properties.timestamp_rest_ms))
    group = properties.group_id
    if group is None:
        named = properties.header(GROUP_HEADER)
        group = named if isinstance(named, str) else properties.app_id
    fields[GROUP_ID] = group
    sequence = properties.group_sequence
    fields[GROUP_SEQUENCE] = None if sequence is None else Uint(sequence)
    fields[REPLY_TO_GROUP_ID] = properties.reply_to_group_id
    return fields


def reply_address(properties: Properties) -> str | None:
    """Return the reply-to address for a topic, a queue's name, or an address, or None if there is none."""
    topic = properties.reply_topic
    if topic is not None:
        return TOPICS + quote(topic.replace("/", "\0").replace(".", "/").replace("\0", "."), SAFE)
    name = properties.reply_to
    if name is None or name.startswith((QUEUES, EXCHANGES)):
        return name
    return QUEUES + quote(name, SAFE)


def encode_headers(
    properties: Properties, annotations: list[tuple[object, object]], named: list[tuple[object, object]]
) -> None:
    """Append headers and annotations to `annotations`, or as application properties to `named`.

    Of several with one name the first counts.
    """
    seen: set[object] = set()
    for key, value in properties.message_annotations or []:
        if key in seen:
            continue
        seen.add(key)
        if key == RECEIVED_ANNOTATION and isinstance(value, int):
            annotations.append((Symbol(RECEIVED_ANNOTATION), Timestamp(value)))
        else:
            annotations.append((Ulong(key) if isinstance(key, int) else Symbol(str(key)), typed_value(value)))
    kind = properties.type
    if kind is not None:
        annotations.append((Symbol(TYPE_ANNOTATION), kind))
    if properties.body_is_text:
        named.append((TEXT_HEADER, Int(1)))
    for name, value in properties.headers:
        target = annotation_name(name)
        place = target or "\0" + name
        if place in seen or name == BCC_HEADER:
            continue
        seen.add(place)
        if target == DEATHS_ANNOTATION:
            encode_death_header(annotations, value)
        elif target == RECEIVED_ANNOTATION:
            if isinstance(value, int) and not isinstance(value, bool):
                annotations.append((Symbol(target), Timestamp(value)))
        elif target:
            annotations.append((Symbol(target), typed_value(value)))
        elif not isinstance(value, (list, dict)):
            named.append((name, typed_value(value)))


def annotation_name(name: str) -> str:
    """Return the message annotation that a header is encoded as, or "" if it is an application property."""
    if name == CC_HEADER:
        return CC_ANNOTATION
    if name == RECEIVED_HEADER:
        return RECEIVED_ANNOTATION
    if name == DEATHS_HEADER:
        return DEATHS_ANNOTATION
    if BROKER_PREFIX + name in MARK_ANNOTATIONS:
        return BROKER_PREFIX + name
    return name if name.startswith("x-") and name.isascii() else ""


def encode_death_header(annotations: list[tuple[object, object]], value: object) -> None:
    """Append the annotation x-opt-deaths for the header x-death. Values other than a list of tables are left out."""
    if not isinstance(value, list):
        return
    items: list[object] = []
    for each in value:
        if isinstance(each, dict):
            items.append(death_map(each))
    annotations.append((Symbol(DEATHS_ANNOTATION), Array(MAP_32, items)))


def death_map(table: dict[object, object]) -> Map:
    """Return a table of x-death as a map of x-opt-deaths."""
    pairs: list[tuple[object, object]] = []
    for name, value in table.items():
        if name == "reason" and isinstance(value, str):
            pairs.append((Symbol("reason"), symbol_of(value) or value))
        elif name == "count" and isinstance(value, int) and 0 <= value <= LONG_MAX:
            pairs.append((Symbol("count"), Ulong(value)))
        elif name == "time" and isinstance(value, int) and abs(value) < LONG_MAX // 1000:
            pairs.append((Symbol("first-time"), Timestamp(value * 1000)))
            pairs.append((Symbol("last-time"), Timestamp(value * 1000)))
        elif name == "routing-keys" and isinstance(value, list):
            keys: list[object] = [str(key) for key in value]
            pairs.append((Symbol("routing-keys"), Array(STRING_32, keys)))
        elif name == "original-expiration" and isinstance(value, str):
            if value.isascii() and value.isdigit() and len(value) <= 10 and int(value) <= TTL_MAX:
                pairs.append((Symbol("ttl"), Uint(int(value))))
        else:
            pairs.append((symbol_of(str(name)) or str(name), typed_value(value)))
    return Map(pairs)


def symbol_of(text: str | None) -> Symbol | None:
    """Return a text as a symbol, or None if it is None or not ASCII."""
    return Symbol(text) if text is not None and text.isascii() else None


def typed_id(text: str | None, kind: i64) -> object:
    """Return an id that is kept as a text as the AMQP 1.0 value of its type `kind`."""
    if text is None:
        return None
    if kind == NUMBER_ID and text.isascii() and text.isdigit() and len(text) <= 20 and int(text) < 1 << 64:
        return Ulong(int(text))
    if kind == OCTETS_ID:
        return bytes.fromhex(text)
    return uuid_of(text) or text


def typed_octets(octets: bytes | None, kind: i64) -> object:
    """Return an id that is kept as octets as the AMQP 1.0 value of its type `kind`: binary if it is not UTF-8."""
    if octets is None or kind == OCTETS_ID:
        return octets
    try:
        text = octets.decode()
    except UnicodeDecodeError:
        return octets
    return typed_id(text, kind)


def uuid_of(text: str) -> Uuid | None:
    """Return the identifier in a text `urn:uuid:…`, or None for any other text."""
    if not text.startswith(UUID_PREFIX) or len(text) != len(UUID_PREFIX) + 36:
        return None
    digits = text[len(UUID_PREFIX) :].replace("-", "")
    try:
        found = Uuid(bytes.fromhex(digits))
    except ValueError:
        return None
    return found if UUID_PREFIX + found.text() == text else None


def typed_value(value: object) -> object:
    """Return a neutral value as an AMQP 1.0 value. An integer beyond 64 bits becomes a text."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        if -INT_MAX - 1 <= value <= INT_MAX:
            return Int(value)
        if -LONG_MAX - 1 <= value <= LONG_MAX:
            return value
        return Ulong(value) if 0 < value < 1 << 64 else str(value)
    if isinstance(value, list):
        return [typed_value(each) for each in value]
    if isinstance(value, dict):
        pairs: list[tuple[object, object]] = []
        for key, each in value.items():
            pairs.append((str(key), typed_value(each)))
        return Map(pairs)
    return value
