"""Answers of a broker as people read them: times as times, sizes as sizes, and tables that fit the terminal.

The kind of a figure stands in its name, as everywhere in the project: `_ms`, `_us` and `_s` are times, or periods where
they are short; `octets` are sizes. `--json` has the figures themselves.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from forebay.cli.units import octets_said, period_said

UNITS_MS: Final = {"_us": 0.001, "_ms": 1, "_s": 1000}
DATE_MS: Final = 10**12  # in the year 2001: smaller values are periods
NONE: Final = "none"


def show_table(columns: Sequence[str], items: Sequence[dict[str, object]]) -> None:
    """Print items as a table for people, a row an item, numbers aligned to the right."""
    from forebay.cli.table import NUMBER, TEXT, WHOLE, print_table

    kinds = []
    for column in columns:
        values = [value for item in items if (value := item.get(column)) is not None]
        numbers = bool(values) and all(is_number(value) for value in values)
        dates = numbers and any(figure(column, value).endswith("UTC") for value in values)
        kinds.append(WHOLE if dates else NUMBER if numbers else TEXT)
    rows = [[figure(column, item.get(column)) for column in columns] for item in items]
    print_table(heads(columns), rows, kinds)


def show_fields(fields: dict[str, object]) -> None:
    """Print the fields of one object, one a line, and lists of objects within it as tables."""
    nested: list[tuple[str, list[dict[str, object]]]] = []
    width = max((len(head(name)) for name in fields), default=0)
    for name, value in fields.items():
        if isinstance(value, list) and value and all(isinstance(each, dict) for each in value):
            nested.append((name, value))
        elif isinstance(value, dict) and value:
            print(head(name))
            room = max(len(head(inner)) for inner in value)
            for inner, one in value.items():
                print(f"  {head(inner):<{room}}  {figure(inner, one) or NONE}")
        else:
            print(f"{head(name):<{width}}  {figure(name, value) or NONE}")
    for name, items in nested:
        print(f"\n{head(name)}")
        show_table(list(items[0]), items)


def show_message(message: dict[str, object]) -> None:
    """Print one message for people: a line of fields, its properties and headers, and the fetched part of its body."""
    exchange = cell(message["exchange"]) or "(default)"
    print(f"offset {message['offset']}  exchange {exchange}  key {cell(message['routing_key'])}", end="  ")
    print(f"{figure('octets', message['octets'])}  stored {moment(message['stored_ms'])}", end="  ")
    print(f"delivered {message['deliveries']} times, failed {message['failures']}")
    death = message.get("death")
    if isinstance(death, dict):
        print("    died: " + ", ".join(f"{name} {figure(name, value)}" for name, value in death.items()))
    for part, word in (("properties", "property"), ("headers", "header")):
        values = message[part]
        assert isinstance(values, dict)
        for name, value in values.items():
            print(f"    {word} {cell(name)}: {cell(value)}")
    body = message.get("body", message.get("body_base64"))
    print(f"    {cell(body)}{' …' if message['is_cut'] else ''}{' (base64)' if 'body_base64' in message else ''}")


def heads(columns: Sequence[str]) -> list[str]:
    """Return the heads of a table's columns. Adds "time" to the head of a time that equals another head."""
    said = [head(column) for column in columns]
    return [
        f"{each} time" if said.count(each) > 1 and column.endswith(tuple(UNITS_MS)) else each
        for each, column in zip(said, columns, strict=True)
    ]


def head(name: str) -> str:
    """Return a field's name for people, without its unit, which stands with the value."""
    if "-" in name:  # a queue argument or header, whose name is not ours to change
        return cell(name)
    for unit in UNITS_MS:
        name = name.removesuffix(unit)
    return name.replace("octets", "size").replace("_", " ")


def figure(name: str, value: object) -> str:
    """Return a field's value for people, in the unit that the field's name implies."""
    if not is_number(value):
        return cell(value)
    assert isinstance(value, int | float)
    if "octets" in name.split("_"):
        return octets_said(int(value))
    for unit, scale in UNITS_MS.items():
        if name.endswith(unit):
            return date_or_period(value * scale)
    return cell(value)


def date_or_period(ms: float) -> str:
    if ms >= DATE_MS:
        return moment(int(ms))
    return period_said(ms / 1000) if ms >= 1000 or not ms else f"{ms:.0f} ms"


def moment(time_ms: object) -> str:
    """Return a time in milliseconds since 1970 as text in UTC."""
    assert isinstance(time_ms, int)
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(" ", "milliseconds").removesuffix("+00:00") + " UTC"


def moment_ms(text: str) -> int | None:
    """Parse a time in ISO 8601, UTC if it names no zone, into milliseconds since 1970. Returns None if invalid."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        return None
    return int((time if time.tzinfo is not None else time.replace(tzinfo=UTC)).timestamp() * 1000)


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def cell(value: object) -> str:
    """Return a value as one line of text, with control characters escaped so that a terminal does not obey them."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return ", ".join(cell(each) for each in value)
    if isinstance(value, list | dict):
        return json.dumps(value, ensure_ascii=True) if value else ""
    text = str(value)
    return text if text.isprintable() else ascii(text)[1:-1]
