"""One entry of a definitions file, whose fields are of the right type or said to be wrong.

`core/reading/json_text.py`, which reads the files, has refused values that cannot be kept. A field that is null says
as little as one that is absent.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from forebay.core.errors import INVALID, RequestError
from forebay.core.reading.nearest import slip_among
from forebay.management.definitions.left_out import LeftOut, is_about_loss

SHOWN_MAX: Final = 80
MAY_LOSE_WITHOUT: Final = ("vhosts", "exchanges", "queues", "bindings")


class EntryFault(RequestError):
    """An entry that is none of a definitions file, RabbitMQ's or ours: the file is refused as a whole."""


class GivenEntry:
    """An entry of a definitions file, with what of it cannot be in force.

    where     how errors name it: "queues[3] 'orders'"
    left_out  parts of the entry that cannot be in force
    may_lose  messages may be lost where all of it is left out
    """

    def __init__(self, section: str, index: int, value: object) -> None:
        self.where = f"{section}[{index}]"
        self.left_out: list[LeftOut] = []
        self.may_lose = section in MAY_LOSE_WITHOUT
        if not isinstance(value, dict):
            raise self.fault("", value, "is no object")
        self.fields: dict[str, object] = value
        name = value.get("name") or value.get("user") or value.get("source")
        if isinstance(name, str) or "name" in value:
            self.where += f" '{str(name or '')[:SHOWN_MAX]}'"

    def part(self, fields: dict[str, object]) -> GivenEntry:
        """Return an entry whose fields stand within this one; errors and what it leaves out are this one's."""
        part = GivenEntry("", 0, fields)
        part.where, part.left_out = self.where, self.left_out
        return part

    def note_slips(self, known: Sequence[str]) -> None:
        """Leave out a field that is most likely misspelt; those of other names mean nothing here."""
        field, meant = slip_among(self.fields, known)
        if meant:
            self.leave_out(field[:SHOWN_MAX], f"no such field; did you mean {meant}?", is_about_loss(meant))

    def leave_out(self, field: str, reason: str, may_lose: bool = False) -> None:
        """Note that a field of the entry cannot be in force."""
        self.left_out.append(LeftOut(self.where, field, reason, may_lose))

    def fault(self, field: str, value: object, text: str) -> EntryFault:
        """Return an error that names the entry, a field of it and its value."""
        return EntryFault(INVALID, self.said(field, value, text))

    def unknown(self, field: str, value: object, text: str) -> RequestError:
        """Return the reason why the entry is left out: a field names what there is not."""
        return RequestError(INVALID, self.said(field, value, text))

    def said(self, field: str, value: object, text: str) -> str:
        place = f"{self.where}: {field}" if field else self.where
        return f"{place}: {repr(value)[:SHOWN_MAX]} {text}"

    def value(self, field: str, default: object) -> object:
        """Return a field of any type."""
        value = self.fields.get(field)
        return default if value is None else value

    def text(self, field: str, default: str | None = None) -> str:
        """Return a field that is text; raise EntryFault if it is not, or is missing and has no default."""
        value = self.value(field, default)
        if not isinstance(value, str):
            raise self.fault(field, value, "is no text")
        return value

    def octets(self, field: str, default: str | None = None) -> bytes:
        """Return a field that is text, as the broker has names."""
        return self.text(field, default).encode()

    def flag(self, field: str, default: bool) -> bool:
        """Return a field that is true or false."""
        value = self.value(field, default)
        if not isinstance(value, bool):
            raise self.fault(field, value, "is neither true nor false")
        return value

    def table(self, field: str) -> dict[str, object]:
        """Return a field that is an object. RabbitMQ writes an empty one also as a list."""
        value = self.value(field, {})
        if value == []:
            return {}
        if not isinstance(value, dict):
            raise self.fault(field, value, "is no object")
        return value

    def texts(self, field: str) -> list[str]:
        """Return a field that is a list of texts, or text with commas between."""
        value = self.value(field, [])
        if isinstance(value, str):
            return [each.strip() for each in value.split(",") if each.strip()]
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.fault(field, value, "is no list of texts")
        return value
