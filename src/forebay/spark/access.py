"""Connection settings and credentials of the Spark source, sink and jobs.

A secret that stands in a file or in the environment is read where it is needed, on the driver and on each executor:
Spark sends tasks only the file's path or the variable's name. A secret given as an option is sent with the task.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from forebay.core.errors import OptionError
from forebay.core.option_table import split_address

if TYPE_CHECKING:
    from forebay.client.blocks import BlockClient
    from forebay.client.connecting import ClientTls

SERVERS: Final = "forebay.servers"
USER: Final = "forebay.user"
PASSWORD: Final = "forebay.password"
PASSWORD_FILE: Final = "forebay.passwordFile"
PASSWORD_ENV: Final = "forebay.passwordEnv"
VHOST: Final = "forebay.vhost"
DATA: Final = "forebay.data"
TLS: Final = "forebay.tls"
TLS_CA: Final = "forebay.tlsCaFile"
TLS_CERTIFICATE: Final = "forebay.tlsCertificate"
TLS_KEY: Final = "forebay.tlsKey"
# The options that select the broker and the user; source, sink and jobs share them.
BROKER_OPTIONS: Final = (
    SERVERS,
    USER,
    PASSWORD,
    PASSWORD_FILE,
    PASSWORD_ENV,
    VHOST,
    TLS,
    TLS_CA,
    TLS_CERTIFICATE,
    TLS_KEY,
)
READ_FROM: Final = "readFrom"
FLAGS: Final = {"--ca-file": TLS_CA, "--certificate-key": TLS_KEY, "--certificate": TLS_CERTIFICATE}

Client = TypeVar("Client", bound="BlockClient")


@dataclass(frozen=True, slots=True)
class Access:
    """The broker or data directory that holds the queues, and the user who connects to it.

    servers  the broker's addresses; empty if `data` is given
    data     the data directory of a broker; empty if `servers` is given
    password_file, password_env  where the password is read from; if both are empty, `password` is the password
    from_followers  whether to read records from a cluster's followers that have them
    tls      whether to use TLS; the files named by `tls_*` are on the machine that connects
    retry_s  how long to retry after a connection is lost, in seconds
    """

    servers: str = ""
    user: str = "guest"
    password: str = field(default="guest", repr=False)
    vhost: str = "/"
    data: str = ""
    retry_s: float = 30.0
    password_file: str = ""
    password_env: str = ""
    tls: bool = False
    tls_ca: str = ""
    tls_certificate: str = ""
    tls_key: str = ""
    from_followers: bool = True

    def secret(self) -> str:
        """Return the password, read on this machine if it is in a file or in the environment.

        Raises OptionError if the file cannot be read or the variable is not set.
        """
        if self.password_file:
            try:
                return Path(self.password_file).read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, ValueError) as error:
                raise OptionError(f"{PASSWORD_FILE}: {self.password_file!r} cannot be read here: {error}") from None
        if self.password_env:
            if self.password_env not in os.environ:
                raise OptionError(
                    f"{PASSWORD_ENV}: {self.password_env!r} is not in the environment of this process; for executors "
                    f"that is spark.executorEnv.{self.password_env}"
                )
            return os.environ[self.password_env]
        return self.password

    def client_tls(self) -> ClientTls | None:
        """Return the TLS settings of a client, or None if TLS is off."""
        from forebay.client.connecting import ClientTls

        return ClientTls(self.tls_ca, self.tls_certificate, self.tls_key) if self.tls else None

    def connect(self, kind: type[Client], timeout_s: float, vhost: bool = True) -> Client:
        """Connect to the broker, log in, and return the new client.

        vhost  whether to enter the vhost; clients for administration do not
        raises  Unreachable; RequestError if the login is refused; OptionError if a TLS file cannot be used
        """
        entered = self.vhost if vhost else None
        try:
            return kind.connect(self.servers, self.user, self.secret(), timeout_s, vhost=entered, tls=self.client_tls())
        except OptionError as error:
            flag, _, text = str(error).partition(": ")
            raise OptionError(f"{FLAGS.get(flag, flag)}: {text}") from None


def parse_access(values: Mapping[str, str], data: str, retry_s: float) -> Access:
    """Return the broker or data directory that the options select.

    values  options under their proper names
    data    the data directory; empty for a broker
    raises  OptionError if an option is malformed or does not go with another
    """
    servers = values.get(SERVERS, "").strip()
    for server in servers.split(",") if servers else []:
        try:
            split_address(server.strip())
        except OptionError as error:
            raise OptionError(f"{SERVERS}: {error}") from None
    if data:
        for name in (PASSWORD_FILE, PASSWORD_ENV, VHOST, TLS, TLS_CA, TLS_CERTIFICATE, TLS_KEY):
            if name in values:
                raise OptionError(f"{name}: {values[name]!r}: not with {DATA}, whose queues are of one directory")
    given = [name for name in (PASSWORD, PASSWORD_FILE, PASSWORD_ENV) if name in values]
    if len(given) > 1:
        raise OptionError(f"{given[1]}: not beside {given[0]}: give one of {', '.join(given)}")
    plain = Access()
    return Access(
        servers=servers,
        user=values.get(USER, plain.user),
        password="" if PASSWORD_FILE in values or PASSWORD_ENV in values else values.get(PASSWORD, plain.password),
        vhost=values.get(VHOST, plain.vhost),
        data=data,
        retry_s=retry_s,
        password_file=_present(values, PASSWORD_FILE),
        password_env=_present(values, PASSWORD_ENV),
        tls=_tls(values),
        tls_ca=_present(values, TLS_CA),
        tls_certificate=_present(values, TLS_CERTIFICATE),
        tls_key=_present(values, TLS_KEY),
    )


def _present(values: Mapping[str, str], option: str) -> str:
    if option in values and not values[option]:
        raise OptionError(f"{option}: '' names nothing")
    return values.get(option, "")


def _tls(values: Mapping[str, str]) -> bool:
    """Return whether to use TLS; options that name a TLS file imply it."""
    files = [name for name in (TLS_CA, TLS_CERTIFICATE, TLS_KEY) if name in values]
    said = values.get(TLS, "true" if files else "false").strip().lower()
    if said not in {"true", "false"}:
        raise OptionError(f"{TLS}: {values[TLS]!r} is neither true nor false")
    if said == "false" and files:
        raise OptionError(f"{files[0]}: not with {TLS} false")
    if TLS_KEY in values and TLS_CERTIFICATE not in values:
        raise OptionError(f"{TLS_KEY}: of no use without {TLS_CERTIFICATE}")
    return said == "true"
