"""Operations on users and on what they may do."""

from __future__ import annotations

from functools import partial

from forebay.directory.provisioning import put_user
from forebay.management.arguments import octets
from forebay.management.control import Control, operation, page
from forebay.management.requests.users import (
    PermissionClearRequest,
    PermissionListRequest,
    PermissionSetRequest,
    TopicPermissionClearRequest,
    TopicPermissionListRequest,
    TopicPermissionSetRequest,
    UserAddRequest,
    UserDeleteRequest,
    UserLimitsRequest,
    UserListRequest,
    UserPasswordRequest,
    UserPutRequest,
    UserTagsRequest,
)


@operation("user.list")
def list_users(control: Control, given: UserListRequest) -> dict[str, object]:
    """List all users; those of the configuration cannot be changed here."""
    return page(given, [partial(dict, fields) for fields in control.vhosts.directory.users.list_users()])


@operation("user.add", changes=True)
def add_user(control: Control, given: UserAddRequest) -> dict[str, object]:
    """Create a user; it has no permissions yet."""
    control.vhosts.directory.users.add(given.user, given.password, given.tags or [])
    return {}


@operation("user.put", changes=True)
def put_whole_user(control: Control, given: UserPutRequest) -> dict[str, object]:
    """Create a user, or set the password and tags of an existing one, as RabbitMQ's tools do."""
    put_user(control.vhosts.directory.users, given.user, given.hash, given.tags)
    return {}


@operation("user.delete", changes=True)
def delete_user(control: Control, given: UserDeleteRequest) -> dict[str, object]:
    """Delete a user with its permissions."""
    control.vhosts.directory.users.delete(given.user)
    return {}


@operation("user.password", changes=True)
def change_password(control: Control, given: UserPasswordRequest) -> dict[str, object]:
    """Set a user's password; its connections remain."""
    control.vhosts.directory.users.change_password(given.user, given.password)
    return {}


@operation("user.tags", changes=True)
def set_tags(control: Control, given: UserTagsRequest) -> dict[str, object]:
    """Replace a user's tags."""
    control.vhosts.directory.users.set_tags(given.user, given.tags)
    return {}


@operation("user.limits", changes=True)
def set_limits(control: Control, given: UserLimitsRequest) -> dict[str, object]:
    """Limit a user's connections and channels, over all vhosts; those that are open remain."""
    control.vhosts.directory.users.set_limits(given.user, given.limits)
    return {}


@operation("permission.list")
def list_permissions(control: Control, given: PermissionListRequest) -> dict[str, object]:
    """List permissions. Users of the configuration without any may do everything."""
    return page(
        given, [partial(dict, fields) for fields in control.vhosts.directory.users.list_permissions(*chosen(given))]
    )


@operation("permission.set", changes=True)
def set_permission(control: Control, given: PermissionSetRequest) -> dict[str, object]:
    """Let a user enter a vhost, with permissions for the names that match the patterns."""
    control.vhosts.directory.users.set_permissions(
        given.user, octets(given.vhost), given.configure, given.write, given.read
    )
    return {}


@operation("permission.clear", changes=True)
def clear_permission(control: Control, given: PermissionClearRequest) -> dict[str, object]:
    """Delete a user's permissions in a vhost, which it then cannot enter."""
    control.vhosts.directory.users.clear_permissions(given.user, octets(given.vhost))
    return {}


@operation("topic_permission.list")
def list_topic_permissions(control: Control, given: TopicPermissionListRequest) -> dict[str, object]:
    """List the restrictions of users on topic exchanges."""
    users = control.vhosts.directory.users
    return page(given, [partial(dict, fields) for fields in users.list_topic_permissions(*chosen(given))])


@operation("topic_permission.set", changes=True)
def set_topic_permission(control: Control, given: TopicPermissionSetRequest) -> dict[str, object]:
    """Restrict a user to the routing keys of a topic exchange that match the patterns."""
    control.vhosts.directory.users.set_topic_permissions(
        given.user, octets(given.vhost), octets(given.exchange), given.write, given.read
    )
    return {}


@operation("topic_permission.clear", changes=True)
def clear_topic_permission(control: Control, given: TopicPermissionClearRequest) -> dict[str, object]:
    """Lift a user's restriction on topic exchanges."""
    exchange = octets(given.exchange) if given.exchange is not None else None
    control.vhosts.directory.users.clear_topic_permissions(given.user, octets(given.vhost), exchange)
    return {}


def chosen(given: PermissionListRequest | TopicPermissionListRequest) -> tuple[str | None, bytes | None]:
    """User and vhost that a list is about; None for all."""
    return given.user, None if given.vhost is None else octets(given.vhost)
