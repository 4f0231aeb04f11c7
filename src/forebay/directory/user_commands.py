"""Commands about users: who they are, and what they may do where."""

from __future__ import annotations

from forebay.directory.command import StateCommand
from forebay.directory.permissions import Permission, TopicPermission, check_pattern, check_topic_pattern
from forebay.directory.user_table import UserTable


class UserCommand(StateCommand[UserTable], frozen=True):
    """A change of users and their rights."""


class PutUser(UserCommand, frozen=True, tag="user"):
    """Make a user, or set what is kept of its password and its tags."""

    name: str
    hash: str = ""
    tags: list[str] = []

    def apply(self, users: UserTable) -> None:
        users.put(self.name, self.hash, list(self.tags))


class RemoveUser(UserCommand, frozen=True, tag="user-delete"):
    """Take a user away with its permissions and limits."""

    name: str

    def check(self, users: UserTable) -> None:
        users.changeable(self.name)

    def apply(self, users: UserTable) -> None:
        users.by_name.pop(self.name, None)
        users.forget_user(self.name)


class LimitUser(UserCommand, frozen=True, tag="user-limits"):
    """Set all limits of a user, who may be of the configuration."""

    name: str
    limits: dict[str, int] = {}

    def apply(self, users: UserTable) -> None:
        users.keep_limits(self.name, self.limits)


class SetPermission(UserCommand, frozen=True, tag="permission"):
    """Let a user enter a vhost, and say what it may do there."""

    user: str
    vhost: bytes
    configure: str = ""
    write: str = ""
    read: str = ""

    def check(self, users: UserTable) -> None:
        users.check_place(self.user, self.vhost)
        check_pattern("configure", self.configure)
        check_pattern("write", self.write)
        check_pattern("read", self.read)

    def apply(self, users: UserTable) -> None:
        users.permissions[self.user, self.vhost] = Permission(self.configure, self.write, self.read)


class ClearPermission(UserCommand, frozen=True, tag="permission-clear"):
    """Let a user enter a vhost no more."""

    user: str
    vhost: bytes

    def check(self, users: UserTable) -> None:
        users.check_place(self.user, self.vhost)

    def apply(self, users: UserTable) -> None:
        users.permissions.pop((self.user, self.vhost), None)


class SetTopicPermission(UserCommand, frozen=True, tag="topic-permission"):
    """Restrict a user to the routing keys of a topic exchange that match."""

    user: str
    vhost: bytes
    exchange: bytes
    write: str = ""
    read: str = ""

    def check(self, users: UserTable) -> None:
        users.check_place(self.user, self.vhost)
        check_topic_pattern("write", self.write)
        check_topic_pattern("read", self.read)

    def apply(self, users: UserTable) -> None:
        given = users.topics.setdefault((self.user, self.vhost), {})
        given[self.exchange] = TopicPermission(self.write, self.read)


class ClearTopicPermission(UserCommand, frozen=True, tag="topic-permission-clear"):
    """Lift the restriction of one exchange, or with None of all."""

    user: str
    vhost: bytes
    exchange: bytes | None = None

    def check(self, users: UserTable) -> None:
        users.check_place(self.user, self.vhost)

    def apply(self, users: UserTable) -> None:
        users.remove_topics(self.user, self.vhost, self.exchange)
