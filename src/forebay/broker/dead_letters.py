"""Dead letters: what a consumer of queue `<queue>` rejects moves to the queue `$dlq/<queue>`.

The record moves with its topic and body as they are, and says where it was, as user properties or AMQP headers:

    dlq-queue, dlq-offset  the queue, and its offset there
    dlq-reason             `rejected`, or what the consumer gave as the reason
    dlq-deliveries         how often it had been delivered
    dlq-time-ms            when it moved, in milliseconds since 1970

What is rejected from a dead-letter queue is discarded. Only MQTT's `$reject` moves: what AMQP 0.9.1 clients reject is
discarded still.
"""

from __future__ import annotations

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from forebay.broker.topology import DEAD_LETTER_PREFIX
from forebay.broker.vhost import Route, Vhost
from forebay.core.errors import INVALID, PRECONDITION, REFUSED, RequestError
from forebay.core.message import FORMAT_MASK, MQTT, REJECTED
from forebay.log.block import Block
from forebay.queue.leases import Lease
from forebay.queue.queue import EPHEMERAL, Queue
from forebay.routing.exchange import text
from forebay.wire.amqp091 import TABLE_DEPTH_MAX, put_long_string, put_short, put_table, skip_table, skip_value
from forebay.wire.amqp091_properties import FLAGS_OCTETS, HEADERS, field_at, flags_of
from forebay.wire.mqtt_properties import USER_PROPERTY, Property, decode_properties, encode_properties

REASON: Final = b"rejected"
REASON_OCTETS_MAX: Final = 255
QUEUE_MARK: Final = b"dlq-queue"
OFFSET_MARK: Final = b"dlq-offset"
REASON_MARK: Final = b"dlq-reason"
DELIVERIES_MARK: Final = b"dlq-deliveries"
TIME_MARK: Final = b"dlq-time-ms"
MARKS: Final = (QUEUE_MARK, OFFSET_MARK, REASON_MARK, DELIVERIES_MARK, TIME_MARK)


def dead_letter_queue(vhost: Vhost, name: bytes) -> Queue:
    """The queue `$dlq/<queue>`, made where there is none: as durable as the queue whose dead letters it takes.

    raises  RequestError: NOT_FOUND if neither is there; PRECONDITION if it would forget what the queue keeps
    """
    queue = vhost.queues.get(name)
    if queue is not None:
        source = vhost.queues.get(name[len(DEAD_LETTER_PREFIX) :])
        if source is not None and source.log.durable and not queue.log.durable:
            raise RequestError(
                PRECONDITION,
                f"queue '{text(name)}' is not durable, but queue '{text(source.name)}' is: delete the former first",
            )
        return queue
    source = vhost.queue(name[len(DEAD_LETTER_PREFIX) :])
    if source.kind == EPHEMERAL:
        return vhost.ephemeral_queue(name)
    return vhost.declare_queue(name, source.log.durable, False, False, {}, 0)


def reject(vhost: Vhost, lease: Lease, offset: i64, reason: bytes) -> None:
    """Move a record that the lease holds to the dead-letter queue of its own; both are on disk together.

    reason  empty for the usual one
    raises  RequestError, and the record stays held: INVALID for the reason, REFUSED where there is no room for it,
            or what `dead_letter_queue` raises
    """
    queue = vhost.queues_by_id.get(lease.consumer.queue)
    if queue is None:
        return
    if not queue.name.startswith(DEAD_LETTER_PREFIX):
        if len(reason) > REASON_OCTETS_MAX:
            raise RequestError(INVALID, f"reason: {len(reason)} octets, at most {REASON_OCTETS_MAX}")
        target = dead_letter_queue(vhost, DEAD_LETTER_PREFIX + queue.name)
        block = queue.log.block(offset)
        assert block is not None and block.base <= offset, "a record that is held is in the log"
        values = [
            queue.name,
            b"%d" % offset,
            reason or REASON,
            b"%d" % lease.deliveries,
            b"%d" % (vhost.now_us // 1000),
        ]
        copy(vhost, block, offset - block.base, target, values)
    vhost.reject(lease, offset, 1)


def copy(vhost: Vhost, block: Block, index: i64, target: Queue, values: list[bytes]) -> None:
    """Append a record to a queue, with the values of `MARKS`."""
    format = block.format(index)
    properties = block.properties(index)
    if format & FORMAT_MASK == MQTT:
        properties = with_user_properties(properties, values)
    else:
        properties = with_headers(properties, values)
    route = Route(block.exchange(index), block.routing_key(index), [target], None)
    if vhost.publish(route, u8(format), properties, block.body(index)) == REJECTED:
        raise RequestError(REFUSED, f"queue '{text(target.name)}' cannot take it: {vhost.refusal}")


def with_user_properties(block: bytes, values: list[bytes]) -> bytes:
    """An MQTT property block with these marks, which replace those of an earlier death."""
    kept: list[Property] = []
    for each in decode_properties(block):
        if each.id != USER_PROPERTY or each.text not in MARKS:
            kept.append(each)
    for at, name in enumerate(MARKS):
        kept.append(Property(USER_PROPERTY, 0, name, values[at]))
    return encode_properties(kept)


def with_headers(properties: bytes, values: list[bytes]) -> bytes:
    """AMQP 0.9.1 properties with these marks as headers, the other headers octet by octet as they were."""
    flags = flags_of(properties)
    at = field_at(properties, HEADERS, TABLE_DEPTH_MAX)
    rest = at
    table = BytesWriter()
    if flags & HEADERS:
        rest = skip_table(properties, at, len(properties), TABLE_DEPTH_MAX)
        pos = at + 4
        while pos < rest:
            value_at = pos + 1 + i64(properties[pos])
            stop = skip_value(properties, value_at, rest, TABLE_DEPTH_MAX)
            if properties[pos + 1 : value_at] not in MARKS:
                table.write(properties[pos:stop])
            pos = stop
    fields: list[tuple[str, object]] = []
    for index, name in enumerate(MARKS):
        value = values[index]
        number = name in (OFFSET_MARK, DELIVERIES_MARK, TIME_MARK)
        fields.append((text(name), int(value) if number else value.decode("utf-8", "replace")))
    marks = BytesWriter()
    put_table(marks, fields)
    table.write(marks.getvalue()[4:])
    out = BytesWriter()
    put_short(out, flags | HEADERS)
    out.write(properties[FLAGS_OCTETS:at])
    put_long_string(out, table.getvalue())
    out.write(properties[rest:])
    return out.getvalue()
