"""One entry of a definitions file, whose fields are of the right type or said to be wrong.

`core/reading/json_text.py`, which reads the files, has refused values that cannot be kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from forebay.core.errors import INVALID, RequestError
from forebay.core.nearest import slip_among

SHOWN_MAX: Final = 80


class GivenEntry:
    """An entry.

    where  how errors name it: "queues[3] 'orders'"
    """

    def __init__(self, section: str, index: int, value: object) -> None:
        self.where = f"{section}[{index}]"
        if not isinstance(value, dict):
            raise self.wrong("", value, "is no object")
        self.fields: dict[str, object] = value
        name = value.get("name", value.get("user", value.get("source")))
        if isinstance(name, str):
            self.where += f" '{name[:SHOWN_MAX]}'"

    def check_names(self, known: Sequence[str]) -> None:
        """RequestError where a field is most likely misspelt; those of other names mean nothing here."""
        field, meant = slip_among(self.fields, known)
        if meant:
            raise RequestError(INVALID, f"{self.where}: {field[:SHOWN_MAX]}: no such field; did you mean {meant}?")

    def wrong(self, field: str, value: object, text: str) -> RequestError:
        """An error that names the entry, a field of it and its value."""
        shown = repr(value)
        place = f"{self.where}: {field}" if field else self.where
        return RequestError(INVALID, f"{place}: {shown[:SHOWN_MAX]} {text}")

    def text(self, field: str, default: str | None = None) -> str:
        """A field that is text; RequestError where it is not, or is missing and has no default."""
        value = self.fields.get(field, default)
        if not isinstance(value, str):
            raise self.wrong(field, value, "is no text")
        return value

    def octets(self, field: str) -> bytes:
        """The same, which must be there, as the broker has names."""
        return self.text(field).encode()

    def flag(self, field: str, default: bool) -> bool:
        """A field that is true or false."""
        value = self.fields.get(field, default)
        if not isinstance(value, bool):
            raise self.wrong(field, value, "is neither true nor false")
        return value

    def table(self, field: str) -> dict[str, object]:
        """A field that is an object; empty where it is missing. RabbitMQ writes an empty one also as a list."""
        value = self.fields.get(field)
        if value is None or value == []:
            return {}
        if not isinstance(value, dict):
            raise self.wrong(field, value, "is no object")
        return value

    def texts(self, field: str) -> list[str]:
        """A field that is a list of texts, or text with commas between."""
        value = self.fields.get(field)
        if value is None:
            return []
        if isinstance(value, str):
            return [each.strip() for each in value.split(",") if each.strip()]
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.wrong(field, value, "is no list of texts")
        return value
