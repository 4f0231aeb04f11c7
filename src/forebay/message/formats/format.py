"""The interface of a format: all operations on the bytes of a stored message.

A record keeps the bytes of its publisher's protocol. Only the format's adapter reads, edits or converts them. All other
code finds the adapter by the record's format octet (`table.format_of`). Conversions between two formats go by way of
`Properties`, so that a format needs one converter, whatever the number of formats.

`properties` and `body` are those columns of a record, as core/message.py describes them for each format. Unless a
method says otherwise they must have been checked (`Format.check`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import i64, mypyc_attr

from forebay.core.message import EXPIRES, KEYED, PLAIN_BODY, Properties
from forebay.message.deaths import Deaths
from forebay.message.modified import modified_headers
from forebay.message.requests import FILTER_HEADER, GROUP_HEADER, PublishRequests


@mypyc_attr(allow_interpreted_subclasses=True)
class Format(ABC):
    """A format of records: the adapter of one protocol's messages. It has no state.

    number            of the format: the lowest bits of its octets
    name              of the protocol, as filters, tables and people have it
    keys_are_topics   routing keys are topics, with levels between slashes, and all come by the exchange `amq.topic`;
                      False: routing keys are AMQP's, with words between dots
    has_plain_bodies  the body column is the payload itself, so that any format delivers it as it is
    marks_late        the octet has the publish's QoS and RETAIN flag instead of the marks EXPIRES and KEYED, which
                      `Publishing` finds once a queue takes the message
    """

    def __init__(
        self, number: int, name: str, *, keys_are_topics: bool, has_plain_bodies: bool, marks_late: bool
    ) -> None:
        self.number: i64 = number
        self.name = name
        self.keys_are_topics = keys_are_topics
        self.has_plain_bodies = has_plain_bodies
        self.marks_late = marks_late

    # ---- octet and address

    def qos(self, octet: i64) -> i64:
        """Return the QoS at which a record with this format octet was published; 1 if the protocol has none."""
        return 1

    @abstractmethod
    def may_publish(self, octet: i64) -> bool:
        """Return whether a client that stages rows may give one this format octet."""

    @abstractmethod
    def topic(self, routing_key: bytes) -> bytes:
        """Return a routing key as a topic, with levels between slashes."""

    @abstractmethod
    def amqp_address(self, exchange: bytes, routing_key: bytes) -> tuple[bytes, bytes]:
        """Return the exchange and routing key by which AMQP clients know the address."""

    # ---- single fields, read without decoding the others

    @abstractmethod
    def priority(self, properties: bytes) -> i64:
        """Return the priority; -1 if there is none."""

    @abstractmethod
    def expiration_us(self, properties: bytes) -> i64:
        """Return the microseconds from its publish after which the message expires; -1 for never."""

    @abstractmethod
    def header(self, properties: bytes, name: bytes) -> bytes | None:
        """Return the value of the last header of this name: a text, octets, or the digits of an integer.

        returns  None if there is no such header, or its value is of another kind
        """

    @abstractmethod
    def headers(self, properties: bytes) -> dict[str, object]:
        """Return all headers, decoded; of several with one name the last."""

    @abstractmethod
    def reply_to(self, properties: bytes) -> bytes:
        """Return the address of a queue for replies; empty if there is none, or replies go to a topic."""

    def group_key(self, properties: bytes) -> bytes:
        """Return the message group; empty if there is none."""
        return self.header(properties, GROUP_HEADER) or b""

    def filter_value(self, properties: bytes) -> bytes | None:
        """Return the value by which readers of a stream may filter; None if there is none."""
        return self.header(properties, FILTER_HEADER)

    def marks(self, properties: bytes) -> i64:
        """Return the marks EXPIRES and KEYED that a message with these properties has."""
        marks: i64 = 0
        if self.expiration_us(properties) >= 0:
            marks = EXPIRES
        if self.group_key(properties):
            marks |= KEYED
        return marks

    # ---- requests of the publisher

    @abstractmethod
    def check(self, properties: bytes, user: bytes, depth_max: i64) -> i64:
        """Check properties that a client sent, and return `requests` of them.

        user       the publisher: a message may not claim another user
        depth_max  how deep tables may be nested
        raises     PeerError(MALFORMED) if another client could not read them; RequestError(PRECONDITION) if they
                   request what the broker cannot do
        """

    @abstractmethod
    def requests(self, properties: bytes) -> i64:
        """Return REQUESTS, UNKNOWN and marks (message/requests.py); 0 if the protocol's session reads them itself."""

    @abstractmethod
    def read_requests(self, properties: bytes) -> PublishRequests:
        """Return the publisher's requests. Raises RequestError(PRECONDITION) if a value is invalid."""

    @abstractmethod
    def further_keys(self, properties: bytes) -> list[bytes]:
        """Return the routing keys beside that of the address that consumers may see (CC)."""

    # ---- edits: everything else stays as its publisher wrote it

    @abstractmethod
    def edit(self, properties: bytes, dropped: list[bytes], added: list[tuple[str, object]]) -> bytes:
        """Return the properties without the headers named in `dropped`, and with `added` headers at the end."""

    @abstractmethod
    def without_further_keys(self, properties: bytes) -> bytes:
        """Return the properties without `further_keys`."""

    @abstractmethod
    def without_expiration(self, properties: bytes) -> bytes:
        """Return the properties without their expiration, as for dead letters."""

    @abstractmethod
    def expiration_digits(self, properties: bytes) -> bytes:
        """Return the expiration as its decimal digits in milliseconds; empty if there is none."""

    @abstractmethod
    def aged(self, properties: bytes, waited_us: i64) -> bytes:
        """Return the properties of a record that moves to another log and gets a new timestamp there.

        waited_us  how long the record was in the first log. An expiration that counts from the timestamp is reduced by
                   it.
        """

    @abstractmethod
    def with_deaths(self, properties: bytes, deaths: Deaths) -> bytes:
        """Return the properties with the headers for `deaths`, in place of headers by the same names."""

    def with_modified(self, properties: bytes, modified: bytes) -> bytes:
        """Return the properties with the headers for annotations that consumers set (message/modified.py)."""
        added = modified_headers(modified)
        return self.edit(properties, [name.encode() for name, _ in added], added)

    # ---- conversion

    @abstractmethod
    def decode(self, properties: bytes) -> Properties:
        """Return the properties in their neutral form, as a new object. Raises PeerError if they cannot be read."""

    @abstractmethod
    def encode(self, properties: Properties) -> bytes:
        """Return the properties column for the neutral form, as far as the format can express it."""

    def body_kind(self, properties: bytes, body: bytes) -> i64:
        """Return PLAIN_BODY, or AMQP_SECTIONS if the payload is encoded sections of AMQP 1.0."""
        return PLAIN_BODY

    def payload(self, body: bytes) -> bytes:
        """Return the payload that readers of other formats get for a body column."""
        return body

    def body_of(self, payload: bytes, kind: i64) -> bytes:
        """Return the body column for another format's payload of this `body_kind`."""
        return payload

    def body_of_text(self, payload: bytes) -> bytes:
        """Return the body column for a text, as UTF-8."""
        return payload
