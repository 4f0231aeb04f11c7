"""The requests of operations on users and their permissions, and their answers."""

from __future__ import annotations

from typing import Annotated, TypedDict

from msgspec import Meta, field

from forebay.management.requests.fields import (
    LIMIT_DEFAULT,
    InVhost,
    Limit,
    OfUser,
    OfVhost,
    OperationRequest,
    PageRequest,
    PasswordHash,
    ReadPattern,
    Skip,
    Table,
    UserName,
    WritePattern,
)


class UserListRequest(PageRequest):
    """Arguments of `user.list`."""


class UserAddRequest(OperationRequest, kw_only=True):
    """Arguments of `user.add`."""

    user: UserName
    password: PasswordHash = ""
    tags: Annotated[list[str], Meta(description="of administrator, management, monitoring and policymaker")] | None = (
        None
    )


class UserPutRequest(OperationRequest, kw_only=True):
    """Arguments of `user.put`."""

    user: UserName
    hash: Annotated[str, Meta(description="Argon2id hash of the password; without, none is right")] = ""
    tags: Annotated[list[str], Meta(description="also such as mean nothing to the broker")]


class UserDeleteRequest(OperationRequest, kw_only=True):
    """Arguments of `user.delete`."""

    user: UserName


class UserPasswordRequest(OperationRequest, kw_only=True):
    """Arguments of `user.password`."""

    user: UserName
    password: PasswordHash = ""


class UserTagsRequest(OperationRequest, kw_only=True):
    """Arguments of `user.tags`."""

    user: UserName
    tags: Annotated[list[str], Meta(description="of administrator, management, monitoring and policymaker")]


class UserLimitsRequest(OperationRequest, kw_only=True):
    """Arguments of `user.limits`."""

    user: UserName
    limits: Annotated[Table, Meta(description="connections_max and channels_max at one time; -1 sets no limit")]


class PermissionListRequest(OperationRequest, kw_only=True):
    """Arguments of `permission.list`."""

    user: OfUser = None
    vhost: OfVhost = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class PermissionSetRequest(OperationRequest, kw_only=True):
    """Arguments of `permission.set`."""

    vhost: InVhost = "/"
    user: UserName
    configure: Annotated[str, Meta(description="regular expression for the names that it may declare and delete")]
    write: WritePattern
    read: ReadPattern


class PermissionClearRequest(OperationRequest, kw_only=True):
    """Arguments of `permission.clear`."""

    vhost: InVhost = "/"
    user: UserName


class TopicPermissionListRequest(OperationRequest, kw_only=True):
    """Arguments of `topic_permission.list`."""

    user: OfUser = None
    vhost: OfVhost = None
    first: Skip = field(name="from", default=0)
    limit: Limit = LIMIT_DEFAULT


class TopicPermissionSetRequest(OperationRequest, kw_only=True):
    """Arguments of `topic_permission.set`."""

    vhost: InVhost = "/"
    user: UserName
    exchange: Annotated[str, Meta(description="name of a topic exchange")]
    write: Annotated[str, Meta(description="regular expression for the routing keys that it may publish with")]
    read: Annotated[str, Meta(description="regular expression for the routing keys that it may bind with")]


class TopicPermissionClearRequest(OperationRequest, kw_only=True):
    """Arguments of `topic_permission.clear`."""

    vhost: InVhost = "/"
    user: UserName
    exchange: Annotated[str, Meta(description="name of a topic exchange; without it, all")] | None = None


# ---- answers


class UserFields(TypedDict):
    """A user."""

    name: str
    tags: list[str]
    configured: bool


class PermissionFields(TypedDict):
    """A user's permissions in a vhost."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermissionFields(TypedDict):
    """A user's restriction on a topic exchange."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str
