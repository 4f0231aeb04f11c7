"""Options from the command line, the environment and a file, in that order of precedence.

The table of core/options.py checks every value; here each value only gets the name of the place it came from, so that
an error can say where to look.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path

import yaml

from forebay.core.errors import OptionError
from forebay.core.options import Options, check_values, make_options

ENVIRONMENT_PREFIX = "FOREBAY_"
# Names with the prefix that are no options: they steer the build, the tests, and the commands that ask a broker.
NOT_OPTIONS = frozenset(
    {
        "FOREBAY_PURE",
        "FOREBAY_PYTHON",
        "FOREBAY_CONFIG",
        "FOREBAY_SERVER",
        "FOREBAY_USER",
        "FOREBAY_PASSWORD",
        "FOREBAY_VHOST",
        "FOREBAY_TLS",
        "FOREBAY_CA_FILE",
        "FOREBAY_CERTIFICATE",
        "FOREBAY_CERTIFICATE_KEY",
    }
)


def load_options(flags: Mapping[str, str], environment: Mapping[str, str], file: str | None = None) -> Options:
    """The options of one start.

    flags        values given on the command line, by option name
    environment  the process's; FOREBAY_<NAME> sets an option, FOREBAY_CONFIG names the file where `file` is None
    raises       OptionError: names the place, the key, the value and what it may be
    """
    source = file if file is not None else environment.get("FOREBAY_CONFIG")
    values: dict[str, object] = {}
    if source:
        values.update(_checked(source, read_file(source)))
    values.update(_checked("environment", _from_environment(environment)))
    values.update(_checked("command line", flags))
    return make_options(values)


def read_file(path: str) -> dict[str, object]:
    """The keys and values of a TOML or YAML file, unchecked.

    raises  OptionError: names the file, and the line where it cannot be parsed
    """
    suffix = Path(path).suffix.lower()
    if suffix not in {".toml", ".yaml", ".yml"}:
        raise OptionError(f"{path}: a configuration file ends in .toml, .yaml or .yml")
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot be read: {error}") from error
    try:
        values = tomllib.loads(text) if suffix == ".toml" else yaml.safe_load(text)
    except (tomllib.TOMLDecodeError, yaml.YAMLError) as error:
        raise OptionError(f"{path}: {error}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise OptionError(f"{path}: holds no keys and values at its top")
    return values


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in environment.items():
        if name.startswith(ENVIRONMENT_PREFIX) and name not in NOT_OPTIONS:
            found[name.removeprefix(ENVIRONMENT_PREFIX).lower()] = value
    return found


def _checked(place: str, values: Mapping[str, object]) -> Mapping[str, object]:
    """The same values, each of them known to be good; an error names the place."""
    try:
        check_values(values)
    except OptionError as error:
        raise OptionError(f"{place}: {error}") from error
    return values
