"""What a queue has to know of a message's properties, whose octets only a codec can read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import final

from mypy_extensions import i64, mypyc_attr

from forebay.filter.subject import Subject
from forebay.log.block import Block


@mypyc_attr(allow_interpreted_subclasses=True)
class Facts(ABC):
    """The properties of records, as far as queues go by them; the layer above fills it in."""

    @abstractmethod
    def priority(self, block: Block, index: i64) -> i64:
        """The message's priority; -1 where it has none."""

    @abstractmethod
    def expiration_us(self, block: Block, index: i64) -> i64:
        """How long after its publish the message expires; -1 for never. To be asked of records marked EXPIRES."""

    @abstractmethod
    def key(self, block: Block, index: i64) -> bytes:
        """The message group. To be asked of records marked KEYED."""

    @abstractmethod
    def filter_value(self, block: Block, index: i64) -> bytes | None:
        """What readers of a stream may filter by; None where the message has no such value."""

    @abstractmethod
    def subject(self, queue: bytes, block: Block, index: i64, deliveries: i64, failures: i64) -> Subject:
        """The record as a consumer's filter sees it; it was handed out, and failed, so often before."""


@final
class NoSubject(Subject):
    """Of a record that says nothing."""

    def fact(self, name: str) -> object:
        return None

    def header(self, name: str) -> object:
        return None

    def parse_body(self) -> object:
        return None


@final
class NoFacts(Facts):
    """Of records that say nothing to a queue."""

    def priority(self, block: Block, index: i64) -> i64:
        return -1

    def expiration_us(self, block: Block, index: i64) -> i64:
        return -1

    def key(self, block: Block, index: i64) -> bytes:
        return b""

    def filter_value(self, block: Block, index: i64) -> bytes | None:
        return None

    def subject(self, queue: bytes, block: Block, index: i64, deliveries: i64, failures: i64) -> Subject:
        return NoSubject()
