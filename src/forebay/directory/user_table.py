"""The table of users: who there is and what each may do, as commands change it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from forebay.core.errors import NOT_FOUND, REFUSED, RequestError
from forebay.directory.open_vhost import OpenVhost
from forebay.directory.permissions import UNLIMITED, Permission, TopicPermission, Usage
from forebay.routing.exchange import text


@dataclass
class User:
    """One user.

    hash        of the password; empty: nobody can log in by a password
    configured  of the configuration: nothing of it can be changed, and its permissions are everything unless told
    exported    hash for definitions, where the configuration has the password itself
    """

    name: str
    hash: str
    tags: list[str] = field(default_factory=list)
    configured: bool = False
    restricted: bool = False
    exported: str = ""

    def is_free(self) -> bool:
        """True if it may do everything where nothing else is said."""
        return self.configured and not self.restricted


class UserTable:
    """All users by name, and what each may do in which vhost.

    vhosts  by name, as this process has them open
    """

    def __init__(self, vhosts: Mapping[bytes, OpenVhost]) -> None:
        self.vhosts = vhosts
        self.by_name: dict[str, User] = {}
        self.permissions: dict[tuple[str, bytes], Permission] = {}
        self.topics: dict[tuple[str, bytes], dict[bytes, TopicPermission]] = {}
        self.limits: dict[str, dict[str, int]] = {}  # LIMITS by user, where some are set
        self.usages: dict[str, Usage] = {}

    def user(self, name: str) -> User:
        """Return the user of a name. Raises RequestError(NOT_FOUND) if there is none."""
        user = self.by_name.get(name)
        if user is None:
            raise RequestError(NOT_FOUND, f"user: '{name}' does not exist")
        return user

    def changeable(self, name: str) -> User:
        user = self.user(name)
        if user.configured:
            raise RequestError(REFUSED, f"user: '{name}' is of the configuration, and changed there")
        return user

    def put(self, name: str, hash: str, tags: list[str]) -> None:
        """Make a user, or keep another hash and other tags of the one of that name."""
        user = self.by_name.get(name)
        if user is None:
            self.by_name[name] = User(name, hash, tags)
        else:
            user.hash = hash
            user.tags = tags

    def keep_limits(self, name: str, limits: dict[str, int]) -> None:
        if limits:
            self.limits[name] = limits
        else:
            self.limits.pop(name, None)
        self.limit(name)

    def limit(self, name: str) -> None:
        """Hold a user to the limits that are set for it."""
        usage = self.usages.get(name)
        if usage is not None:
            limits = self.limits.get(name, {})
            usage.connections_max = limits.get("connections_max", UNLIMITED)
            usage.channels_max = limits.get("channels_max", UNLIMITED)

    def check_place(self, name: str, vhost: bytes) -> None:
        self.user(name)
        if vhost not in self.vhosts:
            raise RequestError(NOT_FOUND, f"vhost: '{text(vhost)}' does not exist")

    def remove_topics(self, name: str, vhost: bytes, exchange: bytes | None) -> None:
        given = self.topics.get((name, vhost), {})
        left = {} if exchange is None else {each: value for each, value in given.items() if each != exchange}
        if left:
            self.topics[name, vhost] = left
        else:
            self.topics.pop((name, vhost), None)

    def forget_user(self, name: str) -> None:
        self.permissions = {place: each for place, each in self.permissions.items() if place[0] != name}
        self.topics = {place: each for place, each in self.topics.items() if place[0] != name}
        self.keep_limits(name, {})
