"""Connects to the first address of a broker that answers, with or without TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from forebay.core.errors import OptionError, OutcomeUnknown, PeerError, Unreachable
from forebay.core.option_table import split_address

Client = TypeVar("Client")


@dataclass(frozen=True, slots=True)
class ClientTls:
    """The TLS settings of a client.

    ca_file      authorities that may have signed the broker's certificate, in PEM; empty: those of the system
    certificate  the client's own certificate, in PEM; empty: none
    key          private key of `certificate`; empty: it is in the same file
    """

    ca_file: str = ""
    certificate: str = ""
    key: str = ""

    def context(self) -> ssl.SSLContext:
        """Return the TLS context for sockets. Raises OptionError naming a file that cannot be used."""
        try:
            context = ssl.create_default_context(cafile=self.ca_file or None)
        except (OSError, ssl.SSLError) as error:
            raise OptionError(f"--ca-file: {self.ca_file!r} holds no certificate: {error}") from None
        if self.certificate:
            try:
                context.load_cert_chain(self.certificate, self.key or None)
            except (OSError, ssl.SSLError) as error:
                raise OptionError(f"--certificate: {self.certificate!r} cannot be used: {error}") from None
        elif self.key:
            raise OptionError(f"--certificate-key: {self.key!r} is of no use without --certificate")
        return context


def connect_any(
    servers: str, timeout_s: float, tls: ClientTls | None, begin: Callable[[socket.socket, str], Client]
) -> Client:
    """Connect to the first server of a list `host:port,host:port` that answers, and return the result of `begin`.

    timeout_s  limit for connecting, and for the TLS handshake
    begin      logs in, given the connection and its server; if it raises OutcomeUnknown or PeerError, the next
               server is tried
    raises     Unreachable, naming every server and its error; any other error of `begin`
    """
    failures: list[str] = []
    context = None if tls is None else tls.context()
    for each in servers.split(","):
        server = each.strip()
        host, port = split_address(server)
        try:
            connection = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            failures.append(f"{server}: {error.strerror or error}")
            continue
        if context is not None:
            try:
                connection = context.wrap_socket(connection, server_hostname=host)
            except OSError as error:  # an SSLError is one
                connection.close()
                failures.append(f"{server}: TLS: {error}")
                continue
        try:
            return begin(connection, server)
        except (OutcomeUnknown, PeerError) as error:
            connection.close()
            failures.append(str(error))
        except BaseException:
            connection.close()
            raise
    raise Unreachable(f"no broker answers: {'; '.join(failures)}")
