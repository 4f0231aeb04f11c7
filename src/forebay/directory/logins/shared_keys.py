"""Shared access signatures, by which clients of Azure Service Bus prove who they are.

    SharedAccessSignature sr=<resource>&sig=<signature>&se=<expiry>&skn=<key name>

The resource is the percent-encoded URI of what the token gives access to, the expiry a number of seconds since 1970.
The signature is the base64 of the HMAC-SHA256, by the key of that name, over the resource as it stands in the token, a
line feed and the expiry. The name of a key is that of the user whose rights the bearer has.
"""

from __future__ import annotations

import base64
import binascii
import hmac
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote, unquote_plus, urlsplit

from forebay.core.units import US_PER_S
from forebay.directory.logins.authorizer import Principal
from forebay.directory.logins.login import Auth, LoginContext, LoginRefused, shown

SCHEME: Final = "SharedAccessSignature "
FIELDS: Final = ("sr", "sig", "se", "skn")
TOKEN_CHARACTERS_MAX: Final = 4096
EXPIRY_DIGITS_MAX: Final = 11
NO_KEY: Final = b"no key"  # compared with for an unknown name, so that time does not tell that it is one


class SharedAccess:
    """The proof that a shared access signature has given.

    principal  user of the key's name; it is that until the signature expires
    path       of the resource, without slashes at both ends; "" for everything
    """

    def __init__(self, principal: Principal, path: str) -> None:
        self.principal = principal
        self.path = path


def is_signature(token: str) -> bool:
    """Return whether a token is a shared access signature; clients do not always name its type."""
    return token.startswith(SCHEME)


def admit_signature(auth: Auth, context: LoginContext, token: str) -> SharedAccess:
    """Return what the shared access signature of a connection proves; LoginRefused if it proves nothing.

    A user who guesses too often has to wait, as with a password.
    """
    fields = split_token(token)
    user = unquote_plus(fields["skn"])
    context.user = user
    auth.check_wait(context, user)
    path, until_us = verify_signature(auth.shared_keys, fields, user, auth.throttle.now_us)
    if not auth.knows(user):
        raise LoginRefused(f"user '{shown(user)}' does not exist, whose shared access key there is", user)
    principal = auth.admit(user, context.loopback)
    principal.until_us = until_us
    return SharedAccess(principal, path)


def verify_signature(keys: Mapping[str, str], fields: Mapping[str, str], user: str, now_us: int) -> tuple[str, int]:
    """Return the path of the resource and the end, in microseconds, of a shared access signature; LoginRefused.

    keys    by the names of users
    fields  of the token, as they are encoded
    """
    expiry = fields["se"]
    if not expiry.isdecimal() or not expiry.isascii() or len(expiry) > EXPIRY_DIGITS_MAX:
        raise LoginRefused("shared access signature: its expiry is no number of seconds", user)
    try:
        signature = base64.b64decode(unquote(fields["sig"]).encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise LoginRefused("shared access signature: it is no base64", user) from None
    key = keys.get(user)
    signed = f"{fields['sr']}\n{expiry}".encode("utf-8", "surrogatepass")
    right = hmac.digest(NO_KEY if key is None else key.encode(), signed, "sha256")
    if not hmac.compare_digest(right, signature) or key is None:
        raise LoginRefused(f"wrong shared access signature for key '{shown(user)}'", user)
    until_us = int(expiry) * US_PER_S
    if until_us <= now_us:
        raise LoginRefused(f"the shared access signature of key '{shown(user)}' has expired", user)
    return resource_path(unquote_plus(fields["sr"])), until_us


def split_token(token: str) -> dict[str, str]:
    """Return the fields of a shared access signature, as they are encoded."""
    if not is_signature(token) or len(token) > TOKEN_CHARACTERS_MAX:
        raise LoginRefused("the token is no shared access signature")
    fields: dict[str, str] = {}
    for part in token[len(SCHEME) :].split("&"):
        name, equals, value = part.partition("=")
        if not equals or name not in FIELDS or name in fields:
            raise LoginRefused(f"shared access signature: field '{shown(name)}' is not expected")
        fields[name] = value
    for name in FIELDS:
        if not fields.get(name):
            raise LoginRefused(f"shared access signature: field '{name}' is missing")
    return fields


def resource_path(resource: str) -> str:
    """Return the path of a resource's URI; LoginRefused if it is none."""
    try:
        parts = urlsplit(resource)
    except ValueError:
        parts = urlsplit("")
    if not parts.scheme or not parts.netloc or parts.query or parts.fragment:
        raise LoginRefused(f"shared access signature: resource '{shown(resource)}' is no URI of an entity")
    return parts.path.strip("/")
