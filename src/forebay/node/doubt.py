"""Errors of our own: which of them end one connection, and which the broker (ADR 19).

What is half done in that which all connections share would be made durable by this turn's frame, so an error there
stops the node before the frame is written; the next start reads what is on the disk. Where an error was is known by its
traceback, which costs nothing until there is one.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final

from forebay.core.errors import ForebayError, StorageError

# The log, and what vhosts and their queues are made of.
SHARED: Final = (
    "forebay.broker.",
    "forebay.directory.",
    "forebay.queue.",
    "forebay.log.",
    "forebay.management.definitions.",
    "forebay.management.groups",
)
# Modules that read, check or translate, and change nothing themselves: a caller that changes something is in the
# traceback as well.
APART: Final = (
    "forebay.message.address",
    "forebay.broker.consuming.consumer_arguments",
    "forebay.broker.audit",
    "forebay.directory.logins.login",
    "forebay.broker.publish.commands",
    "forebay.broker.properties",
    "forebay.directory.logins.authorizer",
    "forebay.directory.logins.passwords",
    "forebay.directory.permissions",
    "forebay.broker.primary",
    "forebay.directory.logins.saslprep",
    "forebay.directory.logins.scopes",
    "forebay.directory.logins.scram",
    "forebay.broker.mqtt.noted_sessions",
    "forebay.directory.logins.throttle",
    "forebay.directory.topic_acl",
    "forebay.log.block",
    "forebay.queue.declaration.arguments",
    "forebay.queue.properties",
    "forebay.queue.declaration.spec",
)
APART_STEPS: Final = (
    ("forebay.broker.publish.deduplication", "identity_of"),
    ("forebay.broker.publish.headers", "read_publish_headers"),
)
# Steps of sessions that belong together: half of one must not become durable.
WHOLE: Final = (
    ("forebay.session.amqp091.modes", "on_tx_commit"),
    ("forebay.session.mqtt.incoming.publish", "release"),
    ("forebay.session.mqtt.incoming.publish", "remember"),
    ("forebay.session.mqtt.incoming.publish", "write_answer"),
)


def leaves_doubt(error: BaseException) -> bool:
    """True if what all connections share may be half changed."""
    if isinstance(error, ForebayError) and not isinstance(error, StorageError):
        return False  # a refusal that nobody has answered: nothing changed
    at: TracebackType | None = error.__traceback__
    while at is not None:
        frame = at.tb_frame
        if is_shared(str(frame.f_globals.get("__name__")), frame.f_code.co_name):
            return True
        at = at.tb_next
    return False


def is_shared(module: str, step: str) -> bool:
    """True if an error in this function may leave something of all connections half changed."""
    if not module.startswith(SHARED):
        return (module, step) in WHOLE
    for name in APART:
        if module == name or (name.endswith(".") and module.startswith(name)):
            return False
    return (module, step) not in APART_STEPS
