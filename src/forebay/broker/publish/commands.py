"""Publishes that are no messages but commands to the broker, as their addresses say.

Over AMQP 0.9.1, through the default exchange:

    $queue/<name>/$commit            the stream group of the header x-group-id resumes at x-offset
    $queue/<name>/$extend            a message may be held longer
    $queue/<name>/$query             the answer to a query goes to the address in reply-to
    $delayed/cancel/<id>             a delayed message is forgotten, by its x-delay-id or its number
    amq.rabbitmq.reply-to.<name>     an answer for whoever has that name

Over MQTT `$queue/<queue>[/<key>]/$ack`, `$nack`, `$reject`, `$extend` and `$commit`, and the same below `$dlq/<queue>`;
`$queue/<queue>/$query`.
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.broker.publish.replies import REPLY_PREFIX
from forebay.message.address import DEAD_LETTER_PREFIX, QUEUE_PREFIX

CANCEL_PREFIX: Final = b"$delayed/cancel/"

# Meanings of a publish over AMQP 0.9.1.
MESSAGE: Final = 0
COMMIT_OFFSET: Final = 1
CANCEL_DELAYED: Final = 2
REPLY: Final = 3
EXTEND_LEASE: Final = 4
QUERY_QUEUE: Final = 5
ABOUT_QUEUES: Final = (COMMIT_OFFSET, EXTEND_LEASE, QUERY_QUEUE)  # whoever may read the queue may do these

# The last words of topics that are commands.
ACK: Final = b"$ack"
NACK: Final = b"$nack"
REJECT: Final = b"$reject"
EXTEND: Final = b"$extend"
COMMIT: Final = b"$commit"
QUERY: Final = b"$query"
TOPIC_COMMANDS: Final = (ACK, NACK, REJECT, EXTEND, COMMIT)
DOLLAR: Final = 0x24


def command_at(exchange: bytes, key: bytes) -> tuple[i64, bytes]:
    """Return the broker command that a publish to this address stands for, and its subject."""
    if exchange:
        return MESSAGE, b""
    if key.startswith(QUEUE_PREFIX):
        name, _, rest = key[7:].partition(b"/")
        if name and rest == COMMIT:
            return COMMIT_OFFSET, name
        if name and rest == EXTEND:
            return EXTEND_LEASE, name
        if name and rest == QUERY:
            return QUERY_QUEUE, name
    elif key.startswith(REPLY_PREFIX):
        return REPLY, key
    elif key.startswith(CANCEL_PREFIX):
        return CANCEL_DELAYED, key[len(CANCEL_PREFIX) :]
    return MESSAGE, b""


def topic_command_at(topic: bytes) -> i64:
    """Return the index of the command in `$queue/<queue>[/<key>]/$<command>`, or 0 for other topics.

    Directly behind the queue's name, where no key is, every word with a dollar is taken for one.
    """
    cut = name_end(topic)
    last: i64 = topic.rfind(b"/")
    if cut < 0 or last + 1 >= len(topic) or topic[last + 1] != DOLLAR:
        return 0
    return last + 1 if last == cut or topic[last + 1 :] in TOPIC_COMMANDS else 0


def name_end(topic: bytes) -> i64:
    """Return the index of the end of the queue name in `$queue/<queue>/...` or `$dlq/<queue>/...`, or -1."""
    name_at: i64 = 7
    if not topic.startswith(QUEUE_PREFIX):
        if not topic.startswith(DEAD_LETTER_PREFIX):
            return -1
        name_at = 5
    return topic.find(b"/", name_at)
