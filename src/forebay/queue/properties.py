"""The message properties that queues depend on. Only a protocol's codec can parse them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

from mypy_extensions import i64, mypyc_attr

from forebay.filter.subject import STEPS_A_LOOK, Subject
from forebay.log.block import Block
from forebay.queue.pace import Pace

TURN_OCTETS: Final = 4 << 20
LOOKS_A_TURN: Final = 1 << 16  # default budget of filters in one turn
STEPS_SHIFT: Final = 3  # 2 ** STEPS_SHIFT steps of a filter cost 1, and a look at a record costs 4


@final
class Looks:
    """The cost of filters, shared by all queues, so that no turn takes long however many queues there are.

    now_us   the time, for callees that run between two readings of the clock
    octets   bytes that one group may deliver in a turn: fewer while much waits for clients already
    most     budget of a turn
    left     what is left of the budget in this turn
    cut      evaluations in which a filter asked for more than it may
    put_off  turns in which filters used up the budget
    pace     what publishers may send meanwhile
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
        """Begin a turn with a full budget."""
        if self.left <= 0:
            self.put_off += 1
        self.left = self.most

    def charge(self, cost: i64, subject: Subject) -> i64:
        """Charge the evaluation of a filter.

        Return its whole cost: the known `cost`, and the steps used on the subject.
        """
        cost += (STEPS_A_LOOK - subject.steps) >> STEPS_SHIFT
        self.left -= cost
        if subject.is_cut:
            self.cut += 1
        return cost


@mypyc_attr(allow_interpreted_subclasses=True)
class PropertyReader(ABC):
    """A reader of the record properties that queues depend on. The layer above implements it."""

    def __init__(self, looks: Looks | None = None) -> None:
        self.looks = Looks() if looks is None else looks

    @abstractmethod
    def priority(self, block: Block, index: i64) -> i64:
        """Return the message's priority, or -1 if it has none."""

    @abstractmethod
    def expiration_us(self, block: Block, index: i64) -> i64:
        """Return the time to live from the publish, in µs; -1 for none. Call for records marked EXPIRES only."""

    @abstractmethod
    def key(self, block: Block, index: i64) -> bytes:
        """Return the message group. Call for records marked KEYED only."""

    @abstractmethod
    def filter_value(self, block: Block, index: i64) -> bytes | None:
        """Return the value by which readers of a stream may filter, or None if the message has none."""

    @abstractmethod
    def has_topic(self, block: Block, index: i64) -> bool:
        """Return whether the routing key is a topic with levels between slashes, rather than an AMQP routing key."""

    @abstractmethod
    def subject(self, queue: bytes, block: Block, index: i64, deliveries: i64, failures: i64) -> Subject:
        """Return a record as a consumer's filter sees it, after so many earlier deliveries and failures."""

    def with_redelivery(self, annotations: bytes, ms: i64) -> bytes:
        """Return a record's annotations (`work/modified.py`) with one that marks it as delivered once more.

        ms  time of the request, in milliseconds since 1970
        """
        return annotations


@final
class NoSubject(Subject):
    """The subject of a record without any properties."""

    def property(self, name: str) -> object:
        return None

    def header(self, name: str) -> object:
        return None

    def parse_body(self) -> object:
        return None


@final
class NoProperties(PropertyReader):
    """A reader for records without properties."""

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
