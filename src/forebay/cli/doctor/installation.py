"""Checks of the installation: configuration, passwords, ports, the data folder, and a running broker's status."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from forebay.cli.doctor.diagnosis import ERROR, GOOD, NOTE, WARNING, Diagnosis
from forebay.core.errors import CorruptFile, OptionError, RequestError, StorageError
from forebay.core.option_table import split_address
from forebay.core.options import Options
from forebay.log.folder.manifest import NAME as MANIFEST
from forebay.log.wal import FOLDER
from forebay.server.system.disk import LOCK

LISTENERS: Final = (
    "amqp",
    "mqtt",
    "mqtt_websocket",
    "http",
    "prometheus",
    "amqps",
    "mqtts",
    "mqtt_websocket_tls",
    "https",
    "coap",
)
ENCRYPTED: Final = ("amqps", "mqtts", "mqtt_websocket_tls", "https")
OTHERS: Final = 0o077
# Left out here: `ports` and `password` report these.
SAID_ELSEWHERE: Final = ("passwords cross the network as they are", "with the password that everybody knows")
DAMAGED: Final = ".damaged"


def configuration(file: str | None, environment: Mapping[str, str]) -> list[Diagnosis]:
    """Return the errors that would stop a broker with this configuration, and its risky settings."""
    from forebay.server.config.sources import check

    where = file or "the environment"
    remedy = f"mend it in {where}; `forebay config check{f' {file}' if file else ''}` says when it is good"
    found = [
        Diagnosis("configuration", each.level, each.text, remedy)
        for each in check(file, environment)
        if not each.text.endswith(SAID_ELSEWHERE)
    ]
    return found or [Diagnosis("configuration", GOOD, f"{where}: no errors")]


def is_loopback(host: str) -> bool:
    return host in {"localhost", "::1"} or host.startswith("127.")


def ports(addresses: Mapping[str, str], running: bool) -> list[Diagnosis]:
    """Return findings on who can reach the listeners. Unless `running`, also checks that their ports are free."""
    found: list[Diagnosis] = []
    for name in LISTENERS:
        address = addresses.get(name, "")
        if not address:
            continue
        host, port = split_address(address)
        fields: dict[str, object] = {"listener": name, "address": address}
        if not running and port and (problem := taken(host, port, name == "coap")):
            text = f"{name} {address}: {problem}"
            found.append(Diagnosis("ports", ERROR, text, f"`ss -ltnp` shows who has it; or set {name}", fields))
        elif not is_loopback(host) and name == "prometheus":
            text = f"{name} {address} can be reached from other machines, and names queues and users without a login"
            found.append(
                Diagnosis("ports", WARNING, text, f"set {name} to 127.0.0.1:{port}, or keep others out", fields)
            )
        elif not is_loopback(host) and name not in ENCRYPTED:
            text = f"{name} {address} can be reached from other machines, and passwords cross the network as they are"
            remedy = f"let other machines use TLS ({name_with_tls(name)}), and set {name} to 127.0.0.1:{port}"
            if name == "coap":
                remedy = "let it listen in a network of your own, such as a VPN, or let other machines use mqtts"
            found.append(Diagnosis("ports", WARNING, text, remedy, fields))
    if not found:
        said = ", ".join(f"{name} {addresses[name]}" for name in LISTENERS if addresses.get(name))
        found.append(Diagnosis("ports", GOOD, said or "no listener"))
    return found


def name_with_tls(name: str) -> str:
    """Return the option of the TLS listener for the same protocol."""
    return {"amqp": "amqps", "mqtt": "mqtts", "mqtt_websocket": "mqtt_websocket_tls", "http": "https"}.get(
        name, "mqtts"
    )


def taken(host: str, port: int, is_udp: bool = False) -> str:
    """Return the reason why a listener cannot be bound to the address. Returns "" if it can."""
    wanted = socket.SOCK_DGRAM if is_udp else socket.SOCK_STREAM
    try:
        for family, kind, protocol, _, place in socket.getaddrinfo(host or None, port, type=wanted):
            with socket.socket(family, kind, protocol) as listener:
                if not is_udp:
                    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                listener.bind(place)
    except OSError as error:
        return (error.strerror or str(error)).lower()
    return ""


def password(guest_enters: bool, addresses: Mapping[str, str], everywhere: bool) -> Diagnosis:
    """Return a diagnosis of whether guest can log in with its well-known password.

    everywhere  whether guest may log in from other machines
    """
    fields: dict[str, object] = {"guest": guest_enters, "everywhere": everywhere}
    if not guest_enters:
        return Diagnosis("default password", GOOD, "nobody can log in with guest's known password", "", fields)
    remedy = "make an administrator (`forebay user add NAME --tags administrator`), "
    remedy += "and set `users` in the configuration without guest"
    outside = [name for name, address in addresses.items() if not is_loopback(split_address(address)[0])]
    if everywhere and outside:
        text = f"guest may log in from everywhere, with the password that everybody knows ({', '.join(outside)})"
        return Diagnosis("default password", ERROR, text, remedy, fields)
    level = WARNING if outside else NOTE
    text = "anyone on this machine may log in as guest, an administrator, with the password that everybody knows"
    return Diagnosis("default password", level, text, remedy, fields)


def guest_of(options: Options) -> bool:
    """Return whether the configuration has the user guest with its known password."""
    from forebay.directory.logins.passwords import is_hash, is_right

    kept = options.users.get("guest", "")
    return is_right("guest", kept) if is_hash(kept) else kept == "guest"


def folder(path: Path, pid: int | None) -> list[Diagnosis]:
    """Return findings on the data folder. With `pid`, the broker that uses the folder, its content is not checked."""
    name = "data folder"
    if not path.exists():
        return [Diagnosis(name, NOTE, f"{path} does not exist yet: a broker creates it when it starts")]
    if not path.is_dir() or not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        remedy = "run it as the user that owns it, or `chown -R` it; or name another folder: option `data`"
        return [Diagnosis(name, ERROR, f"{path} cannot be read and written by this user", remedy)]
    found = [*owners(path)]
    there = {each.name for each in path.iterdir()}
    if not there & {FOLDER, MANIFEST, LOCK} and there:
        some = ", ".join(sorted(there)[:3])
        text = f"{path} is no data folder of a broker: it has {some}"
        return [*found, Diagnosis(name, ERROR, text, "give the broker a folder of its own: option `data`")]
    aside = sorted(str(each.relative_to(path)) for each in path.rglob(f"*{DAMAGED}*"))
    if aside:
        text = f"{len(aside)} damaged files were set aside by a repair: {', '.join(aside[:3])}"
        found.append(Diagnosis(name, NOTE, text, "delete them when nobody needs them any more"))
    if pid is not None:
        return [*found, Diagnosis(name, GOOD, f"{path}, in use by the process {pid}")]
    return [*found, *opened(path)]


def owners(path: Path) -> list[Diagnosis]:
    """Return a warning if other users have rights to the folder."""
    mode = path.stat().st_mode
    if mode & OTHERS:
        text = f"{path} can be read by other users (mode {mode & 0o777:o}): messages and hashes of passwords are in it"
        return [Diagnosis("data folder", WARNING, text, f"chmod 700 {path}")]
    return []


def opened(path: Path) -> list[Diagnosis]:
    """Read the folder as a broker does when it starts, and return a finding on whether that succeeds."""
    from forebay.cli.log.folder import Recovered, folder_of

    if not (path / FOLDER).is_dir():
        return [Diagnosis("data folder", GOOD, f"{path} is empty")]
    remedy = f"`forebay log verify {path}` names all damage; `forebay log repair {path}` mends it, or put a backup back"
    try:
        disk = folder_of(str(path))
        try:
            recovered = Recovered(disk)
        finally:
            disk.close_all()
    except CorruptFile as error:
        if "of an older forebay" in str(error) or "this program knows" in str(error):
            return [
                Diagnosis(
                    "data folder", ERROR, f"of another version: {error}", "start it with the forebay that wrote it"
                )
            ]
        return [Diagnosis("data folder", ERROR, f"a broker cannot start on it: {error}", remedy)]
    except (StorageError, OptionError, RequestError) as error:
        return [Diagnosis("data folder", ERROR, f"a broker cannot start on it: {error}", remedy)]
    queues = sum(len(vhost.catalog.queues) for vhost in recovered.vhosts.by_name.values())
    text = f"{path}: a broker can start on it, with {queues} queues"
    return [Diagnosis("data folder", GOOD, text)]


def broker(status: dict[str, Any]) -> list[Diagnosis]:
    """Return findings from the status of a running broker."""
    ways = {
        "memory": "have queues drained or limited, or raise memory_octets_max",
        "disk": "make room on the disk of its data folder",
        "damage": "stop it and run `forebay log repair` on its data folder",
    }
    found = [
        Diagnosis("broker", ERROR, f"alarm: {each}", ways.get(str(each), "`forebay status` says more"))
        for each in status["alarms"]
    ]
    if status["slow_readers"]:
        text = f"{status['slow_readers']} clients do not read what they are sent"
        found.append(
            Diagnosis("broker", WARNING, text, "`forebay connection list` names them; `forebay top` their queues")
        )
    if status["sessions_over_quota"]:
        text = f"for {status['sessions_over_quota']} MQTT sessions nothing more is kept: too much waits for them"
        way = "`forebay session list --offline` names them; delete those that will not come back"
        found.append(Diagnosis("broker", WARNING, text, way))
    if status["connections"] > 0.9 * status["connections_max"]:
        text = f"{status['connections']:,} of {status['connections_max']:,} connections are there"
        found.append(Diagnosis("broker", WARNING, text, "raise connections_max, or find who opens so many"))
    return (found or [Diagnosis("broker", GOOD, "it answers, and has no alarm")]) + cluster(status)


def cluster(status: dict[str, Any]) -> list[Diagnosis]:
    """Return a finding on the cluster that a running broker is a node of. Returns an empty list if there is none."""
    known = status.get("cluster")
    if not known:
        return []
    level, way = GOOD, ""
    if known["out_of_sync"]:
        level, way = WARNING, "start the nodes that are away; `forebay cluster status` says how far others are"
    if known["too_few_in_sync"]:
        level = ERROR
    return [Diagnosis("cluster", level, str(known["line"]), way)]
