"""The section `cluster` of the options with its files read: what links, relay and register need."""

from __future__ import annotations

import socket
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from forebay.core.errors import OptionError
from forebay.core.option_cluster import NODE_MARK, ClusterOptions, EtcdOptions, endpoint_of
from forebay.core.options import Options
from forebay.core.units import US_PER_MS
from forebay.replica.settings import ReplicaSettings

SECRET_OCTETS_MIN: Final = 16
NODE_LENGTH_MAX: Final = 64


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """A node's place in its cluster.

    node          this node's name
    secret        empty where nodes know each other by certificates alone
    accepting     TLS of connections that come; None: no TLS
    connecting    TLS of those that are made
    certificate   that this node shows, DER; empty without TLS
    etcd          URLs of its members
    etcd_context  None: no TLS
    """

    options: ClusterOptions
    node: str
    secret: bytes
    accepting: ssl.SSLContext | None
    connecting: ssl.SSLContext | None
    certificate: bytes
    etcd: tuple[str, ...]
    etcd_context: ssl.SSLContext | None
    etcd_password: str

    @property
    def root(self) -> str:
        """Return the prefix of the cluster's keys in etcd."""
        return f"/{self.options.etcd.prefix}/{self.options.name}/"

    def address(self, listening: str) -> str:
        """Return the address at which other nodes are told to connect to this node."""
        return self.options.advertise.replace(NODE_MARK, self.node) or listening

    def client_address(self, listener: str, listening: str) -> str:
        """Return the address that clients are told for one of this node's listeners."""
        return getattr(self.options.advertise_clients, listener, "").replace(NODE_MARK, self.node) or listening


def make_settings(options: Options) -> ClusterSettings:
    """Make the settings of a cluster node from the options. Raises OptionError, which names the key and its value."""
    cluster = options.cluster
    assert cluster.name
    etcd = cluster.etcd
    secure = bool(etcd.ca or etcd.certificate)
    places = [endpoint_of(each, secure) for each in etcd.endpoints]
    is_tls = any(each[0] for each in places)
    secret = cluster.secret or first_line("cluster.secret_file", cluster.secret_file)
    if secret and len(secret.encode()) < SECRET_OCTETS_MIN:
        name = "secret" if cluster.secret else "secret_file"
        raise OptionError(f"cluster.{name}: the secret is shorter than {SECRET_OCTETS_MIN} octets")
    return ClusterSettings(
        options=cluster,
        node=node_name(cluster),
        secret=secret.encode(),
        accepting=node_context(cluster, ssl.PROTOCOL_TLS_SERVER),
        connecting=node_context(cluster, ssl.PROTOCOL_TLS_CLIENT),
        certificate=first_certificate(cluster.tls_certificate) if cluster.tls_certificate else b"",
        etcd=tuple(f"{'https' if tls else 'http'}://{bracketed(host)}:{port}" for tls, host, port in places),
        etcd_context=etcd_tls(etcd) if is_tls else None,
        etcd_password=etcd.password or first_line("cluster.etcd.password_file", etcd.password_file),
    )


def node_name(cluster: ClusterOptions) -> str:
    """Return the name of this node. Raises OptionError if none is set and the host's name cannot be one."""
    if cluster.node:
        return cluster.node
    name = socket.gethostname()
    if not name or len(name) > NODE_LENGTH_MAX or not all(each.isalnum() or each in "-_." for each in name):
        raise OptionError(f"cluster.node: missing, and this host's name {name!r} cannot be a node's")
    return name


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def first_line(option: str, path: str) -> str:
    """Return the first line of a file; empty if `path` is. Raises OptionError if the file has no such line."""
    if not path:
        return ""
    try:
        with open(path, encoding="utf-8") as file:
            line = file.readline().rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{option}: {path!r} cannot be read: {error}") from None
    if not line:
        raise OptionError(f"{option}: the first line of {path!r} is empty")
    return line


def node_context(cluster: ClusterOptions, side: int) -> ssl.SSLContext | None:
    """Make the TLS context for links between nodes. Both show a certificate, whose names the handshake checks."""
    if not cluster.tls_certificate:
        return None
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_REQUIRED
    load_own(context, "cluster.tls_certificate", cluster.tls_certificate, "cluster.tls_key", cluster.tls_key)
    load_trusted(context, "cluster.tls_ca", cluster.tls_ca)
    return context


def first_certificate(path: str) -> bytes:
    """Return the first certificate of a PEM file, which is shown to others, as DER. The file has been read before."""
    text = Path(path).read_text(encoding="ascii", errors="replace")
    begin = text.index(ssl.PEM_HEADER)
    return ssl.PEM_cert_to_DER_cert(text[begin : text.index(ssl.PEM_FOOTER, begin) + len(ssl.PEM_FOOTER)])


def etcd_tls(etcd: EtcdOptions) -> ssl.SSLContext:
    """Make the TLS context for etcd. The system's authorities vouch for etcd if no others are named."""
    context = ssl.create_default_context()
    if etcd.ca:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        load_trusted(context, "cluster.etcd.ca", etcd.ca)
    if etcd.certificate:
        load_own(context, "cluster.etcd.certificate", etcd.certificate, "cluster.etcd.key", etcd.key)
    return context


def load_trusted(context: ssl.SSLContext, option: str, path: str) -> None:
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise OptionError(f"{option}: {path!r} holds no certificate: {error}") from None
    except OSError as error:
        raise OptionError(f"{option}: {path!r} cannot be read: {error.strerror}") from None


def load_own(context: ssl.SSLContext, option: str, certificate: str, key_option: str, key: str) -> None:
    for name, path in ((option, certificate), (key_option, key)):
        try:
            if path:
                with open(path, "rb"):
                    pass
        except OSError as error:
            raise OptionError(f"{name}: {path!r} cannot be read: {error.strerror}") from None
    try:
        # Without a password OpenSSL would ask for that of an encrypted key on the terminal.
        context.load_cert_chain(certificate, key or None, password="")
    except ssl.SSLError as error:
        what = f"{key!r} is not the key of {certificate!r}" if key else f"{certificate!r} holds no certificate and key"
        raise OptionError(f"{key_option if key else option}: {what}: {error}") from None


def replica_settings(settings: ClusterSettings) -> ReplicaSettings:
    """Return the replica's settings, such as its timeouts, as the options ask for them."""
    found = ReplicaSettings()
    timeout = settings.options.replica_timeout_ms * US_PER_MS
    found.silence_us = timeout
    found.lease_us = timeout * 9 // 10
    found.put_out_us = timeout * 6 // 10
    found.lag_us = timeout
    found.heartbeat_us = timeout // 5
    found.members_max = settings.options.members
    found.min_in_sync = settings.options.quorum()
    found.replace_us = settings.options.auto_replace_s * 1000 * US_PER_MS
    found.preferred = settings.options.preferred_leader
    found.preferred_us = settings.options.preferred_after_s * 1000 * US_PER_MS
    found.is_async = settings.options.mode == "async"
    return found
