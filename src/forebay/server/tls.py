"""TLS as the options want it, and who a client's certificate says it is."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from typing import Any, Final

from forebay.core.errors import OptionError
from forebay.core.options import CN, NONE, OPTIONAL, REQUIRED, TLS_1_2, TLS_1_3, Options

VERSIONS: Final = {TLS_1_2: ssl.TLSVersion.TLSv1_2, TLS_1_3: ssl.TLSVersion.TLSv1_3}
CLIENTS: Final = {NONE: ssl.CERT_NONE, OPTIONAL: ssl.CERT_OPTIONAL, REQUIRED: ssl.CERT_REQUIRED}


def make_context(options: Options) -> ssl.SSLContext:
    """The context of every TLS listener.

    raises  OptionError: names the option and its value
    """
    if not options.tls_certificate:
        raise OptionError("tls_certificate: '' is no certificate, and a TLS listener needs one")
    if options.tls_client_auth != NONE and not options.tls_client_ca:
        raise OptionError(f"tls_client_auth: {options.tls_client_auth!r} needs tls_client_ca")
    if options.tls_identity == CN and options.tls_client_auth == NONE:
        raise OptionError(f"tls_identity: {CN!r} needs tls_client_auth {OPTIONAL} or {REQUIRED}")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = VERSIONS[options.tls_minimum_version]
    context.options |= ssl.OP_NO_RENEGOTIATION
    _load_certificate(context, options.tls_certificate, options.tls_key)
    if options.tls_client_ca:
        _check_readable("tls_client_ca", options.tls_client_ca)
        try:
            context.load_verify_locations(cafile=options.tls_client_ca)
        except ssl.SSLError as error:
            raise OptionError(f"tls_client_ca: {options.tls_client_ca!r} holds no certificate: {error}") from None
    context.verify_mode = CLIENTS[options.tls_client_auth]
    return context


def common_name(certificate: Mapping[str, Any] | None) -> str:
    """The common name in a verified certificate, as `getpeercert` gives it; empty unless there is just one."""
    if not certificate:
        return ""
    names = [value for part in certificate["subject"] for key, value in part if key == "commonName"]
    return str(names[0]) if len(names) == 1 else ""


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
