"""Operations on users and on what they may do."""

from __future__ import annotations

from functools import partial
from typing import Final

from forebay.broker.auth.provisioning import put_user
from forebay.management.arguments import PAGE, TABLE, TEXT, TEXTS, VHOST, Arguments, Parameter
from forebay.management.control import Control, operation, page

USER: Final = Parameter("user", TEXT, "its name")
PASSWORD: Final = Parameter("password", TEXT, "or its Argon2id hash; without, none is right", False, "")
TAGS: Final = Parameter("tags", TEXTS, "of administrator, management, monitoring and policymaker")
WRITE: Final = Parameter("write", TEXT, "regular expression: where it may publish, and what it may bind")
READ: Final = Parameter("read", TEXT, "regular expression: what it may consume, and bind to")
EXCHANGE: Final = Parameter("exchange", TEXT, "a topic exchange")
OF_USER: Final = Parameter("user", TEXT, "only of this user", False)
OF_VHOST: Final = Parameter("vhost", TEXT, "only in this vhost", False)


@operation("user.list", *PAGE)
def list_users(control: Control, given: Arguments) -> dict[str, object]:
    """List all users; those of the configuration cannot be changed here."""
    return page(given, [partial(dict, fields) for fields in control.vhosts.users.list_users()])


@operation("user.add", USER, PASSWORD, Parameter(TAGS.name, TEXTS, TAGS.doc, False), changes=True)
def add_user(control: Control, given: Arguments) -> dict[str, object]:
    """Create a user; it has no permissions yet."""
    control.vhosts.users.add(given.text("user"), given.text("password"), given.texts("tags"))
    return {}


@operation(
    "user.put",
    USER,
    Parameter("hash", TEXT, "Argon2id hash of the password; without, none is right", False, ""),
    Parameter(TAGS.name, TEXTS, "also such as mean nothing to the broker"),
    changes=True,
)
def put_whole_user(control: Control, given: Arguments) -> dict[str, object]:
    """Create a user, or set the password and tags of an existing one, as RabbitMQ's tools do."""
    put_user(control.vhosts.users, given.text("user"), given.text("hash"), given.texts("tags"))
    return {}


@operation("user.delete", USER, changes=True)
def delete_user(control: Control, given: Arguments) -> dict[str, object]:
    """Delete a user with its permissions."""
    control.vhosts.users.delete(given.text("user"))
    return {}


@operation("user.password", USER, PASSWORD, changes=True)
def change_password(control: Control, given: Arguments) -> dict[str, object]:
    """Set a user's password; its connections remain."""
    control.vhosts.users.change_password(given.text("user"), given.text("password"))
    return {}


@operation("user.tags", USER, TAGS, changes=True)
def set_tags(control: Control, given: Arguments) -> dict[str, object]:
    """Replace a user's tags."""
    control.vhosts.users.set_tags(given.text("user"), given.texts("tags"))
    return {}


@operation(
    "user.limits",
    USER,
    Parameter("limits", TABLE, "connections_max and channels_max at one time; -1 sets no limit"),
    changes=True,
)
def set_limits(control: Control, given: Arguments) -> dict[str, object]:
    """Limit a user's connections and channels, over all vhosts; those that are open remain."""
    control.vhosts.users.set_limits(given.text("user"), given.table("limits"))
    return {}


@operation("permission.list", OF_USER, OF_VHOST, *PAGE)
def list_permissions(control: Control, given: Arguments) -> dict[str, object]:
    """List permissions. Users of the configuration without any may do everything."""
    return page(given, [partial(dict, fields) for fields in control.vhosts.users.list_permissions(*chosen(given))])


@operation(
    "permission.set",
    VHOST,
    USER,
    Parameter("configure", TEXT, "regular expression: what it may make and delete"),
    WRITE,
    READ,
    changes=True,
)
def set_permission(control: Control, given: Arguments) -> dict[str, object]:
    """Let a user enter a vhost, with permissions for the names that match the patterns."""
    control.vhosts.users.set_permissions(
        given.text("user"), given.octets("vhost"), given.text("configure"), given.text("write"), given.text("read")
    )
    return {}


@operation("permission.clear", VHOST, USER, changes=True)
def clear_permission(control: Control, given: Arguments) -> dict[str, object]:
    """Delete a user's permissions in a vhost, which it then cannot enter."""
    control.vhosts.users.clear_permissions(given.text("user"), given.octets("vhost"))
    return {}


@operation("topic_permission.list", OF_USER, OF_VHOST, *PAGE)
def list_topic_permissions(control: Control, given: Arguments) -> dict[str, object]:
    """List the restrictions of users on topic exchanges."""
    users = control.vhosts.users
    return page(given, [partial(dict, fields) for fields in users.list_topic_permissions(*chosen(given))])


@operation("topic_permission.set", VHOST, USER, EXCHANGE, WRITE, READ, changes=True)
def set_topic_permission(control: Control, given: Arguments) -> dict[str, object]:
    """Restrict a user to the routing keys of a topic exchange that match the patterns."""
    control.vhosts.users.set_topic_permissions(
        given.text("user"), given.octets("vhost"), given.octets("exchange"), given.text("write"), given.text("read")
    )
    return {}


@operation(
    "topic_permission.clear",
    VHOST,
    USER,
    Parameter(EXCHANGE.name, TEXT, "that of this exchange; all if not given", False),
    changes=True,
)
def clear_topic_permission(control: Control, given: Arguments) -> dict[str, object]:
    """Lift a user's restriction on topic exchanges."""
    exchange = given.octets("exchange") if "exchange" in given else None
    control.vhosts.users.clear_topic_permissions(given.text("user"), given.octets("vhost"), exchange)
    return {}


def chosen(given: Arguments) -> tuple[str | None, bytes | None]:
    """User and vhost that a list is about; None for all."""
    user = given.text("user") if "user" in given else None
    return user, given.octets("vhost") if "vhost" in given else None
