"""Spans of messages: published, queued, delivered, settled.

A message is traced if it brings a trace context that is sampled (W3C's `traceparent`, among the headers of AMQP or the
user properties of MQTT), or if its turn comes by the ratio of the options: then its trace begins here. The message
itself stays as it is. Identifiers of spans are made of the record's place, so that nothing has to be remembered from
publish to delivery.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, TraceFlags, TraceState

import forebay
from forebay.broker.mqtt.fanout import topic_at
from forebay.broker.shared.turn_trace import SealedBlock
from forebay.broker.vhost import Vhost
from forebay.log.block import Block
from forebay.message.formats.table import format_of
from forebay.node.telemetry.tracing import Tracer
from forebay.queue.leases.lease import Delivery, Lease
from forebay.queue.leases.page import DEAD_LETTER, LEASED, PAGE_BITS, SETTLED
from forebay.queue.work.work_group import WorkGroup
from forebay.routing.exchange import text

PARENT: Final = b"traceparent"
PARENT_FORM: Final = re.compile(rb"00-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})")
TEXT_MAX: Final = 512
HELD_MAX: Final = 10_000  # deliveries whose settlement is awaited; beyond it the oldest is forgotten
LOOKS_A_TURN: Final = 200  # of those, looked at in one turn
SPANS_A_TURN: Final = 500
MILLION: Final = 1_000_000
NANOSECONDS: Final = 1000
SCOPE: Final = InstrumentationScope("forebay", forebay.__version__)

Emit = Callable[[ReadableSpan], None]
Attributes = dict[str, str | int]


@dataclass(frozen=True, slots=True)
class Context:
    """A message's trace.

    span   of which the broker's are children; 0: the trace begins here
    state  of vendors, as it came
    """

    trace: int
    span: int
    state: TraceState | None


@dataclass(frozen=True, slots=True)
class OpenDelivery:
    """A delivery that is not settled so far."""

    vhost: Vhost
    lease: Lease
    queue: int
    group: int
    offset: int
    context: Context
    parent: int
    attributes: Attributes
    since_us: int


def text_in(properties: bytes, name: str, format: int) -> bytes:
    """A text among headers or user properties; empty where there is none of that name."""
    found = format_of(format).header(properties, name.encode())
    return b"" if found is None or len(found) > TEXT_MAX else found


def context_of(properties: bytes, format: int) -> Context | None:
    """The sampled trace context that a message brings; None without one, or where it cannot be read."""
    if PARENT not in properties:
        return None
    found = PARENT_FORM.fullmatch(text_in(properties, "traceparent", format))
    if found is None or not int(found[3], 16) & TraceFlags.SAMPLED:
        return None
    trace, span = int(found[1], 16), int(found[2], 16)
    if not trace or not span:
        return None
    state = text_in(properties, "tracestate", format)[:TEXT_MAX]
    return Context(trace, span, TraceState.from_header([state.decode("latin-1")]) if state else None)


def made_number(octets: int, *parts: object) -> int:
    """A number that these parts always make, never 0."""
    digest = blake2b(repr(parts).encode(), digest_size=octets).digest()
    return int.from_bytes(digest, "big") or 1


class MessageTracer(Tracer):
    """Makes the spans and hands them on; `emit` must not block.

    per_million  of a million messages without a context of their own, how many are traced
    secret       makes the identifiers of this broker's traces its own
    """

    def __init__(self, emit: Emit, resource: Resource, per_million: int, secret: bytes) -> None:
        self.emit = emit
        self.resource = resource
        self.every = MILLION // per_million if per_million else 0
        self.secret = secret.hex()
        self.held: deque[OpenDelivery] = deque()
        self.left = SPANS_A_TURN

    # ---- what happens

    def sealed(self, sealed: Sequence[SealedBlock], now_us: int) -> None:
        for each in sealed:
            block = each.block
            if not self.every and PARENT not in block.data:
                continue
            queue = int(each.queue.source.number)
            for index in range(block.count):
                context = self.context(block, index, queue)
                if context is None or self.left <= 0:
                    continue
                attributes = attributes_of(block, index, text(each.queue.name), text(each.vhost))
                stamp_us = int(block.timestamp_us(index))
                own = self.span_id("publish", queue, block.base + index)
                self.span("publish", SpanKind.SERVER, context, context.span, own, attributes, stamp_us, now_us)

    def delivered(self, delivery: Delivery, vhost: Vhost, now_us: int) -> None:
        block = delivery.block
        consumer = delivery.consumer
        queue = int(consumer.log_number)
        if not self.every and PARENT not in block.data:
            return
        for index in range(delivery.index, delivery.index + delivery.count):
            context = self.context(block, index, queue)
            if context is None or self.left <= 0:
                continue
            offset = int(block.base + index)
            name = text(consumer.queue_name) if queue > 0 else text(topic_at(block, index))
            attributes = attributes_of(block, index, name, text(vhost.name))
            attributes["messaging.forebay.delivery"] = int(delivery.deliveries)
            if consumer.group_name:
                attributes["messaging.consumer.group.name"] = text(consumer.group_name)
            stamp_us = int(block.timestamp_us(index))
            published = self.span_id("publish", queue, offset) if queue > 0 else context.span
            queued = self.span_id("queued", queue, offset, delivery.deliveries, now_us)
            out = self.span_id("deliver", queue, offset, delivery.deliveries, now_us, consumer.session_id)
            if queue > 0:
                self.span("queued", SpanKind.INTERNAL, context, published, queued, attributes, stamp_us, now_us)
            parent = queued if queue > 0 else context.span
            self.span("deliver", SpanKind.PRODUCER, context, parent, out, attributes, now_us, now_us)
            if delivery.lease is not None:
                self.hold(
                    OpenDelivery(
                        vhost,
                        delivery.lease,
                        int(consumer.queue),
                        int(consumer.group),
                        offset,
                        context,
                        out,
                        attributes,
                        now_us,
                    )
                )

    def hold(self, held: OpenDelivery) -> None:
        if len(self.held) >= HELD_MAX:
            self.held.popleft()
        self.held.append(held)

    def turned(self, now_us: int) -> None:
        self.left = SPANS_A_TURN
        for _ in range(min(LOOKS_A_TURN, len(self.held))):
            held = self.held.popleft()
            outcome = outcome_of(held)
            if not outcome:
                self.held.append(held)
                continue
            own = self.span_id("settle", held.queue, held.offset, held.parent)
            attributes = {**held.attributes, "messaging.forebay.outcome": outcome}
            self.span("settle", SpanKind.CONSUMER, held.context, held.parent, own, attributes, held.since_us, now_us)

    # ---- spans

    def context(self, block: Block, index: int, queue: int) -> Context | None:
        """The trace that a record belongs to; None where it has none."""
        properties = block.properties(index)
        if PARENT in properties:
            return context_of(properties, int(block.format(index)))
        offset = int(block.base + index)
        if not self.every or queue <= 0 or offset % self.every:
            return None
        return Context(made_number(16, self.secret, queue, offset), 0, None)

    def span_id(self, what: str, *place: object) -> int:
        return made_number(8, self.secret, what, *[str(each) for each in place])

    def span(
        self,
        what: str,
        kind: SpanKind,
        context: Context,
        parent: int,
        own: int,
        attributes: Attributes,
        start_us: int,
        end_us: int,
    ) -> None:
        self.left -= 1
        sampled = TraceFlags(TraceFlags.SAMPLED)
        named = {**attributes, "messaging.operation.name": what, "messaging.operation.type": OPERATIONS[what]}
        self.emit(
            ReadableSpan(
                f"{what} {attributes['messaging.destination.name']}",
                SpanContext(context.trace, own, False, sampled, context.state),
                SpanContext(context.trace, parent, parent == context.span, sampled, context.state) if parent else None,
                self.resource,
                named,
                kind=kind,
                start_time=start_us * NANOSECONDS,
                end_time=max(start_us, end_us) * NANOSECONDS,
                instrumentation_scope=SCOPE,
            )
        )


# The names of OpenTelemetry's semantic conventions.
OPERATIONS: Final = {"publish": "send", "queued": "process", "deliver": "receive", "settle": "settle"}


def attributes_of(block: Block, index: int, destination: str, vhost: str) -> Attributes:
    """The attributes that the semantic conventions for messaging ask for, and ours."""
    return {
        "messaging.system": "forebay",
        "messaging.destination.name": destination,
        "messaging.message.body.size": int(block.body_span(index, 1)),
        "messaging.rabbitmq.destination.routing_key": text(block.routing_key(index)),
        "messaging.forebay.exchange": text(block.exchange(index)),
        "messaging.forebay.vhost": vhost,
        "messaging.forebay.offset": int(block.base + index),
    }


def outcome_of(held: OpenDelivery) -> str:
    """The outcome of a delivery; empty while the consumer has it."""
    queue = held.vhost.catalog.queues_by_id.get(held.queue)
    if queue is None:
        return "gone"
    group = queue.groups.get(held.group)
    if not isinstance(group, WorkGroup):
        return "settled" if held.lease.left == 0 else ""
    page = group.settlement.pages.get(held.offset >> PAGE_BITS)
    if page is None:
        return "settled"
    state = page.states[held.offset - page.base]
    if state == LEASED:
        return "" if group.leases.find(held.offset) is held.lease else "returned"
    return "settled" if state == SETTLED else "died" if state == DEAD_LETTER else "returned"
