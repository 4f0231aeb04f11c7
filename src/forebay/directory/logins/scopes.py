"""The rights that a token gives its bearer, as RabbitMQ writes them in scopes.

    read:*/orders          read, from every queue and exchange `orders` in every vhost
    write:%2F/shop.*       write, in the vhost "/", where a name begins with `shop.`
    write:*/amq.topic/a.*  the same, on routing keys (or MQTT topics, with dots) that begin with `a.`
    configure:sales/*      make and take away whatever is in the vhost `sales`
    tag:administrator      be an administrator

`*` stands for any text, also for none. A slash, a percent sign or an asterisk of a name is percent-encoded.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import unquote

from forebay.directory.logins.authorizer import Authorizer
from forebay.directory.permissions import CONFIGURE, READ, WRITE
from forebay.directory.users import TAGS

RIGHTS: Final = (CONFIGURE, WRITE, READ)
TAG_PREFIX: Final = "tag:"
SCOPES_MAX: Final = 10_000
ANY: Final = "*"


class Scope:
    """One right over what has names that match."""

    def __init__(self, right: str, vhost: str, name: str, key: str) -> None:
        self.right = right
        self.vhost = vhost
        self.name = name
        self.key = key


class ScopeAuthorizer(Authorizer):
    """The content of one token's scopes."""

    def __init__(self, scopes: Iterable[Scope]) -> None:
        self.scopes = list(scopes)

    def may_enter(self, vhost: str) -> bool:
        return any(matches(scope.vhost, vhost) for scope in self.scopes)

    def may(self, vhost: str, right: str, kind: str, name: str) -> bool:
        return any(
            scope.right == right and matches(scope.vhost, vhost) and matches(scope.name, name) for scope in self.scopes
        )

    def may_topic(self, vhost: str, right: str, exchange: str, routing_key: str) -> bool:
        return any(
            scope.right == right
            and matches(scope.vhost, vhost)
            and matches(scope.name, exchange)
            and matches(scope.key, routing_key)
            for scope in self.scopes
        )


def parse_scopes(words: Iterable[str], prefix: str) -> tuple[list[Scope], list[str]]:
    """Scopes and tags among the words of a token.

    prefix  that ours begin with, e.g. `forebay.`; other words are somebody else's
    """
    scopes: list[Scope] = []
    tags: list[str] = []
    for word in list(words)[:SCOPES_MAX]:
        if not word.startswith(prefix):
            continue
        ours = word[len(prefix) :]
        if ours.startswith(TAG_PREFIX):
            tag = ours.removeprefix(TAG_PREFIX)
            if tag in TAGS and tag not in tags:
                tags.append(tag)
            continue
        right, colon, place = ours.partition(":")
        parts = place.split("/")
        if colon and right in RIGHTS and 2 <= len(parts) <= 3:
            scopes.append(Scope(right, parts[0], parts[1], parts[2] if len(parts) > 2 else ANY))
    return scopes, tags


def matches(pattern: str, name: str) -> bool:
    """True if a name is what the pattern says."""
    if pattern == ANY:
        return True
    first, *others = [unquote(part) for part in pattern.split(ANY)]
    if not others:
        return name == first
    last = others.pop()
    if len(name) < len(first) + len(last) or not name.startswith(first) or not name.endswith(last):
        return False
    at, end = len(first), len(name) - len(last)
    for part in others:  # each at the first place where it is: that leaves the most for what follows
        at = name.find(part, at, end)
        if at < 0:
            return False
        at += len(part)
    return True
