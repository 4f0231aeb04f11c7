"""Options are described, read and checked by a table: kinds of value, and a line for each option.

The tables themselves are in `options.py` and the modules that it builds on.
Octets may be written with KiB, MiB or GiB, times with ms, s, m, h or d.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from math import isfinite
from typing import Any, Final, TypeVar

from forebay.core.errors import OptionError
from forebay.core.option_names import REFUSED_OPTIONS, SECTIONS_OF_FLUXMQ
from forebay.core.reading.json_text import is_unicode

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
HOUR_S: Final = 3600

# Kinds of value: how an option is read from text, checked and documented.
TEXT: Final = "text"
VALUE: Final = "value"
URL: Final = "url"
INTEGER: Final = "integer"
BOOLEAN: Final = "boolean"
ADDRESS: Final = "HOST:PORT"
FILE: Final = "file"
PATH: Final = "path"
PATTERN: Final = "pattern"
SERVER: Final = "server"
SECRET: Final = "secret"
USERS: Final = "users"
HEADERS: Final = "headers"
PRIORITIES: Final = "priorities"
FACTOR: Final = "number"
ARGUMENTS: Final = "arguments"
NAMES: Final = "names"
NAME: Final = "name"
TABLE: Final = "table"
TABLES: Final = "tables"

SECRETS: Final = (SECRET, USERS, HEADERS)  # kinds whose values are not shown
MAY_BE_EMPTY: Final = (VALUE, URL, FILE, PATH, NAME, PATTERN, SECRET)
_TEXTS: Final = (TEXT, VALUE, URL, ADDRESS, FILE, PATH, NAME, PATTERN, SERVER, SECRET)
_OCTETS: Final = (SECRET, FILE, PATH)
_WORDS: Final = {USERS: "password", HEADERS: "value"}
_SCALE: Final = {"": 1, "kib": KIB, "mib": MIB, "gib": GIB}
_TIME_MS: Final = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_DURATION: Final = re.compile(r"(?:\d{1,15}(?:ms|[smhd]))+")
_FACTOR: Final = re.compile(r"\d{1,19}(\.\d{1,19})?")
_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{0,64}")
_NUMBER: Final = re.compile(r"([+-]?\d+)\s*([a-zA-Z]*)")
ARGUMENT_LIMIT: Final = 1 << 63
_NUMBER_DIGITS_MAX: Final = 19  # longer ones are no i64, and int() of a very long text is slow

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong with the options.

    path  of the key: `queues[1].retention.max_age_s`
    text  the path, the value and what it may be
    """

    path: str
    text: str


class BadOptions(OptionError):
    """All that is wrong with the options."""

    def __init__(self, problems: list[Problem]) -> None:
        super().__init__("; ".join(each.text for each in problems))
        self.problems = problems


def wrong(path: str, text: str) -> BadOptions:
    """Return an error with one problem, whose text begins with the option's path."""
    return BadOptions([Problem(path, f"{path}: {text}")])


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """The table's entry for one option, apart from its name and default."""

    kind: str
    doc: str
    unit: str
    least: int
    most: int
    choices: tuple[str, ...]
    flag: bool
    reloadable: bool
    inner: type | None
    alias: str = ""

    def domain(self) -> str:
        """Return the values that the option takes, in words."""
        if self.choices:
            return ("a list of " if self.kind == NAMES else "") + " or ".join(self.choices)
        if self.kind == FACTOR:
            return f"a number from {self.least} to {self.most}"
        if self.kind == INTEGER:
            return f"{self.least} to {self.most}"
        if self.kind == PRIORITIES:
            return f"MQTT topics, each with a priority from {self.least} to {self.most}"
        return _DOMAINS[self.kind]


_DOMAINS: Final = {
    TEXT: "text, not empty",
    VALUE: "text, empty for none",
    URL: "`http://…` or `https://…`, empty for none",
    BOOLEAN: "true or false",
    ADDRESS: "HOST:PORT, port 0 for any free one, empty for no listener",
    FILE: "the path of a file, empty for none",
    PATH: "the path of a file or folder, empty for none",
    NAME: "up to 64 letters, digits and `.`, `-`, `_`, empty for none",
    PATTERN: "a regular expression, empty for no name",
    SERVER: "HOST:PORT with a port from 1, empty for none",
    SECRET: "text that is never shown, empty for none",
    HEADERS: "names, each with a text",
    USERS: "names, each with a password",
    ARGUMENTS: "names, each with a text, a number, or true or false",
    NAMES: "a list of texts, none empty",
    TABLE: "keys and values, see below",
    TABLES: "a list of keys and values, see below",
}


def option(
    default: object,
    kind: str,
    doc: str,
    *,
    unit: str = "",
    least: int = 0,
    most: int = 0,
    choices: tuple[str, ...] = (),
    flag: bool = False,
    reloadable: bool = False,
    inner: type | None = None,
    alias: str = "",
) -> Any:
    """One line of the table; `alias` is another name that files may have for it."""
    spec = OptionSpec(kind, doc, unit, least, most, choices, flag, reloadable, inner, alias)
    metadata = {"spec": spec}
    if default is MISSING:
        return field(metadata=metadata)
    if isinstance(default, dict | list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def integer(
    default: int, unit: str, least: int, most: int, doc: str, *, reloadable: bool = False, alias: str = ""
) -> Any:
    """One line of the table: a whole number within bounds."""
    return option(default, INTEGER, doc, unit=unit, least=least, most=most, reloadable=reloadable, alias=alias)


def boolean(default: bool, doc: str, *, reloadable: bool = False) -> Any:
    """One line of the table: true or false."""
    return option(default, BOOLEAN, doc, reloadable=reloadable)


def option_fields(cls: type) -> list[tuple[str, OptionSpec, object]]:
    """Name, spec and default of every option of a table; the default is MISSING where a value must be given."""
    return [(item.name, _spec(item), _default(item)) for item in fields(cls)]


def split_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 host stands in brackets.

    raises  OptionError
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise OptionError(f"{text!r} is not HOST:PORT (an IPv6 host stands in brackets: [::1]:5672)")
    if not colon or not host or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
        raise OptionError(f"{text!r} is not HOST:PORT with a port from 0 to 65535")
    return host, int(port)


def build(cls: type[T], values: object, path: str) -> T:
    """Return an object of a class of options, from checked values and defaults for the rest.

    raises  OptionError: names each wrong key with its path
    """
    if not isinstance(values, Mapping):
        raise wrong(path.rstrip(".") or "options", f"{_shown(values)} is not a set of keys and values")
    table = {name: (spec, default) for name, spec, default in option_fields(cls)}
    aliases = {spec.alias: name for name, (spec, _) in table.items() if spec.alias}
    made: dict[str, object] = {}
    problems: list[Problem] = []
    for key, value in values.items():
        name = aliases.get(key, key)
        if name not in table:
            problems += _unknown(path, str(key), [*table, *aliases]).problems
            continue
        if name in made:
            problems += wrong(f"{path}{key}", f"it is there twice, as {name} and as {table[name][0].alias}").problems
            continue
        try:
            made[name] = _value(table[name][0], value, f"{path}{key}")
        except BadOptions as error:
            problems += error.problems
            made[name] = None
    for name, (spec, default) in table.items():
        if default is MISSING and name not in made:
            problems += wrong(f"{path}{name}", f"missing; give {spec.domain()}").problems
    if problems:
        raise BadOptions(problems)
    return cls(**made)


def _unknown(path: str, key: str, known: list[str]) -> BadOptions:
    if not path and key in SECTIONS_OF_FLUXMQ:
        return wrong(key, f"a section of FluxMQ's that is not in force here; {SECTIONS_OF_FLUXMQ[key]}")
    if not path and key in REFUSED_OPTIONS:
        return wrong(key, REFUSED_OPTIONS[key])
    near = get_close_matches(key.lower().replace("-", "_"), known, n=1, cutoff=0.5)
    hint = f"did you mean {path}{near[0]}?" if near else f"known are {', '.join(known)}"
    return wrong(f"{path}{key}", f"no such option; {hint}")


def _value(spec: OptionSpec, value: object, path: str) -> object:
    """Return a value as the option's kind. Raises BadOptions if it is not one."""
    if spec.kind == INTEGER:
        return _integer_value(spec, value, path)
    if spec.kind == FACTOR:
        return _factor_value(spec, value, path)
    if spec.kind == BOOLEAN:
        return _boolean_value(spec, value, path)
    if spec.kind in _TEXTS:
        return _text_value(spec, _unicode(spec, value, path), path)
    if isinstance(value, str):
        value = _from_json(spec, value, path)
    if spec.kind == ARGUMENTS:
        return _arguments_value(spec, value, path)
    if spec.kind in {USERS, HEADERS}:
        return _texts_value(spec, value, path)
    if spec.kind == PRIORITIES:
        return _priorities_value(spec, value, path)
    if spec.kind == TABLE:
        assert spec.inner is not None
        return build(spec.inner, value, f"{path}.")
    if not isinstance(value, list):
        raise _bad(spec, value, path)
    if spec.kind == TABLES:
        assert spec.inner is not None
        return _entries(spec.inner, value, path)
    for each in value:
        if not isinstance(each, str) or not each or (spec.choices and each not in spec.choices):
            raise _bad(spec, value, path)
        _unicode(spec, each, path)
    return list(value)


def _entries(cls: type, values: list[object], path: str) -> list[object]:
    entries: list[object] = []
    problems: list[Problem] = []
    for place, each in enumerate(values):
        try:
            entries.append(build(cls, each, f"{path}[{place}]."))
        except BadOptions as error:
            problems += error.problems
    if problems:
        raise BadOptions(problems)
    return entries


def _unicode(spec: OptionSpec, value: object, path: str) -> object:
    """Return a value; raise BadOptions if it is a text that is no Unicode, as names in answers and logs must be.

    Passwords and names of files may be octets that are no text.
    """
    if isinstance(value, str) and spec.kind not in _OCTETS and not is_unicode(value):
        raise wrong(path, f"{ascii(value)[:80]} is no Unicode; must be {spec.domain()}")
    return value


def _integer_value(spec: OptionSpec, value: object, path: str) -> int:
    if isinstance(value, str) and spec.unit in {"s", "ms"} and _DURATION.fullmatch(value.strip()):
        value = _duration(value, spec.unit)
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value.strip())
        if match is None or len(match[1]) > _NUMBER_DIGITS_MAX:
            raise _bad(spec, value, path)
        scale = _SCALE.get(match[2].lower()) if spec.unit == "octets" else _SCALE.get(match[2])
        if scale is None or (scale > 1 and spec.unit != "octets"):
            raise _bad(spec, value, path)
        value = int(match[1]) * scale
    if not isinstance(value, int) or isinstance(value, bool) or not spec.least <= value <= spec.most:
        raise _bad(spec, value, path)
    return value


def _factor_value(spec: OptionSpec, value: object, path: str) -> str:
    """Return a number that need not be whole, as text."""
    if isinstance(value, str) and _FACTOR.fullmatch(value.strip()):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not spec.least <= value <= spec.most:
        raise _bad(spec, value, path)
    return str(float(value))


def _duration(text: str, unit: str) -> int | str:
    """Return a time such as 90s or 1h30m in the unit of an option, or the text if that is no whole number of units."""
    milliseconds = sum(int(number) * _TIME_MS[each] for number, each in re.findall(r"(\d+)(ms|[smhd])", text))
    whole, rest = divmod(milliseconds, _TIME_MS[unit])
    return text if rest else whole


def _boolean_value(spec: OptionSpec, value: object, path: str) -> bool:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower(), value)
    if not isinstance(value, bool):
        raise _bad(spec, value, path)
    return value


def _text_value(spec: OptionSpec, value: object, path: str) -> str:
    if isinstance(value, int | float) and str(float(value)) in spec.choices:
        return str(float(value))  # a version such as 1.3, which YAML and TOML read as a number
    if not isinstance(value, str) or (spec.choices and value not in spec.choices):
        raise _bad(spec, value, path)
    if spec.kind in {ADDRESS, SERVER}:
        try:
            port = split_address(value)[1] if value else -1
        except OptionError as error:
            raise wrong(path, str(error)) from None
        if port == 0 and spec.kind == SERVER:
            raise _bad(spec, value, path)
    elif (spec.kind == NAME and not _NAME.fullmatch(value)) or (not value and spec.kind not in MAY_BE_EMPTY):
        raise _bad(spec, value, path)
    return value


def _texts_value(spec: OptionSpec, value: object, path: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise wrong(path, f"must be {spec.domain()}")
    texts: dict[str, str] = {}
    for name, text in value.items():
        # The text itself, a password perhaps, stays out of the message: logs are read by many.
        if not isinstance(name, str) or not name or not isinstance(text, str):
            raise wrong(f"{path}.{name}", f"the name must not be empty and its {_WORDS[spec.kind]} must be text")
        _unicode(spec, name, path)
        texts[name] = text
    return texts


def _arguments_value(spec: OptionSpec, value: object, path: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise _bad(spec, value, path)
    for name, each in value.items():
        is_long = isinstance(each, int) and not -ARGUMENT_LIMIT <= each < ARGUMENT_LIMIT
        is_endless = isinstance(each, float) and not isfinite(each)
        if not isinstance(name, str) or not isinstance(each, str | int | float) or is_long or is_endless:
            raise wrong(f"{path}.{name}", f"{_shown(each)} is out of range; must be {spec.domain()}")
        _unicode(spec, name, path)
        _unicode(spec, each, f"{path}.{name}")
    return dict(value)


def _priorities_value(spec: OptionSpec, value: object, path: str) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise _bad(spec, value, path)
    priorities: dict[str, int] = {}
    for topic, priority in value.items():
        # A filter would be taken for a topic that nobody publishes to, and change nothing without a word.
        if not isinstance(topic, str) or not topic or "+" in topic or "#" in topic:
            raise wrong(path, f"{_shown(topic)} is no topic; must be {spec.domain()}")
        _unicode(spec, topic, path)
        priorities[topic] = _integer_value(spec, priority, f"{path}.{topic}")
    return priorities


def _from_json(spec: OptionSpec, text: str, path: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise wrong(path, f"not JSON ({error}); must be {spec.domain()}") from None


def _bad(spec: OptionSpec, value: object, path: str) -> BadOptions:
    unit = f" {spec.unit}" if spec.unit else ""
    shown = "what is there" if spec.kind in SECRETS else _shown(value)
    return wrong(path, f"{shown} is out of range; must be {spec.domain()}{unit}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _spec(item: Field[Any]) -> OptionSpec:
    spec = item.metadata["spec"]
    assert isinstance(spec, OptionSpec)
    return spec


def _default(item: Field[Any]) -> object:
    return item.default if item.default_factory is MISSING else item.default_factory()
