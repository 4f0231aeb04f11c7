"""Operations on users and on what they may do."""

from __future__ import annotations

from forebay.directory.provisioning import put_user
from forebay.management.arguments import octets
from forebay.management.control import Control, made_already, operation, page
from forebay.management.requests.fields import EmptyAnswer, ListPage
from forebay.management.requests.users import (
    PermissionClearRequest,
    PermissionFields,
    PermissionListRequest,
    PermissionSetRequest,
    TopicPermissionClearRequest,
    TopicPermissionFields,
    TopicPermissionListRequest,
    TopicPermissionSetRequest,
    UserAddRequest,
    UserDeleteRequest,
    UserFields,
    UserLimitsRequest,
    UserListRequest,
    UserPasswordRequest,
    UserPutRequest,
    UserTagsRequest,
)


@operation("user.list")
def list_users(control: Control, given: UserListRequest) -> ListPage[UserFields]:
    """List all users; those of the configuration cannot be changed here."""
    return page(given, [made_already(fields) for fields in control.vhosts.directory.users.list_users()])


@operation("user.add", changes=True)
def add_user(control: Control, given: UserAddRequest) -> EmptyAnswer:
    """Create a user; it has no permissions yet."""
    control.vhosts.directory.users.add(given.user, given.password, given.tags or [])
    return {}


@operation("user.put", changes=True)
def put_whole_user(control: Control, given: UserPutRequest) -> EmptyAnswer:
    """Create a user, or set the password and tags of an existing one, as RabbitMQ's tools do."""
    put_user(control.vhosts.directory.users, given.user, given.hash, given.tags)
    return {}


@operation("user.delete", changes=True)
def delete_user(control: Control, given: UserDeleteRequest) -> EmptyAnswer:
    """Delete a user with its permissions."""
    control.vhosts.directory.users.delete(given.user)
    return {}


@operation("user.password", changes=True)
def change_password(control: Control, given: UserPasswordRequest) -> EmptyAnswer:
    """Set a user's password; its connections remain."""
    control.vhosts.directory.users.change_password(given.user, given.password)
    return {}


@operation("user.tags", changes=True)
def set_tags(control: Control, given: UserTagsRequest) -> EmptyAnswer:
    """Replace a user's tags."""
    control.vhosts.directory.users.set_tags(given.user, given.tags)
    return {}


@operation("user.limits", changes=True)
def set_limits(control: Control, given: UserLimitsRequest) -> EmptyAnswer:
    """Limit a user's connections and channels, over all vhosts; those that are open remain."""
    control.vhosts.directory.users.set_limits(given.user, given.limits)
    return {}


@operation("permission.list")
def list_permissions(control: Control, given: PermissionListRequest) -> ListPage[PermissionFields]:
    """List permissions. Users of the configuration without any may do everything."""
    return page(
        given, [made_already(fields) for fields in control.vhosts.directory.users.list_permissions(*chosen(given))]
    )


@operation("permission.set", changes=True)
def set_permission(control: Control, given: PermissionSetRequest) -> EmptyAnswer:
    """Let a user enter a vhost, with permissions for the names that match the patterns."""
    control.vhosts.directory.users.set_permissions(
        given.user, octets(given.vhost), given.configure, given.write, given.read
    )
    return {}


@operation("permission.clear", changes=True)
def clear_permission(control: Control, given: PermissionClearRequest) -> EmptyAnswer:
    """Delete a user's permissions in a vhost, which it then cannot enter."""
    control.vhosts.directory.users.clear_permissions(given.user, octets(given.vhost))
    return {}


@operation("topic_permission.list")
def list_topic_permissions(control: Control, given: TopicPermissionListRequest) -> ListPage[TopicPermissionFields]:
    """List the restrictions of users on topic exchanges."""
    users = control.vhosts.directory.users
    return page(given, [made_already(fields) for fields in users.list_topic_permissions(*chosen(given))])


@operation("topic_permission.set", changes=True)
def set_topic_permission(control: Control, given: TopicPermissionSetRequest) -> EmptyAnswer:
    """Restrict a user to the routing keys of a topic exchange that match the patterns."""
    control.vhosts.directory.users.set_topic_permissions(
        given.user, octets(given.vhost), octets(given.exchange), given.write, given.read
    )
    return {}


@operation("topic_permission.clear", changes=True)
def clear_topic_permission(control: Control, given: TopicPermissionClearRequest) -> EmptyAnswer:
    """Lift a user's restriction on topic exchanges."""
    exchange = octets(given.exchange) if given.exchange is not None else None
    control.vhosts.directory.users.clear_topic_permissions(given.user, octets(given.vhost), exchange)
    return {}


def chosen(given: PermissionListRequest | TopicPermissionListRequest) -> tuple[str | None, bytes | None]:
    """User and vhost that a list is about; None for all."""
    return given.user, None if given.vhost is None else octets(given.vhost)
