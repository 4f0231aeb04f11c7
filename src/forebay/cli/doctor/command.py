"""`forebay doctor`: what is wrong with an installation, in plain words, and what to do about it."""

from __future__ import annotations

import os
import sys
import textwrap
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from forebay.cli.access import USER, LoginOptions, logs_in_broker
from forebay.cli.as_json import show_json
from forebay.cli.doctor import disk, installation, machine
from forebay.cli.doctor.diagnosis import ERROR, GOOD, NOTE, WARNING, Diagnosis, worst
from forebay.cli.progress import progress_bar
from forebay.cli.show import cell
from forebay.client.control import ControlClient
from forebay.core.errors import ForebayError, OptionError, Unreachable
from forebay.core.options import Options, make_options
from forebay.core.units import US_PER_S

COLOURS: Final = {GOOD: 32, NOTE: 36, WARNING: 33, ERROR: 31}
LEVEL_ROOM: Final = 8
CHECK_ROOM: Final = 18
TEXT_MIN: Final = 30
TEXT_MAX: Final = 100


@dataclass(slots=True)
class Installation:
    """The installation to check.

    options  options of the configuration, with defaults for the others
    data     the data folder; None if it is on another machine
    status   status of the running broker; None if none answers
    pid      process id of the broker on this machine that uses the folder; None if there is none
    asked_s  time on this machine when the broker answered, in seconds since 1970
    """

    options: Options
    data: Path | None
    status: dict[str, Any] | None = None
    loopback_users: list[str] | None = None
    guest: bool = False
    pid: int | None = None
    asked_s: float = 0.0

    def addresses(self) -> dict[str, str]:
        """Return the addresses of the running broker's listeners by name, or those of the configuration."""
        if self.status is not None:
            return {name: str(address) for name, address in self.status["listeners"].items()}
        named = {name: str(getattr(self.options, name)) for name in installation.LISTENERS}
        return {name: address for name, address in named.items() if address}

    def limit(self, name: str) -> int:
        """Return the value of a numeric option, as in force in the running broker or else as configured."""
        found: int = getattr(self.options, name) if self.status is None else self.status[name]
        return found


@logs_in_broker
def doctor(
    login: LoginOptions,
    config: Annotated[
        str | None,
        typer.Option(metavar="FILE", envvar="FOREBAY_CONFIG", help="The broker's configuration; by default none."),
    ] = None,
    data: Annotated[
        str | None,
        typer.Option(metavar="DIR", help="The data folder; by default that of the broker or the configuration."),
    ] = None,
) -> None:
    """Find out what is wrong with this installation, and what to do about it.

    Checks the configuration, the data folder, the disk (a real fdatasync test of up to 2 s), open files, memory, the
    clock, ports, guest's known password, versions, and the state of a running broker. Changes nothing. Run it before
    the broker starts, or beside it. Exits with 1 if there is a warning or an error.

    Example: forebay doctor --config /etc/forebay/forebay.yaml
    """
    with progress_bar("looking", None):
        findings = looked(login, config, data)
    if login.as_json:
        show_json({"worst": worst(findings), "findings": [each.shown() for each in findings]})
    else:
        show(findings)
    if worst(findings) in {WARNING, ERROR}:
        raise typer.Exit(1)


def looked(login: LoginOptions, config: str | None, data: str | None) -> list[Diagnosis]:
    """Make all checks, and return their findings."""
    findings = installation.configuration(config, os.environ)
    found = Installation(options_of(config), None)
    findings += asked(found, login)
    place_data(found, data, config)
    status = found.status
    findings.append(machine.version(*((status["version"], status["build"]) if status else (None, None))))
    if found.data is not None:
        findings += installation.folder(found.data, found.pid)
        findings += disk_of(found)
    if status is None or found.pid is not None:
        whose = f"the process {found.pid}" if found.pid else "this user"
        limit = machine.limit_of(found.pid)
        findings.append(machine.handles(limit, found.limit("connections_max"), whose))
        findings.append(machine.memory(found.limit("memory_octets_max"), *machine.memory_there()))
    findings.append(clock_of(found))
    if status is None and found.pid is not None:
        text = f"the process {found.pid} uses {found.data}, and does not answer at {login.server}"
        findings.append(Diagnosis("broker", NOTE, text, "--server HOST:PORT names a listener of it; it tells more"))
    findings += installation.ports(found.addresses(), status is not None or found.pid is not None)
    everywhere = USER not in (found.options.loopback_users if found.loopback_users is None else found.loopback_users)
    guest = found.guest if status is not None else installation.guest_of(found.options)
    findings.append(installation.password(guest, found.addresses(), everywhere))
    return findings


def options_of(config: str | None) -> Options:
    """Return the options of the configuration. Returns the defaults if it is invalid, which another check reports."""
    from forebay.server.config.sources import load_options

    try:
        return load_options({}, os.environ, config)
    except OptionError:
        return make_options({})


def asked(found: Installation, login: LoginOptions) -> list[Diagnosis]:
    """Query the running broker, store its answers in `found`, and return the findings about it."""
    try:
        with login.control() as client:
            began = time.time()
            found.status = client.run("broker.status")
            found.asked_s = (began + time.time()) / 2
            shown = {str(each["name"]): each["value"] for each in client.items("config.show")}
            users = shown.get("loopback_users")
            found.loopback_users = [str(each) for each in users] if isinstance(users, list) else None
    except Unreachable:
        return [Diagnosis("broker", NOTE, f"none answers at {login.server}: these checks use what it would start with")]
    except ForebayError as error:
        way = "give --user and --password of an administrator: the broker tells more than can be seen from outside"
        return [Diagnosis("broker", WARNING, f"it answers, but not to this user: {error}", way)]
    found.guest = guest_enters(login)
    return installation.broker(found.status)


def guest_enters(login: LoginOptions) -> bool:
    """Return whether guest can log in from here with its known password."""
    try:
        with ControlClient.connect(login.server, USER, USER, tls=login.tls):
            return True
    except ForebayError:
        return False


def place_data(found: Installation, data: str | None, config: str | None) -> None:
    """Set the data folder, and the process id of a broker on this machine that uses it."""
    from forebay.cli.log.folder import user_of

    given = data or (found.status["data"] if found.status is not None else found.options.data)
    place = Path(given)
    try:
        user = user_of(str(place)) if place.is_dir() else ""
    except ForebayError:
        user = ""  # no right to read the folder: the finding on the folder says so
    if found.status is not None:
        here = user == str(found.status["pid"])
        if not here and data is None and config is None:
            return  # the broker runs on another machine: check no folder here
    found.data = place
    found.pid = int(user) if user.isdigit() else None


def disk_of(found: Installation) -> list[Diagnosis]:
    """Measure the disk under the data folder, or under its nearest existing parent."""
    assert found.data is not None
    place = found.data.absolute()
    while not place.is_dir() and place != place.parent:
        place = place.parent
    try:
        return [disk.assessed(disk.measured(place)), disk.room(place, found.limit("disk_free_min_octets"))]
    except OSError as error:
        text = f"nothing can be written in {place}: {error.strerror}"
        return [
            Diagnosis(disk.CHECK, ERROR, text, "give it to the user that the broker runs as, and mount it writable")
        ]


def clock_of(found: Installation) -> Diagnosis:
    """Check the clock against the broker's clock and the newest WAL file."""
    newest = None
    if found.data is not None and found.data.is_dir():
        try:
            newest = max((each.stat().st_mtime for each in found.data.rglob("*.wal")), default=None)
        except OSError:
            newest = None  # a file was deleted meanwhile: skip this comparison
    now = time.time()
    broker_s = None
    if found.status is not None:
        broker_s = found.status["time_us"] / US_PER_S - found.asked_s + now
    return machine.clock(now, machine.clock_state(), newest, broker_s)


def show(findings: list[Diagnosis]) -> None:
    """Print the findings for people, and the numbers of errors and warnings."""
    from forebay.cli.table import terminal_columns

    room = max(min(terminal_columns() - LEVEL_ROOM - CHECK_ROOM, TEXT_MAX), TEXT_MIN)
    coloured = sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    blank = " " * (LEVEL_ROOM + CHECK_ROOM)
    for each in findings:
        level = f"{each.level:<{LEVEL_ROOM}}"
        level = f"\x1b[{COLOURS[each.level]}m{level}\x1b[0m" if coloured else level
        first, *rest = textwrap.wrap(cell(each.text), room)
        print(f"{level}{each.check:<{CHECK_ROOM}}{first}")
        for line in [*rest, *(textwrap.wrap(f"→ {each.remedy}", room, subsequent_indent="  ") if each.remedy else ())]:
            print(f"{blank}{line}")
    counts = {level: sum(each.level == level for each in findings) for level in (ERROR, WARNING)}
    said = [f"{count} {level}{'s' if count > 1 else ''}" for level, count in counts.items() if count]
    print(f"\n{', '.join(said) or 'nothing is wrong'}")
