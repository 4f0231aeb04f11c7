"""AMQP 1.0: `properties` are the sections before the body, and `body` is the sections of the body and the footer.

Headers are the application properties, and the message annotations with names that begin with `x-`. What the broker
itself adds to a message, it adds to the annotations. Only `edit` may change the application properties.
"""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.core.errors import MALFORMED, PRECONDITION, REFUSED, PeerError, RequestError
from forebay.core.message import AMQP10, AMQP_SECTIONS, EXPIRES, KEYED, PLAIN_BODY, Properties
from forebay.core.units import US_PER_MS
from forebay.message.deaths import DEATH_HEADERS, FIRST_DEATH, LAST_DEATH, MARKS, Death, Deaths, mark_headers
from forebay.message.formats.format import Format
from forebay.message.modified import modified_pairs
from forebay.message.requests import (
    CRON,
    CRON_ZONE,
    DELAY,
    GROUP_HEADER,
    REQUEST_HEADERS,
    REQUESTS,
    RESERVED,
    UNKNOWN,
    PublishRequests,
    check_name,
    delay_id_of,
    delay_ms_of,
    read_recurrence,
    texts_in,
)
from forebay.routing.exchange import text
from forebay.routing.topic_trie import swap_key
from forebay.wire.amqp10.decoder import ValueReader
from forebay.wire.amqp10.neutral import (
    BROKER_PREFIX,
    DEATHS_ANNOTATION,
    QUEUES,
    decode_neutral,
    encode_neutral,
    neutral_value,
    percent_decoded,
    typed_value,
)
from forebay.wire.amqp10.sections import (
    AMQP_VALUE,
    DATA,
    GROUP_ID,
    PRIORITY,
    REPLY_TO,
    TTL,
    USER_ID,
    Items,
    Sections,
    body_payload,
    check_sections,
    has_plain_value,
    list_field,
    map_value,
    number_at,
    octets_at,
    put_data,
    put_section,
    split_sections,
    value_at,
    with_annotations,
    with_named,
    with_ttl,
)
from forebay.wire.amqp10.values import MAP_32, STRING_32, Array, Map, Symbol, Timestamp, Uint, Ulong

CC: Final = b"x-cc"
DELIVERY_TIME: Final = b"x-opt-delivery-time"
DELIVERY_DELAY: Final = b"x-opt-delivery-delay"
SCHEDULED_TIME: Final = b"x-opt-scheduled-enqueue-time"  # Azure's; readers see it, too
REQUEST_NAMES: Final = (*REQUEST_HEADERS, CC, DELIVERY_TIME, DELIVERY_DELAY, SCHEDULED_TIME)
DELAYS: Final = (DELIVERY_TIME.decode(), DELIVERY_DELAY.decode(), SCHEDULED_TIME.decode(), "x-delay")
DEATH_NAMES: Final = [DEATHS_ANNOTATION.encode(), *DEATH_HEADERS]
MARK_NAMES: Final = [BROKER_PREFIX.encode() + each for each in MARKS]
SMALL_X: Final = 120
DIGITS_MAX: Final = 10  # digits of a time to live
DELIVERY_TIME_MS_MAX: Final = 1 << 53


@final
class Amqp10Format(Format):
    """The adapter of AMQP 1.0."""

    def __init__(self) -> None:
        super().__init__(AMQP10, "amqp10", keys_are_topics=False, has_plain_bodies=False, marks_late=False)

    # ---- octet and address

    def may_publish(self, octet: i64) -> bool:
        return False  # rows have payloads, and no sections

    def topic(self, routing_key: bytes) -> bytes:
        return swap_key(routing_key)

    def amqp_address(self, exchange: bytes, routing_key: bytes) -> tuple[bytes, bytes]:
        return exchange, routing_key

    # ---- single fields

    def priority(self, properties: bytes) -> i64:
        found = split_sections(properties, 0, len(properties))
        return number_at(properties, list_field(properties, found.header, found.end, PRIORITY))

    def expiration_us(self, properties: bytes) -> i64:
        found = split_sections(properties, 0, len(properties))
        ttl_ms = number_at(properties, list_field(properties, found.header, found.end, TTL))
        return -1 if ttl_ms < 0 else ttl_ms * US_PER_MS

    def header(self, properties: bytes, name: bytes) -> bytes | None:
        found = split_sections(properties, 0, len(properties))
        return header_octets(properties, found, name)

    def headers(self, properties: bytes) -> dict[str, object]:
        made: dict[str, object] = {}
        neutral = decode_neutral(properties)
        for name, value in neutral.headers:
            made[name] = value
        for key, value in neutral.message_annotations or []:
            if isinstance(key, str) and key.startswith("x-"):
                made[key] = value
        return made

    def reply_to(self, properties: bytes) -> bytes:
        found = split_sections(properties, 0, len(properties))
        address = octets_at(properties, list_field(properties, found.properties, found.end, REPLY_TO), found.end)
        prefix = QUEUES.encode()
        if not address.startswith(prefix):
            return b""
        return percent_decoded(address[len(prefix) :].decode("utf-8", "replace")).encode()

    def group_key(self, properties: bytes) -> bytes:
        found = split_sections(properties, 0, len(properties))
        return group_of(properties, found)

    # ---- requests

    def check(self, properties: bytes, user: bytes, depth_max: i64) -> i64:
        found = check_sections(properties, 0, len(properties), depth_max)
        if found.body_at != found.end:
            raise PeerError(MALFORMED, "a body among the sections before the body")
        named = octets_at(properties, list_field(properties, found.properties, found.end, USER_ID), found.end)
        if named and named != user:
            raise RequestError(REFUSED, f"user-id is '{text(named)}', but the authenticated user is '{text(user)}'")
        requests = requests_of(properties, found)
        if requests & UNKNOWN:
            for name in self.headers(properties):
                check_name(name, "application property or annotation")
        return requests

    def requests(self, properties: bytes) -> i64:
        return requests_of(properties, split_sections(properties, 0, len(properties)))

    def read_requests(self, properties: bytes) -> PublishRequests:
        made = PublishRequests(properties)
        values = self.headers(properties)
        if "x-cc" in values:
            if not isinstance(values["x-cc"], list):
                raise RequestError(PRECONDITION, f"x-cc: {values['x-cc']!r:.100} is no list of strings")
            made.keys += texts_in(values["x-cc"])
        for name in DELAYS:
            if name in values:
                self.read_delay(made, values)
                break
        if "x-cron" in values or "x-cron-time-zone" in values:
            read_recurrence(made, values)
            made.delayed = self.edit(made.properties, [CRON, CRON_ZONE], [])
        made.producer = values.get("x-producer-id")
        made.sequence = values.get("x-sequence")
        made.deduplication_key = values.get("x-deduplication-key")
        return made

    def read_delay(self, made: PublishRequests, values: dict[str, object]) -> None:
        """Read the delivery time or the delay of a message. A time takes precedence over a delay."""
        due_ms = delivery_time(made.properties)
        if due_ms >= 0:
            made.due_us = due_ms * US_PER_MS
        elif "x-opt-delivery-delay" in values or "x-delay" in values:
            delay = values["x-opt-delivery-delay"] if "x-opt-delivery-delay" in values else values.get("x-delay")
            made.delay_us = delay_ms_of(delay) * US_PER_MS
        if made.due_us > 0 or made.delay_us > 0:
            made.delay_id = delay_id_of(values.get("x-delay-id", ""))
            # As with AMQP 0.9.1: consumers see the delay negated, which requests none.
            added: list[tuple[str, object]] = []
            if "x-delay" in values and due_ms < 0:
                added.append(("x-delay", -int(made.delay_us // US_PER_MS)))
            made.delayed = self.edit(made.properties, [DELAY, DELIVERY_TIME, DELIVERY_DELAY], added)

    def further_keys(self, properties: bytes) -> list[bytes]:
        found = split_sections(properties, 0, len(properties))
        at = map_value(properties, found.message_annotations, found.end, CC)
        return texts_in(neutral_value(value_at(properties, at, found.end)))

    # ---- edits

    def edit(self, properties: bytes, dropped: list[bytes], added: list[tuple[str, object]]) -> bytes:
        names: list[bytes] = []
        for each in dropped:
            names.append(BROKER_PREFIX.encode() + each if each in MARKS else each)
        annotations: list[tuple[object, object]] = []
        named: list[tuple[object, object]] = []
        for name, value in added:
            if name.encode() in MARKS:
                annotations.append((Symbol(BROKER_PREFIX + name), typed_value(value)))
            elif name.startswith("x-") and name.isascii():
                annotations.append((Symbol(name), typed_value(value)))
            else:
                named.append((name, typed_value(value)))
        made = with_annotations(properties, names, annotations)
        return with_named(made, dropped, named)

    def without_further_keys(self, properties: bytes) -> bytes:
        return with_annotations(properties, [CC], [])

    def without_expiration(self, properties: bytes) -> bytes:
        return with_ttl(properties, -1)

    def expiration_digits(self, properties: bytes) -> bytes:
        expiration_us = self.expiration_us(properties)
        return b"" if expiration_us < 0 else b"%d" % int(expiration_us // US_PER_MS)

    def aged(self, properties: bytes, waited_us: i64) -> bytes:
        expiration_us = self.expiration_us(properties)
        if expiration_us < 0:
            return properties
        # Rounded up: a message must not expire before its publisher said.
        return with_ttl(properties, max(0, (expiration_us - waited_us + US_PER_MS - 1) // US_PER_MS))

    def with_deaths(self, properties: bytes, deaths: Deaths) -> bytes:
        dropped: list[bytes] = []
        added: list[tuple[object, object]] = []
        first, last = deaths.first, deaths.last
        if first is not None and last is not None:
            dropped += DEATH_NAMES
            items: list[object] = []
            for each in deaths.deaths:
                last_ms = each.time_s * 1000
                if each is last and deaths.marks is not None:
                    last_ms = max(last_ms, deaths.marks.time_ms)
                items.append(death_map(each, last_ms))
            added.append((Symbol(DEATHS_ANNOTATION), Array(MAP_32, items)))
            add_texts(added, FIRST_DEATH, [first.exchange, first.queue, first.reason])
            add_texts(added, LAST_DEATH, [deaths.last_exchange, last.queue, last.reason])
        if deaths.marks is not None:
            dropped += MARK_NAMES
            for name, value in mark_headers(deaths.marks):
                added.append((Symbol(BROKER_PREFIX + name), value))
        return with_annotations(properties, dropped, added)

    def with_modified(self, properties: bytes, modified: bytes) -> bytes:
        added = modified_pairs(modified)
        return with_annotations(properties, [key.text.encode() for key, _ in added if isinstance(key, Symbol)], added)

    # ---- conversion

    def decode(self, properties: bytes) -> Properties:
        return decode_neutral(properties)

    def encode(self, properties: Properties) -> bytes:
        return encode_neutral(properties)

    def body_kind(self, properties: bytes, body: bytes) -> i64:
        found = body_sections(body)
        if found is None or found.body_kind == DATA or (found.body_kind == AMQP_VALUE and has_plain_value(body, found)):
            return PLAIN_BODY
        return AMQP_SECTIONS

    def payload(self, body: bytes) -> bytes:
        found = body_sections(body)
        return body if found is None else body_payload(body, found)

    def body_of(self, payload: bytes, kind: i64) -> bytes:
        if kind == AMQP_SECTIONS and are_body_sections(payload):
            return payload
        out = BytesWriter()
        put_data(out, payload)
        return out.getvalue()

    def body_of_text(self, payload: bytes) -> bytes:
        out = BytesWriter()
        put_section(out, AMQP_VALUE, payload.decode())
        return out.getvalue()


def are_body_sections(payload: bytes) -> bool:
    """Return whether the bytes are encoded body sections without other sections before them."""
    found = body_sections(payload)
    return found is not None and found.body_kind != 0 and found.body_at == 0


def body_sections(body: bytes) -> Sections | None:
    """Return where the sections are in a body, or None if the body was never checked and has none."""
    try:
        return split_sections(body, 0, len(body))
    except PeerError:
        return None


def group_of(properties: bytes, found: Sections) -> bytes:
    """Return the message group: the header if there is one, else the property group-id."""
    named = header_octets(properties, found, GROUP_HEADER)
    if named is not None:
        return named
    return octets_at(properties, list_field(properties, found.properties, found.end, GROUP_ID), found.end)


def header_octets(properties: bytes, found: Sections, name: bytes) -> bytes | None:
    """Return the value of a header, a text, bytes or the digits of an integer, or None for any other."""
    at: i64 = -1
    if name.startswith(b"x-"):
        at = map_value(properties, found.message_annotations, found.end, name)
    elif name.startswith(b"dlq-"):
        at = map_value(properties, found.message_annotations, found.end, BROKER_PREFIX.encode() + name)
    if at < 0:
        at = map_value(properties, found.application_properties, found.end, name)
    if at < 0:
        return None
    value = neutral_value(ValueReader(properties, at, found.end).value())
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace")
    return b"%d" % value if isinstance(value, int) and not isinstance(value, bool) else None


def requests_of(properties: bytes, found: Sections) -> i64:
    """Return what `Format.requests` does, for properties that are split into sections already."""
    made = requests_in(properties, found.message_annotations, found.end)
    made |= requests_in(properties, found.application_properties, found.end)
    if list_field(properties, found.header, found.end, TTL) >= 0:
        made |= EXPIRES
    if group_of(properties, found):
        made |= KEYED
    return made


def requests_in(properties: bytes, at: i64, end: i64) -> i64:
    """Return REQUESTS and UNKNOWN for the keys of the map at `at`, or 0 if `at` is -1."""
    if at < 0:
        return 0
    made: i64 = 0
    items = Items(properties, at, end)
    for _ in range(items.count // 2):
        start = items.skip(properties)
        # Names that matter begin with x, behind the constructor and a size of one octet, or of four.
        if properties[start] & 16 or (items.at - start > 2 and properties[start + 2] == SMALL_X):
            name = octets_at(properties, start, end)
            if name in REQUEST_NAMES:
                made |= REQUESTS
            elif name.startswith(RESERVED):
                made |= UNKNOWN
        items.skip(properties)
    return made


def delivery_time(properties: bytes) -> i64:
    """Return the requested time of delivery in milliseconds since 1970, or -1 if there is none. RequestError."""
    found = split_sections(properties, 0, len(properties))
    at = map_value(properties, found.message_annotations, found.end, DELIVERY_TIME)
    if at < 0:
        at = map_value(properties, found.application_properties, found.end, DELIVERY_TIME)
    if at < 0:
        at = map_value(properties, found.message_annotations, found.end, SCHEDULED_TIME)
    if at < 0:
        return -1
    value = value_at(properties, at, found.end)
    number = value.value if isinstance(value, (Timestamp, Ulong, Uint)) else value
    if isinstance(number, bool) or not isinstance(number, int) or number > DELIVERY_TIME_MS_MAX:
        raise RequestError(PRECONDITION, f"x-opt-delivery-time: {value!r:.100} is no time in milliseconds since 1970")
    return max(0, number)


def add_texts(added: list[tuple[object, object]], names: tuple[bytes, bytes, bytes], values: list[bytes]) -> None:
    """Append annotations that are texts to `added`."""
    for index, name in enumerate(names):
        added.append((Symbol(name.decode()), text(values[index])))


def death_map(death: Death, last_ms: i64) -> Map:
    """Return the map of x-opt-deaths for the deaths in one queue for one reason."""
    keys: list[object] = []
    for key in death.keys:
        keys.append(text(key))
    pairs: list[tuple[object, object]] = [
        (Symbol("queue"), text(death.queue)),
        (Symbol("reason"), Symbol(text(death.reason))),
        (Symbol("count"), Ulong(int(death.count))),
        (Symbol("first-time"), Timestamp(int(death.time_s * 1000))),
        (Symbol("last-time"), Timestamp(int(last_ms))),
        (Symbol("exchange"), text(death.exchange)),
        (Symbol("routing-keys"), Array(STRING_32, keys)),
    ]
    if death.expiration and len(death.expiration) <= DIGITS_MAX and int(death.expiration) < 1 << 32:
        pairs.append((Symbol("ttl"), Uint(int(death.expiration))))
    return Map(pairs)
