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
    SECRET,
    SERVER,
    TABLE,
    TEXT,
    VALUE,
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
        [], NAMES, "Members of etcd, each `HOST:PORT` or a URL. The broker skips one that does not answer."
    )
    prefix: str = option("forebay", NAME, "Prefix of the keys: `/<prefix>/<name of the cluster>/`.")
    ca: str = option(
        "",
        FILE,
        "Authorities that sign etcd's certificate, PEM. With it, or with `https://` endpoints, the broker speaks TLS.",
    )
    certificate: str = option("", FILE, "Certificate that this node shows to etcd, PEM.")
    key: str = option("", FILE, "Its private key, PEM. Empty: the key is in `certificate`.")
    username: str = option("", VALUE, "User name, if etcd asks for one.")
    password: str = option("", SECRET, "The user's password.")
    password_file: str = option("", FILE, "A file whose first line is the password, instead of `password`.")
    timeout_ms: int = integer(1000, "ms", 10, 60_000, "Time for one request.")
    presence_s: int = integer(10, "s", 2, 3600, "Time for which a node that died still counts as present.")


@dataclass(frozen=True, slots=True)
class AdvertiseOptions:
    """The addresses of this node's listeners as clients see them, for a node that sends its clients here."""

    amqp: str = option("", SERVER, "Instead of the broker's `amqp`.")
    amqps: str = option("", SERVER, "Instead of the broker's `amqps`.")
    mqtt: str = option("", SERVER, "Instead of the broker's `mqtt`.")
    mqtts: str = option("", SERVER, "Instead of the broker's `mqtts`.")
    mqtt_websocket: str = option("", SERVER, "Instead of the broker's `mqtt_websocket`.")
    mqtt_websocket_tls: str = option("", SERVER, "Instead of the broker's `mqtt_websocket_tls`.")
    http: str = option("", SERVER, "Instead of the broker's `http`.")
    https: str = option("", SERVER, "Instead of the broker's `https`.")


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The cluster that a broker is a node of."""

    name: str = option("", NAME, "The cluster's name; empty: the broker stands alone.")
    node: str = option("", NAME, "This node's name, unique in the cluster. Empty: the host name.")
    listen: str = option("", ADDRESS, "Listener for the other nodes.")
    advertise: str = option(
        "",
        SERVER,
        "Address that other nodes connect to; `{node}` stands for the node's name. Empty: `listen`.",
    )
    advertise_clients: AdvertiseOptions = option(
        AdvertiseOptions(),
        TABLE,
        "Addresses of this node that clients are told; `{node}` stands for the node's name.",
        inner=AdvertiseOptions,
    )
    etcd: EtcdOptions = option(EtcdOptions(), TABLE, "The etcd that keeps who leads.", inner=EtcdOptions)
    members: int = integer(3, "members", 1, 7, "Nodes that keep the data.")
    min_in_sync: int = integer(
        0, "members", 0, 7, "Members that must have a message before it is confirmed; 0: more than half of `members`."
    )
    mode: str = option(
        SYNC,
        TEXT,
        "A message is confirmed once every member in sync has it on disk (`sync`), or once the leader has it "
        "(`async`); `async` can lose confirmed messages with the leader.",
        choices=(SYNC, ASYNC),
    )
    secret: str = option("", SECRET, "Secret by which nodes know each other, at least 16 octets.")
    secret_file: str = option("", FILE, "A file whose first line is the secret, instead of `secret`.")
    tls_certificate: str = option("", FILE, "Certificate that this node shows to other nodes, with its chain, PEM.")
    tls_key: str = option("", FILE, "Its private key, PEM. Empty: the key is in `tls_certificate`.")
    tls_ca: str = option("", FILE, "Authorities that sign nodes' certificates, PEM.")
    clients: str = option(
        FORWARD,
        TEXT,
        "A client at a node that does not lead is served through it by the leader (`forward`), told the "
        "leader's address (`redirect`), or refused (`reject`).",
        choices=(FORWARD, REDIRECT, REJECT),
    )
    replica_timeout_ms: int = integer(
        1000, "ms", 100, 60_000, "Time for which a member may be silent or lag before the others go on without it."
    )
    auto_replace_s: int = integer(
        600, "s", 0, 10**8, "Time after which a new node takes the place of one that is gone; 0 never replaces one."
    )
    preferred_leader: str = option(
        "",
        NAME,
        "Node that leads whenever it has been in sync for `preferred_after_s`; the same at all nodes. Empty: "
        "none is preferred.",
    )
    preferred_after_s: int = integer(
        30, "s", 1, 10**6, "Time for which the preferred leader must have kept up before leadership goes to it."
    )
    link_octets_max: int = integer(
        64 * MIB, "octets", 64 * KIB, GIB, "Octets that may wait for one node before the link to it is ended."
    )

    def quorum(self) -> int:
        """Return the number of members that must have a message before it is confirmed."""
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
