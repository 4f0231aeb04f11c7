"""/api/users: who may log in, and how users come and go."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from forebay.admin.asking import run
from forebay.admin.changing import DONE_STATUS, GONE, MADE, changed, finished, noted, put_status
from forebay.admin.http.answer import as_json
from forebay.admin.http.paging import Wanted, answer_list, answer_one
from forebay.admin.http.paths import UserName
from forebay.admin.login import Broker
from forebay.admin.openapi.change_shapes import UserBody, UserNames
from forebay.admin.rabbitmq.permissions import permission_fields, topic_fields
from forebay.admin.rabbitmq.vhosts import texts_of
from forebay.admin.rights import Administrator
from forebay.admin.web.router import RouteGroup
from forebay.core.errors import INVALID, RequestError
from forebay.directory.logins.passwords import SALT_OCTETS, hash_password, imported_hash
from forebay.directory.provisioning import check_user
from forebay.management.definitions.exported import user_entry
from forebay.management.directory_reader import UserReading
from forebay.server.system.chance import SystemRandom

router = RouteGroup(prefix="/api/users", tags=["users"], around=noted)

PASSWORD_CHARACTERS_MAX = 4096


@router.get("")
async def list_users(broker: Broker, caller: Administrator, wanted: Wanted) -> Response:
    """All users."""
    return await answer_list(broker.directory.users(), name_of, user_entry, wanted)


@router.get("/without-permissions")
async def list_users_without_permissions(broker: Broker, caller: Administrator, wanted: Wanted) -> Response:
    """Users who may enter no vhost."""
    placed = broker.directory.permitted_users()
    users = [user for user in broker.directory.users() if user.name not in placed and not user.is_free]
    return await answer_list(users, name_of, user_entry, wanted)


@router.post("/bulk-delete", status=DONE_STATUS, responses=GONE)
async def delete_users(broker: Broker, caller: Administrator, body: UserNames) -> Response:
    """Take several users away; those that are not there do not matter."""
    directory = broker.directory
    for name in body.users:
        if directory.find_user(name) is not None:
            directory.check_changeable(name)
    for name in dict.fromkeys(body.users):
        if directory.find_user(name) is not None:
            await run(broker, caller, "user.delete", {"user": name})
    return await finished(broker)


@router.get("/{user:name}")
async def show_user(broker: Broker, caller: Administrator, user: UserName, wanted: Wanted) -> Response:
    """One user."""
    return answer_one(user_entry(broker.directory.user(user)), wanted)


@router.put("/{user:name}", status=201, responses=MADE, is_plain=True)
async def put_user_named(broker: Broker, caller: Administrator, user: UserName, body: UserBody) -> Response:
    """Make a user, or set password and tags of the one there is."""
    if body.tags is None:
        raise RequestError(INVALID, "tags_not_present: tags: must be given, and may be empty")
    tags = texts_of(body.tags)
    check_user(user, "", tags)
    hash = await kept_hash(body.password, body.password_hash, body.hashing_algorithm)
    is_new = broker.directory.find_user(user) is None
    return await changed(broker, caller, "user.put", {"user": user, "hash": hash, "tags": tags}, put_status(is_new))


@router.delete("/{user:name}", status=DONE_STATUS, responses=GONE)
async def delete_user(broker: Broker, caller: Administrator, user: UserName) -> Response:
    """Take a user away with its permissions, and end its connections."""
    return await changed(broker, caller, "user.delete", {"user": user})


@router.get("/{user:name}/permissions")
async def list_permissions_of_user(broker: Broker, caller: Administrator, user: UserName) -> Response:
    """The permissions of a user, by vhost."""
    broker.directory.user(user)
    return as_json([permission_fields(each) for each in broker.directory.permissions(user)])


@router.get("/{user:name}/topic-permissions")
async def list_topic_permissions_of_user(broker: Broker, caller: Administrator, user: UserName) -> Response:
    """The restrictions of a user on topic exchanges."""
    broker.directory.user(user)
    return as_json([topic_fields(each) for each in broker.directory.topic_permissions(user)])


async def kept_hash(password: str | None, hash: str | None, algorithm: str | None) -> str:
    """The hash that is kept of a password; empty where nobody is to log in by one.

    The work of the hash, some 30 ms, is done beside the loop.
    """
    if password is not None and hash is not None:
        raise RequestError(INVALID, "both_password_and_password_hash_are_provided")
    if hash is not None:
        return imported_hash(hash, algorithm or "")
    if not password:
        return ""
    if len(password) > PASSWORD_CHARACTERS_MAX:
        raise RequestError(INVALID, f"password: has more than {PASSWORD_CHARACTERS_MAX} characters")
    return await asyncio.to_thread(hash_password, password, SystemRandom().octets(SALT_OCTETS))


def name_of(user: UserReading) -> str:
    return user.name
