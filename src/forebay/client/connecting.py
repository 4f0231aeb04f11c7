"""Connecting to a broker: which of its addresses answers, and TLS."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

from forebay.core.errors import ForebayError, OptionError
from forebay.core.option_table import split_address


class Unreachable(ForebayError):
    """No broker answers at any of the addresses given."""


@dataclass(frozen=True, slots=True)
class Tls:
    """How a client speaks TLS.

    ca_file      authorities that may have signed the broker's certificate, in PEM; empty: those of the system
    certificate  the client's own, in PEM; empty: it shows none
    key          of `certificate`; empty: it is in the same file
    """

    ca_file: str = ""
    certificate: str = ""
    key: str = ""

    def context(self) -> ssl.SSLContext:
        """What sockets are wrapped by; OptionError names the file that cannot be used."""
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


class Failures:
    """What was wrong with each of the addresses that did not answer."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def add(self, text: str) -> None:
        self.texts.append(text)

    def error(self) -> Unreachable:
        return Unreachable(f"no broker answers: {'; '.join(self.texts)}")


def sockets(servers: str, timeout_s: float, tls: Tls | None, failures: Failures) -> Iterator[tuple[str, socket.socket]]:
    """Each address of a list `host:port,host:port` that takes a connection, with that connection.

    timeout_s  how long connecting may take, and TLS
    failures   takes in what was wrong with the others
    """
    context = None if tls is None else tls.context()
    for each in servers.split(","):
        server = each.strip()
        host, port = split_address(server)
        try:
            connection = socket.create_connection((host, port), timeout_s)
        except OSError as error:
            failures.add(f"{server}: {error}")
            continue
        if context is not None:
            try:
                connection = context.wrap_socket(connection, server_hostname=host)
            except OSError as error:  # an SSLError is one
                connection.close()
                failures.add(f"{server}: TLS: {error}")
                continue
        yield server, connection
