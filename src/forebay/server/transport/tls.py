"""TLS as the options want it, and how it is changed while the broker runs."""

from __future__ import annotations

import logging
import os
import ssl
from datetime import UTC, datetime
from typing import Final

from forebay.core.errors import OptionError
from forebay.core.option_names import NONE, OPTIONAL, REQUIRED, TLS_1_2, TLS_1_3
from forebay.core.options import Options

VERSIONS: Final = {TLS_1_2: ssl.TLSVersion.TLSv1_2, TLS_1_3: ssl.TLSVersion.TLSv1_3}
CLIENTS: Final = {NONE: ssl.CERT_NONE, OPTIONAL: ssl.CERT_OPTIONAL, REQUIRED: ssl.CERT_REQUIRED}
logger = logging.getLogger("forebay")


class TlsContexts:
    """The context of every TLS listener: one for all, and another in its place when the files have changed.

    Connections that are open keep theirs. The files are read by `load`, and not before a listener needs them.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self._context: ssl.SSLContext | None = None
        self._seen: list[tuple[int, int, int]] = []

    @property
    def context(self) -> ssl.SSLContext:
        """Return the context of the next handshake. Raises OptionError as `make_context` does."""
        if self._context is None:
            self.load(self.options)
        assert self._context is not None
        return self._context

    def load(self, options: Options) -> None:
        """Read the files. Raises OptionError, and keeps the previous context then."""
        seen = states_of(options)
        self._context = make_context(options)
        self.options = options
        self._seen = seen

    def reload(self, options: Options | None = None) -> bool:
        """Read the files again if TLS is in use; return whether it is.

        Raises OptionError, and keeps the previous context then.
        """
        if self._context is None:
            return False
        self.load(options or self.options)
        logger.info("TLS: certificate %s is in use, until %s", self.options.tls_certificate, self.expiry())
        return True

    def in_use(self) -> bool:
        """Return whether a listener uses these TLS contexts."""
        return self._context is not None

    def look_at(self, second: int, every_s: int) -> None:
        """Check the files for changes every `every_s` seconds, or never if that is 0."""
        if every_s and second % every_s == 0:
            self.look()

    def look(self) -> None:
        """Read the files again if they have changed. Their errors are logged once."""
        if self._context is None:
            return
        seen = states_of(self.options)
        if seen == self._seen:
            return
        try:
            self.reload()
        except OptionError as error:
            self._seen = seen
            logger.error("TLS: the files have changed, and the old ones stay in use: %s", error)

    def expiry(self) -> datetime | None:
        """Return when the broker's certificate expires; None if TLS is not in use."""
        if self._context is None:
            return None
        return expiry_of(self.options.tls_certificate)


def states_of(options: Options) -> list[tuple[int, int, int]]:
    """Return the time, inode and size of each TLS file, which also change with a symlink or a replaced file."""
    states: list[tuple[int, int, int]] = []
    for path in (options.tls_certificate, options.tls_key, options.tls_client_ca, options.tls_client_crl):
        try:
            state = os.stat(path) if path else None
        except OSError:
            state = None
        states.append((0, 0, 0) if state is None else (state.st_mtime_ns, state.st_ino, state.st_size))
    return states


def expiry_of(path: str) -> datetime:
    """Return when the first certificate in a PEM file expires."""
    from cryptography import x509  # noqa: PLC0415  takes long, and few brokers need it

    with open(path, "rb") as file:
        return x509.load_pem_x509_certificates(file.read())[0].not_valid_after_utc.astimezone(UTC)


def make_context(options: Options) -> ssl.SSLContext:
    """Make a TLS context from the options.

    raises  OptionError: names the option and its value
    """
    if not options.tls_certificate:
        raise OptionError("tls_certificate: '' is no certificate, and a TLS listener needs one")
    if options.tls_client_auth != NONE and not options.tls_client_ca:
        raise OptionError(f"tls_client_auth: {options.tls_client_auth!r} needs tls_client_ca")
    if options.tls_identity != NONE and options.tls_client_auth == NONE:
        raise OptionError(f"tls_identity: {options.tls_identity!r} needs tls_client_auth {OPTIONAL} or {REQUIRED}")
    if options.tls_client_crl and options.tls_client_auth == NONE:
        raise OptionError(f"tls_client_crl: {options.tls_client_crl!r} needs tls_client_auth {OPTIONAL} or {REQUIRED}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[options.tls_minimum_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_certificate(context, options.tls_certificate, options.tls_key)
    if options.tls_client_ca:
        _load_trusted(context, "tls_client_ca", options.tls_client_ca, "certificate")
    if options.tls_client_crl:
        _load_trusted(context, "tls_client_crl", options.tls_client_crl, "revocation list")
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    context.verify_mode = CLIENTS[options.tls_client_auth]
    return context


def _load_trusted(context: ssl.SSLContext, option: str, path: str, what: str) -> None:
    _check_readable(option, path)
    try:
        context.load_verify_locations(cafile=path)
    except ssl.SSLError as error:
        raise OptionError(f"{option}: {path!r} holds no {what}: {error}") from None


def _load_certificate(context: ssl.SSLContext, certificate: str, key: str) -> None:
    _check_readable("tls_certificate", certificate)
    if key:
        _check_readable("tls_key", key)
    try:
        # Without the callback OpenSSL would ask for the password of an encrypted key on the terminal.
        context.load_cert_chain(certificate, key or None, password=_no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise OptionError(f"tls_key: {key or certificate!r} is not the key of {certificate!r}") from None
        if _holds_certificate(certificate):
            raise OptionError(f"tls_key: {key or certificate!r} holds no key without a password: {error}") from None
        raise OptionError(f"tls_certificate: {certificate!r} holds no certificate: {error}") from None
    if expiry_of(certificate) <= datetime.now(UTC):
        raise OptionError(f"tls_certificate: {certificate!r} was good until {expiry_of(certificate)}")


def _no_password() -> str:
    return ""


def _holds_certificate(path: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=path)
    except ssl.SSLError:
        return False
    return True


def _check_readable(option: str, path: str) -> None:
    try:
        with open(path, "rb"):
            pass
    except OSError as error:
        raise OptionError(f"{option}: {path!r} cannot be read: {error.strerror}") from None
