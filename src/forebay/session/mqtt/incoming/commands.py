"""Commands to a queue that an MQTT client publishes to `$queue/<queue>/$ack`, `$nack`, `$reject`, `$extend`, `$commit`.

The fields are user properties of the publish; its payload is ignored. To a dead-letter queue, whose name is
`$dlq/<queue>`, the same is said at `$dlq/<queue>/$ack` and so on. A delivery's own topic with the command behind it,
`$queue/<queue>/<key>/$ack`, says the same; `message-id` tells the queue then, for its name need not be in the topic.

Only who holds a message settles it. Where the queue is sublet, all of its group may, also before anybody holds it or it
is published.

    $ack      message-id `<queue>:<offset>`, group-id
    $nack     message-id, group-id, delay-ms (absent: at once)
    $reject   message-id, group-id, reason (may be absent): it goes to the dead-letter queue
    $extend   message-id, group-id, extend-ms from now on (absent: the queue's visibility timeout)
    $commit   group-id, offset: where a stream group resumes
    $query    the payload is a query, whose answer goes to the response topic
"""

from __future__ import annotations

from typing import Final

from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.broker.publish.commands import ACK, COMMIT, EXTEND, NACK, TOPIC_COMMANDS, name_end
from forebay.broker.query.replies import QueryReply
from forebay.core.errors import INVALID, NOT_FOUND, REFUSED, RequestError
from forebay.core.message import MQTT
from forebay.core.reading.nearest import slip_of
from forebay.directory.permissions import Rights
from forebay.message.address import QUEUE_PREFIX
from forebay.message.formats.table import TOPIC_FORMAT

DIGITS_MAX: Final = 18  # an i64 holds any number of so many digits
DURATION_MS_MAX: Final = 10**10
SHOWN_MAX: Final = 100
FIELDS: Final = ("message-id", "group-id", "delay-ms", "extend-ms", "reason", "offset")


def commanded_queue(topic: bytes, at: i64, block: bytes) -> bytes:
    """The queue that a command is for, `at` being where it stands; RequestError(INVALID) where nothing says that."""
    cut = name_end(topic)
    if cut + 1 != at and topic[at:] != COMMIT:
        value = TOPIC_FORMAT.header(block, b"message-id")
        if value is None:
            raise RequestError(INVALID, "message-id: missing")
        colon: i64 = value.rfind(b":")
        if colon <= 0:
            raise RequestError(INVALID, f"message-id: {shown(value)} is not <queue>:<offset>")
        return value[:colon]
    return topic[7:cut] if topic.startswith(QUEUE_PREFIX) else topic[:cut]


def run_command(vhost: VhostContract, queue: bytes, command: bytes, block: bytes, session_id: i64) -> None:
    """Do what a command says to a queue.

    block       checked property block
    session_id  of the connection that says it
    raises      RequestError, with the field and its value: INVALID if a field is bad, NOT_FOUND if nothing is meant by
                it, REFUSED where somebody else holds the message; and what `DeadLetters.reject` raises
    """
    group = TOPIC_FORMAT.header(block, b"group-id")
    if command == COMMIT:
        if group is None:
            raise RequestError(INVALID, "group-id: missing")
        vhost.settlement.commit_offset(queue, group, number_field(block, "offset", -1))
        return
    if command not in TOPIC_COMMANDS:
        raise RequestError(
            INVALID, f"topic: {shown(command)} is no command; there are $ack, $nack, $reject, $extend, $commit, $query"
        )
    offset = message_offset(block, queue)
    group = b"" if group is None else group
    lease = vhost.settlement.find_lease(queue, group, offset)
    if lease is None:
        if command == ACK and vhost.settlement.acknowledge_waiting(queue, group, offset, session_id):
            return
        raise RequestError(
            NOT_FOUND, f"message-id: {shown(queue)}:{offset} is not held by anybody in group-id {shown(group)}"
        )
    if not vhost.settlement.may_settle(lease, session_id):
        raise RequestError(REFUSED, f"message-id: {shown(queue)}:{offset} is held by somebody else")
    if command == ACK:
        vhost.settlement.ack(lease, offset, 1)
        return
    check_fields(block)  # an acknowledgement has no field that may be left out, and there are many of them
    if command == NACK:
        vhost.settlement.nack(lease, offset, 1, number_field(block, "delay-ms", 0))
    elif command == EXTEND:
        vhost.settlement.extend(lease, offset, 1, extension(block))
    else:
        vhost.reject_for(lease, offset, TOPIC_FORMAT.header(block, b"reason") or b"")


def ask_query(vhost: VhostContract, rights: Rights, queue: bytes, block: bytes, body: bytes, session_id: i64) -> None:
    """Begin the query in the payload of a publish, whose answer goes to its response topic. Raises Undecided."""
    request = TOPIC_FORMAT.decode(block)
    if not request.reply_topic:
        raise RequestError(INVALID, "response topic: missing; a query needs a place for its answer")
    topic = request.reply_topic.encode()
    rights.check_publish_topic(topic)
    vhost.query_requests.ask(queue, body, QueryReply(MQTT, b"", topic, request), session_id, rights.user)


def check_fields(block: bytes) -> None:
    """RequestError where a user property looks like a field of a command; others are the client's own."""
    for name in TOPIC_FORMAT.headers(block):
        meant = slip_of(name, FIELDS)
        if meant:
            raise RequestError(INVALID, f"{name}: nothing puts it in force; did you mean {meant}?")


def extension(block: bytes) -> i64:
    """The number in `extend-ms`, which may not be 0; 0 where it is absent."""
    found = number_field(block, "extend-ms", 0)
    if found == 0 and TOPIC_FORMAT.header(block, b"extend-ms") is not None:
        raise RequestError(INVALID, "extend-ms: 0 is not above 0")
    return found


def message_offset(block: bytes, queue: bytes) -> i64:
    """The offset in the user property `message-id`, which must be one of this queue."""
    value = TOPIC_FORMAT.header(block, b"message-id")
    if value is None:
        raise RequestError(INVALID, "message-id: missing")
    cut = value.rfind(b":")
    if cut < 0 or value[:cut] != queue:
        raise RequestError(INVALID, f"message-id: {shown(value)} is not {shown(queue)}:<offset>")
    return number(value[cut + 1 :], "message-id", value)


def number_field(block: bytes, name: str, default: i64) -> i64:
    """The number in a user property; a negative default means that there must be one."""
    value = TOPIC_FORMAT.header(block, name.encode())
    if value is None:
        if default < 0:
            raise RequestError(INVALID, f"{name}: missing")
        return default
    found = number(value, name, value)
    if name != "offset" and found > DURATION_MS_MAX:
        raise RequestError(INVALID, f"{name}: {found} is more than {DURATION_MS_MAX}")
    return found


def number(digits: bytes, name: str, value: bytes) -> i64:
    if not digits.isdigit() or len(digits) > DIGITS_MAX:
        raise RequestError(INVALID, f"{name}: {shown(value)} is no number of at most {DIGITS_MAX} digits")
    return int(digits)


def shown(value: bytes) -> str:
    """The client's words, for a reason string."""
    return repr(value[:SHOWN_MAX].decode("utf-8", "replace"))
