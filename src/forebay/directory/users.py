"""Users, their tags and permissions: those of the configuration, and those that administrators have made.

What an administrator does is one entry in the write-ahead log. The configuration is the truth of its own users: they
are made anew at each start, and cannot be changed while the broker runs.
"""

from __future__ import annotations

import hmac
from collections.abc import Collection, Mapping, Sequence

from forebay.core.errors import (
    CONNECTION,
    INVALID,
    NOT_ALLOWED,
    PRECONDITION,
    OptionError,
    RequestError,
    note_half_change,
)
from forebay.core.option_groups import PermissionOptions
from forebay.core.stored.entry_kinds import BROKER
from forebay.directory.logins.authorizer import Principal
from forebay.directory.logins.passwords import SALT_OCTETS, check_hash, hash_for_export, hash_password, is_hash
from forebay.directory.open_vhost import OpenVhost
from forebay.directory.permissions import (
    EVERYTHING,
    UNLIMITED,
    Grants,
    Permission,
    Rights,
    Usage,
    check_pattern,
)
from forebay.directory.topic_acl import AclBook
from forebay.directory.user_commands import (
    ClearPermission,
    ClearTopicPermission,
    LimitUser,
    PutUser,
    RemoveUser,
    SetPermission,
    SetTopicPermission,
    UserCommand,
)
from forebay.directory.user_table import User, UserTable
from forebay.log.store import Store
from forebay.message.events import Events
from forebay.routing.exchange import text

ADMINISTRATOR = "administrator"
TAGS = (ADMINISTRATOR, "management", "monitoring", "policymaker")
NAME_CHARACTERS_MAX = 255
USAGES_MAX = 10_000  # that are remembered of users without connections
LIMITS = ("connections_max", "channels_max")


class Users(UserTable):
    """The users of the configuration and those that administrators make.

    deleted  users that are gone: see `Vhosts.departures`
    acl      which MQTT topics clients may use
    secret   random octets, of which the salts of passwords are made
    """

    def __init__(self, store: Store, vhosts: Mapping[bytes, OpenVhost], events: Events) -> None:
        super().__init__(vhosts)
        self.store = store
        self.secret = b""
        self._events = events
        self.acl = AclBook()
        self.changes = 0  # of users and permissions, since the start
        self._salts = 0  # that were made of the secret: no two are alike
        self.deleted: list[str] = []
        self.fixed: set[tuple[str, bytes]] = set()  # permissions of the configuration
        self._grants: dict[tuple[str, bytes, bool], Grants] = {}  # that somebody holds, or has held

    def configure(
        self, users: Mapping[str, str], administrators: Collection[str], permissions: Collection[PermissionOptions]
    ) -> None:
        """Make the users of the configuration, in place of stored ones of the same name; OptionError."""
        everybody = "*" in administrators
        for name, password in users.items():
            tags = [ADMINISTRATOR] if everybody or name in administrators else []
            hashed = is_hash(password)
            user = self.by_name[name] = User(name, password if hashed else "", tags, True)
            user.exported = "" if hashed else hash_for_export(name, password)
        check_configured(users, permissions)
        for each in permissions:
            self.by_name[each.user].restricted = True
            place = (each.user, each.vhost.encode())
            self.fixed.add(place)
            self.permissions[place] = checked_permission(each.configure, each.write, each.read)
        named = {place[0] for place in [*self.permissions, *self.topics]} | set(self.limits)
        for name in named - set(self.by_name):
            self.forget_user(name)  # it was of a configuration that is no more
        self.changed()

    def reconfigure(
        self, users: Mapping[str, str], administrators: Collection[str], permissions: Collection[PermissionOptions]
    ) -> None:
        """Configure users and permissions in place of those of the configuration before.

        Those who are no more in it lose their connections.
        """
        try:
            for name, user in list(self.by_name.items()):
                if user.configured and name not in users:
                    del self.by_name[name]
                    self.note_deleted(name)
                    self.forget_user(name)
            for place in self.fixed:
                self.permissions.pop(place, None)
            self.fixed = set()
            self.configure(users, administrators, permissions)
        except Exception as error:
            note_half_change(error)
            raise

    # ---- users

    def add(self, name: str, password: str, tags: list[str]) -> None:
        """Make a user; it may do nothing yet.

        password  or its Argon2id hash, `$argon2id$...`; empty: it cannot log in by a password
        raises    RequestError: INVALID, PRECONDITION where there is one of that name
        """
        if not name or len(name) > NAME_CHARACTERS_MAX:
            raise RequestError(
                INVALID, f"user: a name has 1 to {NAME_CHARACTERS_MAX} characters, '{name[:80]}' has not"
            )
        if name in self.by_name:
            raise RequestError(PRECONDITION, f"user: '{name}' is there already")
        check_tags(tags)
        self.execute(PutUser(name, self.kept(name, password), list(tags)))  # a certificate of it no longer says all
        self.end_sessions_of(name)  # which a user of the configuration has left who is in it no more
        self.tell("user.created", {"user": name, "tags": list(tags)})

    def note_deleted(self, name: str) -> None:
        self.deleted.append(name)
        for vhost in self.vhosts.values():
            vhost.user_deleted(name)

    def end_sessions_of(self, name: str) -> None:
        """End the MQTT sessions of a user, as those of nobody who comes under this name from here on."""
        for vhost in self.vhosts.values():
            vhost.end_sessions_of(name)

    def delete(self, name: str) -> None:
        """Take a user away with its permissions; its connections are `deleted`'s to end."""
        try:
            self.execute(RemoveUser(name))
            self.note_deleted(name)
            self.tell("user.deleted", {"user": name})
        except Exception as error:
            note_half_change(error)
            raise

    def take_deleted(self) -> list[str]:
        """Users that have gone since the last call."""
        deleted, self.deleted = self.deleted, []
        return deleted

    def change_password(self, name: str, password: str) -> None:
        """Set a password, or its hash, or with an empty one let nobody log in by a password."""
        user = self.changeable(name)
        self.execute(PutUser(name, self.kept(name, password), user.tags))
        self.tell("user.changed", {"user": name, "what": "password"})

    def kept(self, name: str, password: str) -> str:
        """The hash that is kept of a password, or of its hash."""
        if not password:
            return ""
        if is_hash(password):
            check_hash(password)
            return password
        self._salts += 1
        salt = hmac.digest(self.secret, b"%d %b" % (self._salts, name.encode()), "sha256")[:SALT_OCTETS]
        return hash_password(password, salt)

    def set_tags(self, name: str, tags: list[str]) -> None:
        """Say what a user is to the administration; RequestError(INVALID) for what is no tag."""
        user = self.changeable(name)
        check_tags(tags)
        self.execute(PutUser(name, user.hash, list(tags)))
        self.tell("user.changed", {"user": name, "what": "tags", "tags": list(tags)})

    def tags_of(self, principal: Principal) -> Sequence[str]:
        """The tags of somebody for the administration: by a token or another server, or as stored."""
        if principal.tags is not None:
            return principal.tags
        user = self.by_name.get(principal.user)
        return () if user is None else user.tags

    def usage_of(self, name: str) -> Usage:
        """Return the counts and limits of the connections and channels of a user."""
        usage = self.usages.get(name)
        if usage is None:
            if len(self.usages) >= USAGES_MAX:  # tokens may bring any number of names
                self.usages = {user: each for user, each in self.usages.items() if each.connections}
            usage = self.usages[name] = Usage()
            self.limit(name)
        return usage

    def set_limits(self, name: str, limits: Mapping[str, object]) -> None:
        """Set some limits of a user, who may be of the configuration; -1 takes one away.

        limits  by name: LIMITS
        raises  RequestError: NOT_FOUND, INVALID naming the limit and its value
        """
        self.user(name)
        check_limits(limits)
        merged = {**self.limits.get(name, {}), **{key: int(str(value)) for key, value in limits.items()}}
        self.execute(LimitUser(name, {key: value for key, value in merged.items() if value != UNLIMITED}))
        self.tell("user.changed", {"user": name, "what": "limits"})

    def has_hashes(self) -> bool:
        """Return whether a user can log in by a password that was set while the broker ran."""
        return any(user.hash for user in self.by_name.values())

    def list_users(self) -> list[dict[str, object]]:
        """Name, tags and origin of every user."""
        return [
            {"name": user.name, "tags": list(user.tags), "configured": user.configured}
            for _, user in sorted(self.by_name.items())
        ]

    # ---- permissions

    def set_permissions(self, name: str, vhost: bytes, configure: str, write: str, read: str) -> None:
        """Let a user enter a vhost, and say what it may do there."""
        self.execute(SetPermission(name, vhost, configure, write, read))
        self.tell("permission.set", {"user": name, **self.permissions[name, vhost].fields()}, vhost)

    def clear_permissions(self, name: str, vhost: bytes) -> None:
        """Let a user enter a vhost no more; no error where it could not."""
        self.check_place(name, vhost)
        if (name, vhost) in self.permissions:
            self.execute(ClearPermission(name, vhost))
            self.tell("permission.cleared", {"user": name}, vhost)

    def set_topic_permissions(self, name: str, vhost: bytes, exchange: bytes, write: str, read: str) -> None:
        """Restrict a user to the routing keys of a topic exchange that match."""
        self.execute(SetTopicPermission(name, vhost, exchange, write, read))
        given = self.topics[name, vhost][exchange]
        self.tell("permission.set", {"user": name, "exchange": exchange, **given.fields()}, vhost)

    def clear_topic_permissions(self, name: str, vhost: bytes, exchange: bytes | None = None) -> None:
        """Lift the restriction of one exchange, or of all."""
        self.check_place(name, vhost)
        given = self.topics.get((name, vhost))
        if given is not None and (exchange is None or exchange in given):
            self.execute(ClearTopicPermission(name, vhost, exchange))
            self.tell("permission.cleared", {"user": name, "exchange": exchange}, vhost)

    def list_permissions(self, user: str | None = None, vhost: bytes | None = None) -> list[dict[str, object]]:
        """Every permission, or those of one user or vhost; those of the configuration have theirs unasked."""
        everything = Permission(EVERYTHING, EVERYTHING, EVERYTHING)
        free = [each.name for each in self.by_name.values() if each.is_free()]
        all_of_them = {(name, where): everything for name in free for where in self.vhosts}
        all_of_them.update(self.permissions)
        return [
            {"user": name, "vhost": text(where), **permission.fields()}
            for (name, where), permission in sorted(all_of_them.items(), key=place_of)
            if user in {None, name} and vhost in {None, where}
        ]

    def list_topic_permissions(self, user: str | None = None, vhost: bytes | None = None) -> list[dict[str, object]]:
        """Every topic permission, or those of one user or vhost."""
        return [
            {"user": name, "vhost": text(where), "exchange": text(exchange), **permission.fields()}
            for (name, where), given in sorted(self.topics.items(), key=place_of)
            for exchange, permission in given.items()
            if user in {None, name} and vhost in {None, where}
        ]

    def rights(self, principal: Principal, vhost: bytes) -> Rights:
        """The rights of somebody in a vhost that it has just entered.

        Whom a certificate vouches for may do everything, unless there is a user of that name.
        raises  RequestError(NOT_ALLOWED), which ends the connection, where it may not be there; Undecided
        """
        user = principal.user
        authorizer = principal.authorizer
        if authorizer is not None:
            free = Permission(EVERYTHING, EVERYTHING, EVERYTHING) if authorizer.may_enter(text(vhost)) else None
            grants = Grants(free, {}, authorizer)
        else:
            grants = self._grants.get((user, vhost, principal.vouched)) or self.granted(user, vhost, principal.vouched)
        if grants.permission is None:
            raise RequestError(NOT_ALLOWED, f"access to vhost '{text(vhost)}' refused for user '{user}'", CONNECTION)
        if authorizer is None:
            self._grants[user, vhost, principal.vouched] = grants
        rights = Rights(user, vhost, grants, self.acl)
        entered = self.vhosts.get(vhost)
        rights.addresses = None if entered is None else entered.addresses()
        if authorizer is None:
            rights.stamp = self.stamp()
        return rights

    def stamp(self) -> int:
        """Return a number that grows with every change of what users may do."""
        return self.changes + self.acl.version

    def granted(self, user: str, vhost: bytes, vouched: bool) -> Grants:
        permission = self.permissions.get((user, vhost))
        known = self.by_name.get(user)
        is_free = vouched if known is None else known.is_free()
        if permission is None and is_free:
            permission = Permission(EVERYTHING, EVERYTHING, EVERYTHING)
        return Grants(permission, dict(self.topics.get((user, vhost), {})))

    def changed(self) -> None:
        """Rights have changed: who holds some has the new ones, and decisions end that were made by others."""
        self.changes += 1
        for place, grants in self._grants.items():
            grants.put_in_force(self.granted(*place))

    def forget_vhost(self, vhost: bytes) -> None:
        """Remove all permissions in a vhost that was deleted."""
        self.permissions = {place: each for place, each in self.permissions.items() if place[1] != vhost}
        self.topics = {place: each for place, each in self.topics.items() if place[1] != vhost}
        self.changed()

    def tell(self, type: str, fields: dict[str, object], vhost: bytes = b"") -> None:
        """Tell listeners to events of a change."""
        self._events.note(type, vhost, fields)

    # ---- the disk

    def execute(self, command: UserCommand) -> None:
        """Make a change; RequestError, with nothing changed, where it cannot be."""
        try:
            command.check(self)
            payload = command.encoded()
            self.store.note(BROKER, 0, 0, payload, True)
            command.apply(self)
            self.changed()
        except Exception as error:
            note_half_change(error)
            raise

    def commands(self) -> list[UserCommand]:
        """All that recovery has to apply to come to this state, without the configuration."""
        commands: list[UserCommand] = [
            PutUser(user.name, user.hash, user.tags) for user in self.by_name.values() if not user.configured
        ]
        for (name, vhost), each in self.permissions.items():
            if (name, vhost) not in self.fixed:
                commands.append(SetPermission(name, vhost, each.configure, each.write, each.read))
        for (name, vhost), given in self.topics.items():
            for exchange, topic in given.items():
                commands.append(SetTopicPermission(name, vhost, exchange, topic.write, topic.read))
        commands += [LimitUser(name, limits) for name, limits in self.limits.items()]
        return commands


def check_configured(users: Mapping[str, str], permissions: Collection[PermissionOptions]) -> None:
    """OptionError for permissions that `Users.configure` would refuse; nothing is changed."""
    for each in permissions:
        if each.user not in users:
            raise OptionError(f"permissions: there is no user {each.user!r} in users")
        try:
            checked_permission(each.configure, each.write, each.read)
        except RequestError as error:
            raise OptionError(f"permissions: of user {each.user!r}: {error.text}") from None


def place_of(entry: tuple[tuple[str, bytes], object]) -> tuple[str, bytes]:
    """Return the sort key of a permission entry: user and vhost."""
    return entry[0]


def check_limits(limits: Mapping[str, object]) -> None:
    """RequestError(INVALID), naming the limit and its value, unless a user can have each."""
    for key, value in limits.items():
        is_number = isinstance(value, int) and not isinstance(value, bool)
        if key not in LIMITS or not is_number or not UNLIMITED <= int(str(value)) < 1 << 31:
            known = " and ".join(LIMITS)
            raise RequestError(INVALID, f"user: {key}: {value!r} is no limit; known are {known}, from -1")


def check_tags(tags: list[str]) -> None:
    """RequestError(INVALID) unless each is a tag."""
    for tag in tags:
        if tag not in TAGS:
            raise RequestError(INVALID, f"tags: '{tag}' is no tag; the tags are {', '.join(TAGS)}")


def checked_permission(configure: str, write: str, read: str) -> Permission:
    check_pattern("configure", configure)
    check_pattern("write", write)
    check_pattern("read", read)
    return Permission(configure, write, read)
