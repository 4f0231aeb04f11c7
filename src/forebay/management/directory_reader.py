"""Reading the directory: users, what they may do, and parameters, as values that another process could be sent."""

from __future__ import annotations

from msgspec import Struct

from forebay.directory.directory import Directory
from forebay.directory.logins.authorizer import Principal
from forebay.directory.permissions import Rights
from forebay.directory.user_table import User
from forebay.management.definitions.limits import limits_of_user


class UserReading(Struct, frozen=True):
    """A user, as operations read it.

    hash      of its password; empty: nobody can log in by one
    exported  hash for definitions, where the configuration has the password itself
    is_free   it may do everything where nothing else is said
    limits    those that are set, by RabbitMQ's names; None where none ever was
    """

    name: str
    hash: str
    exported: str
    tags: list[str]
    is_free: bool
    limits: dict[str, object] | None


class DirectoryReader:
    """The reader of a directory of users, permissions and parameters.

    Permissions and parameters are dictionaries as operations list them; names of vhosts and exchanges are octets.
    """

    def __init__(self, directory: Directory) -> None:
        self._users = directory.users
        self._parameters = directory.parameters
        self._vhosts = directory.vhosts

    # ---- users

    def users(self) -> list[UserReading]:
        """Return all users by name."""
        return [self._read(user) for _, user in sorted(self._users.by_name.items())]

    def user(self, name: str) -> UserReading:
        """Return the user of that name; RequestError(NOT_FOUND)."""
        return self._read(self._users.user(name))

    def find_user(self, name: str) -> UserReading | None:
        """Return the user of that name; None if there is none."""
        user = self._users.by_name.get(name)
        return None if user is None else self._read(user)

    def check_changeable(self, name: str) -> None:
        """Raise RequestError(REFUSED) for a user of the configuration."""
        self._users.changeable(name)

    def _read(self, user: User) -> UserReading:
        limits = limits_of_user(self._users, user.name) if user.name in self._users.limits else None
        return UserReading(user.name, user.hash, user.exported, list(user.tags), user.is_free(), limits)

    # ---- what they may do

    def rights(self, principal: Principal, vhost: bytes) -> Rights:
        """Return what a client may do in a vhost; RequestError(NOT_ALLOWED), Undecided."""
        return self._users.rights(principal, vhost)

    def permissions(self, user: str | None = None, vhost: bytes | None = None) -> list[dict[str, object]]:
        """Return every permission, or those of one user or vhost."""
        return self._users.list_permissions(user, vhost)

    def has_permission(self, user: str, vhost: bytes) -> bool:
        """Return whether a user was given permissions in a vhost."""
        return (user, vhost) in self._users.permissions

    def permitted_users(self) -> set[str]:
        """Return the names of users that were given permissions in any vhost."""
        return {name for name, _ in self._users.permissions}

    def topic_permissions(self, user: str | None = None, vhost: bytes | None = None) -> list[dict[str, object]]:
        """Return every topic permission, or those of one user or vhost."""
        return self._users.list_topic_permissions(user, vhost)

    def restricted_exchanges(self, user: str, vhost: bytes) -> list[bytes]:
        """Return the topic exchanges of a vhost on which a user is restricted."""
        return list(self._users.topics.get((user, vhost), ()))

    # ---- vhosts and parameters

    def default_queue_type(self) -> str:
        """Return the type of queues that are declared without one in a new vhost."""
        return self._vhosts.default_queue_type

    def parameters(self, vhost: bytes, component: str | None = None) -> list[dict[str, object]]:
        """Return the parameters of a vhost, or those of one component."""
        return self._parameters.listed(vhost, component)

    def global_parameters(self) -> dict[str, object]:
        """Return the global parameters by name."""
        return dict(self._parameters.values)
