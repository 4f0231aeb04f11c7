"""The values that a filter asks of a message: properties by name, headers, and values out of a JSON body.

Whoever holds messages makes a subclass. A value is None where there is none, or str, bytes, int, float, bool, a list or
a dict; the filter takes it from there (`values.normal`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final

from mypy_extensions import i64, mypyc_attr

# Bare words of the language: what the broker knows of a message itself, and what each says.
PROPERTIES: Final = {
    "queue": "name of the queue that holds it",
    "offset": "its offset in the log of that queue",
    "exchange": "where it was published",
    "routing_key": "its routing key; of a message that came by MQTT, its topic",
    "topic": "its routing key as an MQTT topic: levels between slashes",
    "protocol": "'mqtt' or 'amqp091': how it was published",
    "qos": "its QoS in MQTT; 1 for messages from AMQP",
    "stored_ms": "when the broker took it, in milliseconds since 1970",
    "age_ms": "milliseconds since the broker took it",
    "octets": "length of its body",
    "deliveries": "how often it was delivered before",
    "failures": "how often it was returned as failed",
    "priority": "the property",
    "timestamp": "the property: seconds since 1970, as its publisher says",
    "expiration": "the property: milliseconds, as its publisher says",
    "message_id": "the property",
    "correlation_id": "the property; in MQTT correlation data",
    "content_type": "the property",
    "content_encoding": "the property",
    "reply_to": "the property; in MQTT the response topic",
    "type": "the property",
    "user_id": "the property",
    "app_id": "the property",
    "death_reason": "of a dead letter: why it died last (rejected, expired, maxlen, delivery_limit)",
    "death_queue": "of a dead letter: the queue in which it died last",
    "death_exchange": "of a dead letter: where it was published before it died last",
    "death_routing_key": "of a dead letter: its routing key before it died last",
    "death_count": "of a dead letter: how often it died of that reason in that queue",
    "death_ms": "of a dead letter: when it died last, in milliseconds since 1970",
    "first_death_reason": "of a dead letter: why it died the first time",
    "first_death_queue": "of a dead letter: the queue in which it died the first time",
}


# Bounds of one filter's cost at one message: characters that its patterns look at and that CRC64 reads, and as much
# again for every so many characters that its other functions take. Beyond them the result is unknown.
STEPS_A_LOOK: Final = 1 << 19
FUNCTION_SHIFT: Final = 4
BODY_OCTETS_MAX: Final = 1 << 20  # of a body that is read as JSON


@mypyc_attr(allow_interpreted_subclasses=True)
class Subject(ABC):
    """One message that filters are held against; its body is parsed at most once, and only if a filter asks for it.

    steps   that are left to the filter that looks now
    is_cut  a filter has asked for more than there are steps, or for a body that is too long to be read
    """

    def __init__(self) -> None:
        self.steps: i64 = STEPS_A_LOOK
        self.is_cut = False
        self.is_parsed = False
        self.parsed: object = None

    @abstractmethod
    def property(self, name: str) -> object:
        """One of PROPERTIES."""

    @abstractmethod
    def header(self, name: str) -> object:
        """Return the value of a header, or of an MQTT user property."""

    @abstractmethod
    def parse_body(self) -> object:
        """Parse the body as JSON. Returns None if it is not JSON."""

    def may_go_on(self) -> bool:
        """Return whether the filter has steps left, and note that it is cut if it has none."""
        if self.steps > 0:
            return True
        self.is_cut = True
        return False

    def body(self) -> object:
        """Return the body as JSON, parsed at the first call."""
        if not self.is_parsed:
            self.is_parsed = True
            self.parsed = self.parse_body()
        return self.parsed
