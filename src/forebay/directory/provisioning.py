"""Users as the tools of RabbitMQ set them: whole, whether they are there already or not, and with any tags."""

from __future__ import annotations

from typing import Final

from forebay.core.errors import INVALID, RequestError
from forebay.directory.logins.passwords import check_hash
from forebay.directory.user_commands import PutUser
from forebay.directory.users import NAME_CHARACTERS_MAX, Users

TAG_CHARACTERS_MAX: Final = 255


def put_user(users: Users, name: str, hash: str, tags: list[str]) -> bool:
    """Make a user, or set what is kept of its password and its tags; whether it is new.

    hash    of the password; empty: nobody can log in by a password
    tags    also such as mean nothing to the broker
    raises  RequestError: INVALID, REFUSED for a user of the configuration
    """
    check_user(name, hash, tags)
    known = users.by_name.get(name)
    if known is not None:
        users.changeable(name)
    users.execute(PutUser(name, hash, list(tags)))  # a certificate of that name no longer says all
    if known is None:
        users.tell("user.created", {"user": name, "tags": list(tags)})
    else:
        users.tell("user.changed", {"user": name, "what": "password and tags", "tags": list(tags)})
    return known is None


def check_user(name: str, hash: str, tags: list[str]) -> None:
    """RequestError(INVALID) unless there can be such a user."""
    if not name or len(name) > NAME_CHARACTERS_MAX:
        raise RequestError(INVALID, f"user: a name has 1 to {NAME_CHARACTERS_MAX} characters, '{name[:80]}' has not")
    for tag in tags:
        if not 0 < len(tag) <= TAG_CHARACTERS_MAX:
            raise RequestError(INVALID, f"tags: a tag has 1 to {TAG_CHARACTERS_MAX} characters, '{tag[:80]}' has not")
    if hash:
        check_hash(hash)
