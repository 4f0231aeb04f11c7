"""Logins by tokens of OAuth 2 (RFC 9068): signed by somebody whom the options name, good for a while.

The keys of the issuer are fetched when the first token comes, and again when one is signed by a key that is not known
or when they are old. All of this runs in a thread of logins, one login for itself.
"""

from __future__ import annotations

import json
import logging
import threading
import time
import warnings
from typing import Any, Final

from joserfc import jws
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import Key, KeySet, OctKey

from forebay.core.errors import OptionError
from forebay.core.options import Options
from forebay.core.reading.json_text import read_json
from forebay.core.units import US_PER_S
from forebay.directory.logins.authorizer import Principal
from forebay.directory.logins.login import Backend, LoginContext, LoginRefused, shown
from forebay.directory.logins.scopes import ScopeAuthorizer, parse_scopes
from forebay.server.auth.fetch import fetch, make_client

DISCOVERY: Final = "/.well-known/openid-configuration"
ANSWER_OCTETS_MAX: Final = 1 << 20
TOKEN_CHARACTERS_MAX: Final = 65_536
FETCH_S: Final = 5.0
REFETCH_S: Final = 10.0  # at least, between two attempts because of a key that is not known
KEYS_S: Final = 300.0  # age at which the keys are fetched again
EPOCH_S_MAX: Final = 1 << 40
logger = logging.getLogger("forebay")


class Keys:
    """The keys that may sign tokens.

    raises  OptionError: a file or a key cannot be used
    """

    def __init__(self, options: Options) -> None:
        self.url = options.oauth_jwks_url
        self.issuer = options.oauth_issuer
        self.client = make_client(options.oauth_ca, FETCH_S)
        self.lock = threading.Lock()  # logins run in several threads, and one fetches for all
        self.keys: list[Key] = []
        self.fetched_s = float("-inf")
        self.tried_s = float("-inf")
        self.is_fetched = False
        if options.oauth_key:
            self.keys = [OctKey.import_key(options.oauth_key)]
        elif options.oauth_jwks_file:
            try:
                with open(options.oauth_jwks_file, "rb") as file:
                    self.keys = keys_in(file.read())
            except (OSError, ValueError, JoseError) as error:
                raise OptionError(f"oauth_jwks_file: {options.oauth_jwks_file!r} holds no keys: {error}") from None
        elif self.url or self.issuer:
            self.is_fetched = True
        else:
            raise OptionError("auth_backends: oauth needs oauth_jwks_url, oauth_jwks_file, oauth_key or oauth_issuer")

    def candidates(self, id: object) -> list[Key]:
        """Return the keys that may have signed a token which names the key `id`; all keys if it names none."""
        found = self.known(id)
        if not self.is_fetched:
            return found
        with self.lock:
            now_s = time.monotonic()
            is_due = now_s - self.fetched_s > KEYS_S or not self.known(id)
            if is_due and now_s - self.tried_s > (REFETCH_S if self.keys else 1.0):
                self.tried_s = now_s
                self.fetch()
            return self.known(id)

    def known(self, id: object) -> list[Key]:
        if id is None:
            return self.keys
        return [key for key in self.keys if key.kid == id] or [key for key in self.keys if key.kid is None]

    def fetch(self) -> None:
        """Fetch the keys of the issuer. If that fails, the previous keys stay valid."""
        try:
            url = self.url
            if not url:
                found = json.loads(self.get(self.issuer.rstrip("/") + DISCOVERY))
                url = str(found["jwks_uri"])
                if not url.startswith(("https://", "http://")):
                    raise ValueError(f"jwks_uri {url!r} is no address")
            self.keys = keys_in(self.get(url))
            self.fetched_s = time.monotonic()
        except (OSError, ValueError, KeyError, TypeError, JoseError) as error:
            logger.error("the keys for tokens cannot be had from %s: %s", self.url or self.issuer, error)

    def get(self, url: str) -> bytes:
        octets = fetch(self.client, "GET", url, octets_max=ANSWER_OCTETS_MAX)
        if len(octets) > ANSWER_OCTETS_MAX:
            raise ValueError(f"{url} answers more than {ANSWER_OCTETS_MAX} octets")
        return octets


class OAuth(Backend):
    """A login backend for OAuth 2 tokens.

    raises  OptionError: what it needs is missing, or cannot be used
    """

    is_for_tokens = True

    def __init__(self, options: Options) -> None:
        self.options = options
        self.keys = Keys(options)
        warnings.simplefilter("ignore", SecurityWarning)  # EdDSA has a newer name, which few issuers use
        self.prefix = options.oauth_scope_prefix or f"{options.oauth_audience}."
        if not options.oauth_audience:
            raise OptionError("oauth_audience: '' is nobody; tokens must say that they are for this broker")

    def takes(self, password: str, place: LoginContext) -> bool:
        return password.startswith("ey") and password.count(".") == 2

    def prove(self, user: str, password: str, place: LoginContext) -> Principal:
        if len(password) > TOKEN_CHARACTERS_MAX:
            raise LoginRefused(f"a token of more than {TOKEN_CHARACTERS_MAX} characters")
        claims = self.verified(password)
        self.check_times(claims)
        audience = claims.get("aud")
        if self.options.oauth_audience not in (audience if isinstance(audience, list) else [audience]):
            raise LoginRefused(f"token for {shown(str(audience))}, not for {self.options.oauth_audience}")
        if self.options.oauth_issuer and claims.get("iss") != self.options.oauth_issuer:
            raise LoginRefused(f"token of the issuer {shown(str(claims.get('iss')))}")
        scopes, tags = parse_scopes(self.words(claims), self.prefix)
        until_us = int(claims["exp"]) * US_PER_S
        return Principal(self.user_in(claims), ScopeAuthorizer(scopes), tags, until_us, known_until_us=until_us)

    def verified(self, token: str) -> dict[str, Any]:
        """Return the claims of a token after a check of its signature. Raises LoginRefused."""
        algorithms = self.options.oauth_algorithms
        try:
            unverified = jws.extract_compact(token.encode("ascii"))
            header = unverified.headers()
            if header.get("alg") not in algorithms:
                raise LoginRefused(f"token signed by {shown(str(header.get('alg')))}, which oauth_algorithms lacks")
            for key in self.keys.candidates(header.get("kid")):
                try:
                    signed = jws.deserialize_compact(token, key, algorithms=algorithms)
                except JoseError:
                    continue
                claims = read_json(signed.payload)
                if isinstance(claims, dict):
                    return claims
        except (JoseError, ValueError, TypeError, RecursionError) as error:
            raise LoginRefused(f"token that cannot be read: {shown(str(error))}") from None
        raise LoginRefused("token that none of the issuer's keys has signed")

    def check_times(self, claims: dict[str, Any]) -> None:
        """Refuse a token that is expired, not valid yet, or without a valid time: it would be good for ever.

        Raises LoginRefused.
        """
        now_s = time.time()
        leeway_s = self.options.oauth_leeway_s
        until, since = claims.get("exp"), claims.get("nbf", 0)
        for name, value in (("exp", until), ("nbf", since)):
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < EPOCH_S_MAX:
                raise LoginRefused(f"token whose {name} is no time")
        if now_s >= claims["exp"] + leeway_s:
            raise LoginRefused("token that has expired")
        if now_s < since - leeway_s:
            raise LoginRefused("token that is not good yet")

    def user_in(self, claims: dict[str, Any]) -> str:
        """Return the name of the token's user, from the first claim of `oauth_user_claims` that holds one."""
        for name in self.options.oauth_user_claims:
            found = claims.get(name)
            if isinstance(found, str) and found:
                return found
        raise LoginRefused(f"token without {' or '.join(self.options.oauth_user_claims)}")

    def words(self, claims: dict[str, Any]) -> list[str]:
        """Return all scopes of a token, which holds them as lists or as texts with spaces."""
        found = words_of(claims.get("scope")) + words_of(claims.get("scp"))
        extra = self.options.oauth_additional_scopes_key
        if extra:
            value: object = claims.get(extra)
            if isinstance(value, dict):
                value = value.get(self.options.oauth_audience)
            found += words_of(value)
        return found


def words_of(value: object) -> list[str]:
    if isinstance(value, str):
        return value.split()
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []


def keys_in(octets: bytes) -> list[Key]:
    """Return the keys of a JSON Web Key Set (RFC 7517), without those of an unknown kind."""
    found = json.loads(octets)
    if not isinstance(found, dict) or not isinstance(found.get("keys"), list):
        raise ValueError("it is no JSON Web Key Set")
    keys: list[Key] = []
    for each in found["keys"]:
        if isinstance(each, dict) and each.get("use", "sig") == "sig":
            try:
                keys += KeySet.import_key_set({"keys": [each]}).keys
            except (JoseError, ValueError, KeyError, TypeError):
                continue
    if not keys:
        raise ValueError("it holds no key that can be used")
    return keys
