"""The properties of a message by which queues go; only a codec can read their octets."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from forebay.filter.subject import STEPS_A_LOOK, Subject
from forebay.log.block import Block
from forebay.queue.pace import Pace

TURN_OCTETS: Final = 4 << 20
LOOKS_A_TURN: Final = 1 << 16  # what filters may cost in one turn, where nobody says something else
STEPS_SHIFT: Final = 3  # so many steps of a filter cost 1, and a look at a record 4


@final
class Looks:
    """The cost of filters: of all queues together, so that no turn takes long however many there are.

    now_us   what time it is, for who is called between two looks of its own at the clock
    octets   that one group may deliver in a turn: fewer where much waits for clients already
    most     in one turn
    left     in this one
    cut      looks at messages in which a filter asked for more than it may
    put_off  turns in which they had to stop
    pace     what publishers may bring in meanwhile
    """

    def __init__(self, most: i64 = LOOKS_A_TURN) -> None:
        self.octets: i64 = TURN_OCTETS
        self.most: i64 = most
        self.left: i64 = most
        self.cut: i64 = 0
        self.put_off: i64 = 0
        self.pace = Pace()
        self.now_us: i64 = 0

    def begin(self) -> None:
        """A turn has ended: the next has as much again."""
        if self.left <= 0:
            self.put_off += 1
        self.left = self.most

    def charge(self, cost: i64, subject: Subject) -> i64:
        """A filter has looked at a record; what that has cost, beside the cost that was known before."""
        cost += (STEPS_A_LOOK - subject.steps) >> STEPS_SHIFT
        self.left -= cost
        if subject.is_cut:
            self.cut += 1
        return cost


@mypyc_attr(allow_interpreted_subclasses=True)
class PropertyReader(ABC):
    """The properties of records, as far as queues go by them; the layer above fills it in."""

    def __init__(self, looks: Looks | None = None) -> None:
        self.looks = Looks() if looks is None else looks

    @abstractmethod
    def priority(self, block: Block, index: i64) -> i64:
        """The message's priority; -1 where it has none."""

    @abstractmethod
    def expiration_us(self, block: Block, index: i64) -> i64:
        """Microseconds after its publish at which it expires; -1 for never. To be asked of records marked EXPIRES."""

    @abstractmethod
    def key(self, block: Block, index: i64) -> bytes:
        """The message group. To be asked of records marked KEYED."""

    @abstractmethod
    def filter_value(self, block: Block, index: i64) -> bytes | None:
        """The value that readers of a stream may filter by; None where the message has none."""

    @abstractmethod
    def has_topic(self, block: Block, index: i64) -> bool:
        """Return whether the routing key is a topic, with levels between slashes, and not AMQP's."""

    @abstractmethod
    def subject(self, queue: bytes, block: Block, index: i64, deliveries: i64, failures: i64) -> Subject:
        """The record as a consumer's filter sees it; it was delivered, and failed, so often before."""

    def with_redelivery(self, annotations: bytes, ms: i64) -> bytes:
        """Return a record's annotations (`work/modified.py`) with the one that says that it is delivered once more.

        ms  when that was asked for, in milliseconds since 1970
        """
        return annotations


@final
class NoSubject(Subject):
    """The subject of a record that says nothing."""

    def property(self, name: str) -> object:
        return None

    def header(self, name: str) -> object:
        return None

    def parse_body(self) -> object:
        return None


@final
class NoProperties(PropertyReader):
    """The reader of records that say nothing to a queue."""

    def priority(self, block: Block, index: i64) -> i64:
        return -1

    def expiration_us(self, block: Block, index: i64) -> i64:
        return -1

    def key(self, block: Block, index: i64) -> bytes:
        return b""

    def filter_value(self, block: Block, index: i64) -> bytes | None:
        return None

    def has_topic(self, block: Block, index: i64) -> bool:
        return False

    def subject(self, queue: bytes, block: Block, index: i64, deliveries: i64, failures: i64) -> Subject:
        return NoSubject()
