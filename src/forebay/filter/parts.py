"""The part of a filter that a message does not meet: people ask for it when a consumer is not given the message."""

from __future__ import annotations

from typing import final

from forebay.filter.nodes import And, Call, FilterNode, MessageProperty, Path
from forebay.filter.parser import Filter
from forebay.filter.subject import Subject


@final
class Miss:
    """The first part of a filter that does not hold.

    text    the part, as the language writes it
    value   False, or None where nobody knows
    values  what the message says at each place that the part asks for, by how it is written
    """

    def __init__(self, text: str, value: object, values: dict[str, object]) -> None:
        self.text = text
        self.value = value
        self.values = values


def first_miss(filter: Filter, subject: Subject) -> Miss | None:
    """Return the first part of a filter that a message fails, or None if the filter matches."""
    if filter.matches(subject):
        return None
    part = failing(filter.root, subject)
    values: dict[str, object] = {}
    gather_values(part, subject, values)
    return Miss(part.written(), part.evaluate(subject), values)


def failing(node: FilterNode, subject: Subject) -> FilterNode:
    """Return the part of a conjunction that does not hold, or the node itself if it is no conjunction."""
    if isinstance(node, And):
        for part in node.parts:
            if part.evaluate(subject) is not True:
                return failing(part, subject)
    return node


def gather_values(node: FilterNode, subject: Subject, values: dict[str, object]) -> None:
    """Gather a message's values at each place that a part asks for."""
    if isinstance(node, MessageProperty | Path | Call):
        values[node.written()] = node.evaluate(subject)
    if not isinstance(node, Call):
        for part in node.parts:
            gather_values(part, subject, values)
