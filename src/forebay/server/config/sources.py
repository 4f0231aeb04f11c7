"""Options from the command line, the environment and a file, in that order of precedence.

The table of core/options.py checks every value; here each value gets the name of the place it came from, so that an
error can say where to look, and so that people can see why an option has its value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from forebay.core.errors import OptionError
from forebay.core.option_table import SECRETS, TABLE, TABLES, BadOptions, option_fields, split_address
from forebay.core.options import Options, check_values, make_options
from forebay.server.config.files import Lines, line_of, read_lines

ENVIRONMENT_PREFIX = "FOREBAY_"
KEY: Final = re.compile(r"([a-z_0-9]+)(?:\[\d+\])?(?:\.[a-z_]+)*")  # that the text of an error begins with
ERROR: Final = "error"
WARNING: Final = "warning"
DEFAULT: Final = "default"
HIDDEN: Final = "***"
OTHERS_BITS: Final = 0o077  # of a file's mode: what the group and everybody may do
# Names with the prefix that are no options: they steer the build, the tests, and the commands that ask a broker.
NOT_OPTIONS = frozenset(
    {
        "FOREBAY_BUILD_CACHE",
        "FOREBAY_DEBUG",
        "FOREBAY_PEERS",
        "FOREBAY_PURE",
        "FOREBAY_PYTHON",
        "FOREBAY_CONFIG",
        "FOREBAY_SERVER",
        "FOREBAY_USER",
        "FOREBAY_PASSWORD",
        "FOREBAY_NEW_PASSWORD",
        "FOREBAY_SPARK_MASTER",
        "FOREBAY_VHOST",
        "FOREBAY_TLS",
        "FOREBAY_CA_FILE",
        "FOREBAY_CERTIFICATE",
        "FOREBAY_CERTIFICATE_KEY",
    }
)


@dataclass(frozen=True, slots=True)
class Loaded:
    """Options, and where each value came from.

    origins  by option name: `forebay.yaml:12`, `environment`, `command line`; what is not in it is a default
    file     that was read; empty for none
    lines    of the keys in the file
    """

    options: Options
    origins: dict[str, str]
    file: str
    lines: Lines

    def shown(self) -> list[dict[str, object]]:
        """Return name, value, origin and reloadability of every option. Secrets are hidden."""
        return [
            {
                "name": name,
                "value": shown_value(Options, name, getattr(self.options, name)),
                "origin": self.origins.get(name, DEFAULT),
                "reloadable": spec.reloadable,
            }
            for name, spec, _ in option_fields(Options)
        ]


class OptionSource:
    """The sources of the options of one broker, which may be read again while the broker runs.

    flags        values given on the command line, by option name
    environment  the process's; FOREBAY_<NAME> sets an option, FOREBAY_CONFIG names the file where `file` is None
    """

    def __init__(self, flags: Mapping[str, str], environment: Mapping[str, str], file: str | None = None) -> None:
        self.flags = dict(flags)
        self.environment = dict(environment)
        self.file = (file if file is not None else environment.get("FOREBAY_CONFIG")) or ""

    def load(self) -> Loaded:
        """Load the options from all places. Raises OptionError with each place, key, value and what it may be."""
        lines: Lines = {}
        of_file: Mapping[str, object] = {}
        if self.file:
            of_file, lines = read_lines(self.file)
        wrong: list[str] = []
        values: dict[str, object] = {}
        origins: dict[str, str] = {}
        for place, given in (
            (self.file, of_file),
            ("environment", _from_environment(self.environment)),
            ("command line", self.flags),
        ):
            found = lines if place == self.file else {}
            wrong += _problems(place, given, found)
            values.update(given)
            for name in given:
                line = line_of(found, str(name))
                origins[str(name)] = f"{place}:{line}" if line else place
        if wrong:
            raise OptionError("\n".join(wrong))
        try:
            return Loaded(make_options(values), origins, self.file, lines)
        except BadOptions as error:
            raise OptionError("\n".join(_placed(error, self.file, lines, origins))) from None


def load_options(flags: Mapping[str, str], environment: Mapping[str, str], file: str | None = None) -> Options:
    """Load the options for one start; see `OptionSource`."""
    return OptionSource(flags, environment, file).load().options


def _from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value in environment.items():
        if name.startswith(ENVIRONMENT_PREFIX) and name not in NOT_OPTIONS:
            found[name.removeprefix(ENVIRONMENT_PREFIX).lower()] = value
    return found


def _problems(place: str, values: Mapping[str, object], lines: Lines) -> list[str]:
    """Return the problems with the values of one place, each with its line if it has one."""
    try:
        check_values(values)
    except BadOptions as error:
        return _placed(error, place, lines, {})
    return []


def _placed(error: BadOptions, place: str, lines: Lines, origins: Mapping[str, str]) -> list[str]:
    """Return the text of each problem, with its place and line."""
    texts: list[str] = []
    for each in error.problems:
        line = line_of(lines, each.path)
        where = f"{place}:{line}" if line else origins.get(each.path, place)
        texts.append(f"{where}: {each.text}")
    return texts


@contextmanager
def placed(loaded: Loaded) -> Iterator[None]:
    """Add to an OptionError about an option the place and line of its value."""
    try:
        yield
    except OptionError as error:
        path = KEY.match(str(error))
        name = "" if path is None else path[1]
        where = loaded.origins.get(name, "")
        if path is None or not where:
            raise
        line = line_of(loaded.lines, path[0]) if where.startswith(f"{loaded.file}:") else 0
        raise OptionError(f"{f'{loaded.file}:{line}' if line else where}: {error}") from None


# ---- checking


@dataclass(frozen=True, slots=True)
class Finding:
    """An error or warning about a configuration.

    level  ERROR or WARNING
    text   the place, the key and what it is about
    """

    level: str
    text: str


def check(file: str | None, environment: Mapping[str, str] | None = None) -> list[Finding]:
    """Return the errors at which a start with this file and environment would stop, or else the warnings."""
    from forebay.server.config.checks import check_options  # noqa: PLC0415  a start asks after the options are read

    try:
        loaded = OptionSource({}, environment or {}, file).load()
    except OptionError as error:
        return [Finding(ERROR, line) for line in str(error).splitlines()]
    try:
        with placed(loaded):
            check_options(loaded.options)
    except OptionError as error:
        return [Finding(ERROR, str(error))]
    warnings = [*_open_to_all(loaded.options), *_files(loaded.options), *_sizes(loaded.options)]
    return [
        Finding(WARNING, f"{loaded.origins.get(path.partition('[')[0], DEFAULT)}: {path}: {text}")
        for path, text in warnings
    ]


def _open_to_all(options: Options) -> list[tuple[str, str]]:
    """Return the options that let other machines do what they should not, each with a warning."""
    found: list[tuple[str, str]] = []
    if options.users.get("guest") == "guest" and "guest" not in options.loopback_users:
        found.append(("loopback_users", "guest may log in from everywhere with the password that everybody knows"))
    for name in ("amqp", "mqtt", "mqtt_websocket", "http", "coap"):
        address = getattr(options, name)
        if address and not _is_loopback(split_address(address)[0]):
            found.append((name, f"{address} is reached from outside, and passwords cross the network as they are"))
    return found


def _is_loopback(host: str) -> bool:
    return host in {"localhost", "::1"} or host.startswith("127.")


def _files(options: Options) -> list[tuple[str, str]]:
    """Return the secrets that other users of this machine may read, each with a warning."""
    found: list[tuple[str, str]] = []
    key = options.tls_key or options.tls_certificate
    try:
        mode = os.stat(key).st_mode if key else 0
    except OSError:
        return [("tls_key", f"{key!r} cannot be read")]
    if mode & OTHERS_BITS:
        found.append(("tls_key", f"{key!r} may be read by others than its owner: its mode is {mode & 0o777:o}"))
    return found


def _sizes(options: Options) -> list[tuple[str, str]]:
    """Return the options that exceed what the machine has, each with a warning."""
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if options.memory_octets_max > there:
        return [("memory_octets_max", f"{options.memory_octets_max} octets are more than the machine's {there}")]
    return []


# ---- showing


def shown_value(table: type, name: str, value: object) -> object:
    """Return an option's value without passwords, keys and tokens, as people may see it."""
    spec = next(spec for each, spec, _ in option_fields(table) if each == name)
    if spec.kind in SECRETS:
        if isinstance(value, Mapping):
            return {str(key): HIDDEN for key in value}
        return HIDDEN if value else ""
    if spec.kind in {TABLE, TABLES}:
        assert spec.inner is not None
        entries = value if isinstance(value, list) else [value]
        shown = [
            {each: shown_value(spec.inner, each, getattr(entry, each)) for each, _, _ in option_fields(spec.inner)}
            for entry in entries
        ]
        return shown if isinstance(value, list) else shown[0]
    return value
