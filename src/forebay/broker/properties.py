"""The properties by which queues go: priority, expiration and message group, and what streams are filtered by.

Consecutive records mostly say the same of themselves: each answer is remembered until the properties differ.
"""

from __future__ import annotations

from typing import final

from mypy_extensions import i64

from forebay.filter.subject import Subject
from forebay.log.block import Block
from forebay.message.formats.table import format_of
from forebay.message.modified import with_redelivery
from forebay.message.subject import RecordSubject
from forebay.queue.properties import Looks, PropertyReader


@final
class AnswerMemo:
    """The properties for which an answer was given last."""

    def __init__(self) -> None:
        self.format: i64 = 0
        self.properties = b""

    def knows(self, format: i64, properties: bytes) -> bool:
        """True if these are the same again; they are the last from now on."""
        if format == self.format and properties == self.properties:
            return True
        self.format = format
        self.properties = properties
        return False


@final
class MessageProperties(PropertyReader):
    """Reads records of every format."""

    def __init__(self, looks: Looks | None = None) -> None:
        super().__init__(looks)
        self.for_priority = AnswerMemo()
        self.last_priority: i64 = -1
        self.for_expiration = AnswerMemo()
        self.last_expiration_us: i64 = -1
        self.for_key = AnswerMemo()
        self.last_key = b""
        self.for_value = AnswerMemo()
        self.last_value: bytes | None = None

    def priority(self, block: Block, index: i64) -> i64:
        format = block.format(index)
        properties = block.properties(index)
        if not self.for_priority.knows(format, properties):
            self.last_priority = format_of(format).priority(properties)
        return self.last_priority

    def expiration_us(self, block: Block, index: i64) -> i64:
        format = block.format(index)
        properties = block.properties(index)
        if not self.for_expiration.knows(format, properties):
            self.last_expiration_us = format_of(format).expiration_us(properties)
        return self.last_expiration_us

    def key(self, block: Block, index: i64) -> bytes:
        format = block.format(index)
        properties = block.properties(index)
        if not self.for_key.knows(format, properties):
            self.last_key = format_of(format).group_key(properties)
        return self.last_key

    def filter_value(self, block: Block, index: i64) -> bytes | None:
        format = block.format(index)
        properties = block.properties(index)
        if not self.for_value.knows(format, properties):
            self.last_value = format_of(format).filter_value(properties)
        return self.last_value

    def has_topic(self, block: Block, index: i64) -> bool:
        return format_of(block.format(index)).keys_are_topics

    def subject(self, queue: bytes, block: Block, index: i64, deliveries: i64, failures: i64) -> Subject:
        # A consumer's filter cannot ask for what depends on the time of day: see `ConsumerArguments`.
        return RecordSubject(queue, block, index, 0, deliveries, failures)

    def with_redelivery(self, annotations: bytes, ms: i64) -> bytes:
        return with_redelivery(annotations, int(ms))
