"""Configuration may say what nothing can be: each option takes it, or refuses it by name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Final

import pytest

from forebay.core.errors import OptionError
from forebay.core.option_table import FILE, HEADERS, PATH, SECRET, TABLE, TABLES, USERS, OptionSpec, option_fields
from forebay.core.options import Options, make_options
from forebay.core.reading.json_text import is_unicode
from forebay.server.config.sources import OptionSource, load_options

HALF: Final = "\ud83d"
OCTETS: Final = "\udcff\udcfe"  # of the environment, which are no text
ODD: Final[tuple[object, ...]] = (
    HALF,
    OCTETS,
    float("nan"),
    float("-inf"),
    1 << 70,
    -(1 << 63) - 1,
    [HALF],
    [1, None],
    {HALF: HALF},
    {"a": HALF},
    {HALF: 1},
    {1: 1},
    None,
    b"\xff",
    "[" * 100_000,
    '{"a": "\\ud83d"}',
    '["\\ud83d"]',
    "9" * 5000,
)
OCTETS_TAKEN: Final = (SECRET, FILE, PATH, USERS, HEADERS)


def every_option(table: type, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], OptionSpec]]:
    """The path and the spec of every option."""
    found: list[tuple[tuple[str, ...], OptionSpec]] = []
    for name, spec, _ in option_fields(table):
        found.append(((*path, name), spec))
        if spec.kind in {TABLE, TABLES}:
            assert spec.inner is not None
            found += every_option(spec.inner, (*path, f"{name}[]" if spec.kind == TABLES else name))
    return found


def placed(path: tuple[str, ...], value: object) -> dict[str, object]:
    """The options in which this one has the value."""
    for name in reversed(path):
        value = {name.removesuffix("[]"): [value] if name.endswith("[]") else value}
    assert isinstance(value, dict)
    return value


def texts_of(value: object) -> Iterator[str]:
    """Every text within a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in (*value, *value.values()):
            yield from texts_of(each)
    elif isinstance(value, list):
        for each in value:
            yield from texts_of(each)


@pytest.mark.parametrize("value", ODD, ids=lambda each: ascii(each)[:20])
def test_every_option_takes_an_odd_value_or_refuses_it(value: object) -> None:
    for path, spec in every_option(Options):
        try:
            options = make_options(placed(path, value))
        except OptionError:
            continue
        if spec.kind not in OCTETS_TAKEN:
            assert all(map(is_unicode, texts_of(asdict(options)[path[0].removesuffix("[]")]))), path


def test_names_of_users_are_unicode_and_passwords_need_not_be() -> None:
    assert make_options({"users": {"u": OCTETS}}).users == {"u": OCTETS}
    with pytest.raises(OptionError, match=r"users: '\\udcff\\udcfe' is no Unicode"):
        make_options({"users": {OCTETS: "p"}})


@pytest.mark.parametrize(
    ("name", "text", "named"),
    [
        ("half.yaml", 'cluster:\n  name: "x"\nlog_format: "\\ud83d"\n', "log_format"),
        ("half.yaml", 'queues:\n  - name: "\\ud83d"\n', r"half.yaml:2: queues\[0\].name: '\\ud83d' is no Unicode"),
        ("date.yaml", "amqp: 2026-13-45\n", "date.yaml"),
        ("long.yaml", f"connections_max: {'9' * 5000}\n", "long.yaml"),
        ("deep.yaml", "users: " + "[" * 5000 + "\n", "deep.yaml"),
        ("deep.yaml", "users: " + "{a: " * 3000 + "1" + "}" * 3000 + "\n", "deep.yaml"),
        ("bytes.yaml", "amqp: !!binary 'x'\n", "bytes.yaml"),
        ("loop.yaml", "users: &a [*a]\n", "loop.yaml|users"),
        ("long.toml", f"connections_max = {'9' * 5000}\n", "long.toml"),
        ("deep.toml", "users = " + "[" * 5000 + "\n", "deep.toml"),
        ("half.toml", 'log_format = "\\ud83d"\n', "half.toml"),
        ("nan.toml", "connections_max = nan\n", "nan.toml:1: connections_max"),
    ],
)
def test_an_odd_file_is_refused(tmp_path: Path, name: str, text: str, named: str) -> None:
    file = tmp_path / name
    file.write_text(text)
    with pytest.raises(OptionError, match=named):
        load_options({}, {}, str(file))


def test_the_environment_may_have_any_octets() -> None:
    for path, _ in every_option(Options):
        if len(path) == 1:
            for value in (OCTETS, "[" * 100_000, json.dumps({HALF: 1}), json.dumps([HALF]), "9" * 5000):
                with suppress(OptionError):
                    OptionSource({}, {f"FOREBAY_{path[0].upper()}": value}).load()
