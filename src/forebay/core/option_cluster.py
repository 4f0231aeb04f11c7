"""Options of a cluster: the section `cluster`, and the rules that concern several of its values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from forebay.core.errors import OptionError
from forebay.core.option_table import (
    ADDRESS,
    FILE,
    GIB,
    KIB,
    MIB,
    NAME,
    NAMES,
    PATTERN,
    SECRET,
    SERVER,
    TABLE,
    TEXT,
    Problem,
    integer,
    option,
    split_address,
)

SYNC: Final = "sync"
ASYNC: Final = "async"
FORWARD: Final = "forward"
REDIRECT: Final = "redirect"
REJECT: Final = "reject"
NODE_MARK: Final = "{node}"
EVERYWHERE: Final = ("0.0.0.0", "::")  # hosts that nobody can connect to


@dataclass(frozen=True, slots=True)
class EtcdOptions:
    """The etcd that keeps who leads and who is in sync."""

    endpoints: list[str] = option(
        [], NAMES, "Its members, each `HOST:PORT` or a URL; one that does not answer is passed over."
    )
    prefix: str = option("forebay", NAME, "How the keys begin: `/<prefix>/<name of the cluster>/`.")
    ca: str = option("", FILE, "Authorities that may vouch for it, PEM; with it, or with `https://`, TLS is spoken.")
    certificate: str = option("", FILE, "The certificate that this node shows, PEM.")
    key: str = option("", FILE, "Its private key, PEM; without it the key stands in `certificate`.")
    username: str = option("", PATTERN, "The user, if etcd asks for one.")
    password: str = option("", SECRET, "The user's password.")
    password_file: str = option("", FILE, "A file whose first line is the password instead.")
    timeout_ms: int = integer(1000, "ms", 10, 60_000, "How long one request may take.")
    presence_s: int = integer(10, "s", 2, 3600, "How long a node that died counts as being there.")


@dataclass(frozen=True, slots=True)
class AdvertiseOptions:
    """The addresses of this node's listeners as clients see them, for a node that sends its clients here."""

    amqp: str = option("", SERVER, "Instead of the broker's `amqp`.")
    amqps: str = option("", SERVER, "Instead of `amqps`.")
    mqtt: str = option("", SERVER, "Instead of `mqtt`.")
    mqtts: str = option("", SERVER, "Instead of `mqtts`.")
    mqtt_websocket: str = option("", SERVER, "Instead of `mqtt_websocket`.")
    mqtt_websocket_tls: str = option("", SERVER, "Instead of `mqtt_websocket_tls`.")
    http: str = option("", SERVER, "Instead of `http`.")
    https: str = option("", SERVER, "Instead of `https`.")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster that a broker is a node of."""

    name: str = option("", NAME, "The cluster's name; without one the broker stands alone.")
    node: str = option("", NAME, "This node's name, which no other has; empty for the host's.")
    listen: str = option("", ADDRESS, "Where other nodes connect.")
    advertise: str = option(
        "",
        SERVER,
        "Where they are told to connect; `{node}` in it stands for the node's name. Empty for `listen`.",
    )
    advertise_clients: AdvertiseOptions = option(
        AdvertiseOptions(), TABLE, "Where clients are told to connect.", inner=AdvertiseOptions
    )
    etcd: EtcdOptions = option(EtcdOptions(), TABLE, "What keeps who leads.", inner=EtcdOptions)
    members: int = integer(3, "members", 1, 7, "Nodes that keep the data.")
    min_in_sync: int = integer(
        0, "members", 0, 7, "How many must have a message before it is confirmed; 0: more than half of `members`."
    )
    mode: str = option(
        SYNC,
        TEXT,
        "When a message is confirmed: once every member in sync has it on disk (`sync`), or once the leader has "
        "(`async`), which can lose confirmed messages with the leader.",
        choices=(SYNC, ASYNC),
    )
    secret: str = option("", SECRET, "By which nodes know each other, 16 octets or more.")
    secret_file: str = option("", FILE, "A file whose first line is the secret instead.")
    tls_certificate: str = option("", FILE, "The certificate that this node shows to others, and its chain, PEM.")
    tls_key: str = option("", FILE, "Its private key, PEM; without it the key stands in `tls_certificate`.")
    tls_ca: str = option("", FILE, "Authorities that nodes' certificates must come from, PEM.")
    clients: str = option(
        FORWARD,
        TEXT,
        "What becomes of a client that comes to a node which does not lead: it is served by the leader over this "
        "node, told where the leader is, or refused.",
        choices=(FORWARD, REDIRECT, REJECT),
    )
    replica_timeout_ms: int = integer(
        1000, "ms", 100, 60_000, "How long a member may be silent or lag before the others go on without it."
    )
    auto_replace_s: int = integer(
        600, "s", 0, 10**8, "After how long a new node takes the place of one that is gone; 0: never by itself."
    )
    preferred_leader: str = option(
        "",
        NAME,
        "The node that leads whenever it has been in sync for `preferred_after_s`; the same at all nodes. Empty: "
        "whoever leads goes on.",
    )
    preferred_after_s: int = integer(
        30, "s", 1, 10**6, "For how long it must have kept up without a break before leadership goes to it."
    )
    link_octets_max: int = integer(
        64 * MIB, "octets", 64 * KIB, GIB, "What may wait to be sent to one node before the link is ended."
    )

    def quorum(self) -> int:
        """The number of members that must have a message before it is confirmed."""
        return self.min_in_sync or self.members // 2 + 1


def cluster_problems(options: ClusterOptions) -> list[Problem]:
    """All that is wrong with a section `cluster` whose single values are right."""
    if not options.name:
        if options == ClusterOptions():
            return []
        return [_problem("name", "missing; the other options of `cluster` need it")]
    wrong: list[Problem] = []
    if not options.listen:
        wrong.append(_problem("listen", "missing; give HOST:PORT where other nodes connect"))
    elif not options.advertise and split_address(options.listen)[0] in EVERYWHERE:
        text = f"missing; listen {options.listen!r} is every address of this machine, so say where others connect"
        wrong.append(_problem("advertise", text))
    if not options.etcd.endpoints:
        wrong.append(_problem("etcd.endpoints", "missing; give the members of etcd, each HOST:PORT"))
    quorum = options.quorum()
    if quorum > options.members:
        wrong.append(_problem("min_in_sync", f"{quorum} is more than members ({options.members})"))
    return wrong + _trust_problems(options) + _etcd_problems(options.etcd)


def _trust_problems(options: ClusterOptions) -> list[Problem]:
    """Nodes must be able to know each other: nobody else may join, or read what they send."""
    wrong: list[Problem] = []
    if options.secret and options.secret_file:
        wrong.append(_problem("secret_file", f"{options.secret_file!r} is there beside secret; give one of both"))
    has_secret = bool(options.secret or options.secret_file)
    if bool(options.tls_certificate) != bool(options.tls_ca):
        missing, given = ("tls_ca", "tls_certificate") if options.tls_certificate else ("tls_certificate", "tls_ca")
        wrong.append(_problem(missing, f"missing; {given} needs it, since both sides show a certificate"))
    elif options.tls_key and not options.tls_certificate:
        wrong.append(_problem("tls_certificate", "missing; tls_key needs it"))
    elif not has_secret and not options.tls_certificate:
        text = "missing; nodes know each other by a secret, or by tls_certificate and tls_ca"
        wrong.append(_problem("secret", text))
    return wrong


def _etcd_problems(etcd: EtcdOptions) -> list[Problem]:
    wrong: list[Problem] = []
    if etcd.password and etcd.password_file:
        text = f"{etcd.password_file!r} is there beside password; give one of both"
        wrong.append(_problem("etcd.password_file", text))
    has_password = bool(etcd.password or etcd.password_file)
    if has_password != bool(etcd.username):
        name, other = ("password", "username") if etcd.username else ("username", "password")
        wrong.append(_problem(f"etcd.{name}", f"missing; {other} needs it"))
    if etcd.key and not etcd.certificate:
        wrong.append(_problem("etcd.certificate", "missing; key needs it"))
    secure: set[bool] = set()
    for place, endpoint in enumerate(etcd.endpoints):
        try:
            secure.add(endpoint_of(endpoint, bool(etcd.ca or etcd.certificate))[0])
        except OptionError as error:
            wrong.append(_problem(f"etcd.endpoints[{place}]", str(error)))
    if len(secure) > 1:
        wrong.append(_problem("etcd.endpoints", f"{etcd.endpoints} are partly http and partly https"))
    elif secure == {False} and (etcd.ca or etcd.certificate):
        option_name = "ca" if etcd.ca else "certificate"
        wrong.append(_problem(f"etcd.{option_name}", "is for https, and the endpoints are http"))
    return wrong


def endpoint_of(text: str, secure: bool) -> tuple[bool, str, int]:
    """TLS or not, host and port of a member of etcd: `HOST:PORT`, or a URL.

    secure  TLS is spoken where the text does not say

    raises  OptionError: names the text
    """
    scheme, mark, rest = text.partition("://")
    if mark and scheme not in {"http", "https"}:
        raise OptionError(f"{text!r} must begin with http:// or https://, or be HOST:PORT")
    host, port = split_address(rest.removesuffix("/") if mark else text)
    if port == 0:
        raise OptionError(f"{text!r} has no port from 1")
    return (scheme == "https") if mark else secure, host, port


def _problem(path: str, text: str) -> Problem:
    return Problem(f"cluster.{path}", f"cluster.{path}: {text}")
