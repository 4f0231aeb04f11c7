"""The performatives of AMQP 1.0 (parts 2.7 and 4.5 of the standard): each is a described list.

    open 0x10   begin 0x11   attach 0x12   flow 0x13   transfer 0x14   disposition 0x15   detach 0x16   end 0x17
    close 0x18   declare 0x31   discharge 0x32

A number field that the peer left out is ABSENT.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import MALFORMED, PeerError
from forebay.wire.amqp10.decoder import DEPTH_MAX, ValueReader, decode_value
from forebay.wire.amqp10.fields import (
    ABSENT,
    FieldReader,
    code_of,
    describe,
    true_or_none,
    ubyte_or_none,
    uint_or_none,
    ushort_or_none,
)
from forebay.wire.amqp10.states import Error, error_of, state_of
from forebay.wire.amqp10.termini import Coordinator, LinkSource, LinkTarget, source_of, target_of
from forebay.wire.amqp10.values import (
    Composite,
    Described,
    Map,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
    symbol_array,
    symbol_map,
)

OPEN: Final = 0x10
BEGIN: Final = 0x11
ATTACH: Final = 0x12
FLOW: Final = 0x13
TRANSFER: Final = 0x14
DISPOSITION: Final = 0x15
DETACH: Final = 0x16
END: Final = 0x17
CLOSE: Final = 0x18
DECLARE: Final = 0x31
DISCHARGE: Final = 0x32

PERFORMATIVE_NAMES: Final = {
    "amqp:open:list": OPEN,
    "amqp:begin:list": BEGIN,
    "amqp:attach:list": ATTACH,
    "amqp:flow:list": FLOW,
    "amqp:transfer:list": TRANSFER,
    "amqp:disposition:list": DISPOSITION,
    "amqp:detach:list": DETACH,
    "amqp:end:list": END,
    "amqp:close:list": CLOSE,
    "amqp:declare:list": DECLARE,
    "amqp:discharge:list": DISCHARGE,
}

UINT_MAX: Final = 0xFFFFFFFF
USHORT_MAX: Final = 0xFFFF

ROLE_SENDER: Final = False
ROLE_RECEIVER: Final = True

# Settle modes of senders and of receivers (sections 2.8.2 and 2.8.3).
SENDER_UNSETTLED: Final = 0
SENDER_SETTLED: Final = 1
SENDER_MIXED: Final = 2
RECEIVER_FIRST: Final = 0
RECEIVER_SECOND: Final = 1


@final
class Open(Composite):
    """The performative that opens a connection.

    hostname           host that the client intends to connect to; in RabbitMQ's form `vhost:NAME`
    idle_time_out_ms   longest time that the peer may send nothing; ABSENT or 0 for no limit
    """

    def __init__(self, container_id: str) -> None:
        super().__init__(OPEN)
        self.container_id = container_id
        self.hostname: str | None = None
        self.max_frame_size: i64 = UINT_MAX
        self.channel_max: i64 = USHORT_MAX
        self.idle_time_out_ms: i64 = ABSENT
        self.outgoing_locales: list[str] = []
        self.incoming_locales: list[str] = []
        self.offered_capabilities: list[str] = []
        self.desired_capabilities: list[str] = []
        self.properties: dict[str, object] | None = None

    def fields(self) -> list[object]:
        return [
            self.container_id,
            self.hostname,
            Uint(int(self.max_frame_size)) if self.max_frame_size != UINT_MAX else None,
            Ushort(int(self.channel_max)) if self.channel_max != USHORT_MAX else None,
            uint_or_none(self.idle_time_out_ms),
            symbol_array(self.outgoing_locales),
            symbol_array(self.incoming_locales),
            symbol_array(self.offered_capabilities),
            symbol_array(self.desired_capabilities),
            symbol_map(self.properties),
        ]


@final
class Begin(Composite):
    """The performative that begins a session.

    remote_channel  the peer's channel whose begin this answers, or ABSENT if this begin is the first
    """

    def __init__(self, next_outgoing_id: i64, incoming_window: i64, outgoing_window: i64) -> None:
        super().__init__(BEGIN)
        self.remote_channel: i64 = ABSENT
        self.next_outgoing_id: i64 = next_outgoing_id
        self.incoming_window: i64 = incoming_window
        self.outgoing_window: i64 = outgoing_window
        self.handle_max: i64 = UINT_MAX
        self.offered_capabilities: list[str] = []
        self.desired_capabilities: list[str] = []
        self.properties: dict[str, object] | None = None

    def fields(self) -> list[object]:
        return [
            ushort_or_none(self.remote_channel),
            Uint(int(self.next_outgoing_id)),
            Uint(int(self.incoming_window)),
            Uint(int(self.outgoing_window)),
            Uint(int(self.handle_max)) if self.handle_max != UINT_MAX else None,
            symbol_array(self.offered_capabilities),
            symbol_array(self.desired_capabilities),
            symbol_map(self.properties),
        ]


@final
class Attach(Composite):
    """The performative that attaches a link.

    role              ROLE_SENDER or ROLE_RECEIVER: the role of the peer that sends this frame
    unsettled         states of deliveries by tag, None or empty if none is resumed
    max_message_size  octets, 0 for no limit
    """

    def __init__(self, name: str, handle: i64, role: bool) -> None:
        super().__init__(ATTACH)
        self.name = name
        self.handle: i64 = handle
        self.role = role
        self.snd_settle_mode: i64 = SENDER_MIXED
        self.rcv_settle_mode: i64 = RECEIVER_FIRST
        self.source: LinkSource | None = None
        self.target: LinkTarget | Coordinator | None = None
        self.unsettled: Map | None = None
        self.incomplete_unsettled = False
        self.initial_delivery_count: i64 = ABSENT
        self.max_message_size: i64 = 0
        self.offered_capabilities: list[str] = []
        self.desired_capabilities: list[str] = []
        self.properties: dict[str, object] | None = None

    def fields(self) -> list[object]:
        return [
            self.name,
            Uint(int(self.handle)),
            self.role,
            Ubyte(int(self.snd_settle_mode)),
            Ubyte(int(self.rcv_settle_mode)),
            self.source,
            self.target,
            self.unsettled,
            true_or_none(self.incomplete_unsettled),
            uint_or_none(self.initial_delivery_count),
            Ulong(int(self.max_message_size)) if self.max_message_size else None,
            symbol_array(self.offered_capabilities),
            symbol_array(self.desired_capabilities),
            symbol_map(self.properties),
        ]


@final
class Flow(Composite):
    """The windows of a session, and with a handle also the credit of a link."""

    def __init__(self) -> None:
        super().__init__(FLOW)
        self.next_incoming_id: i64 = ABSENT
        self.incoming_window: i64 = 0
        self.next_outgoing_id: i64 = 0
        self.outgoing_window: i64 = 0
        self.handle: i64 = ABSENT
        self.delivery_count: i64 = ABSENT
        self.link_credit: i64 = ABSENT
        self.available: i64 = ABSENT
        self.drain = False
        self.echo = False
        self.properties: dict[str, object] | None = None

    def fields(self) -> list[object]:
        return [
            uint_or_none(self.next_incoming_id),
            Uint(int(self.incoming_window)),
            Uint(int(self.next_outgoing_id)),
            Uint(int(self.outgoing_window)),
            uint_or_none(self.handle),
            uint_or_none(self.delivery_count),
            uint_or_none(self.link_credit),
            uint_or_none(self.available),
            true_or_none(self.drain),
            true_or_none(self.echo),
            symbol_map(self.properties),
        ]


@final
class Transfer(Composite):
    """One frame of a delivery. The payload follows the performative.

    delivery_tag     None if absent
    settled          False if absent
    rcv_settle_mode  ABSENT if the frame does not override the link's
    state            delivery state, or None
    """

    def __init__(self) -> None:
        super().__init__(TRANSFER)
        self.handle: i64 = 0
        self.delivery_id: i64 = ABSENT
        self.delivery_tag: bytes | None = None
        self.message_format: i64 = ABSENT
        self.settled = False
        self.more = False
        self.rcv_settle_mode: i64 = ABSENT
        self.state: object = None
        self.resume = False
        self.aborted = False
        self.batchable = False

    def fields(self) -> list[object]:
        return [
            Uint(int(self.handle)),
            uint_or_none(self.delivery_id),
            self.delivery_tag,
            uint_or_none(self.message_format),
            true_or_none(self.settled),
            true_or_none(self.more),
            ubyte_or_none(self.rcv_settle_mode),
            self.state,
            true_or_none(self.resume),
            true_or_none(self.aborted),
            true_or_none(self.batchable),
        ]


@final
class Disposition(Composite):
    """The settlement or state of the deliveries `first` to `last`.

    role   ROLE_RECEIVER for deliveries that the sender of this frame received
    last   equal to `first` for a single delivery
    state  delivery state, or None
    """

    def __init__(self) -> None:
        super().__init__(DISPOSITION)
        self.role = ROLE_RECEIVER
        self.first: i64 = 0
        self.last: i64 = 0
        self.settled = False
        self.state: object = None
        self.batchable = False

    def fields(self) -> list[object]:
        return [
            self.role,
            Uint(int(self.first)),
            Uint(int(self.last)) if self.last != self.first else None,
            true_or_none(self.settled),
            self.state,
            true_or_none(self.batchable),
        ]


@final
class Detach(Composite):
    """The performative that detaches a link.

    closed  the link's terminus ends as well
    """

    def __init__(self, handle: i64, closed: bool = False, error: Error | None = None) -> None:
        super().__init__(DETACH)
        self.handle: i64 = handle
        self.closed = closed
        self.error = error

    def fields(self) -> list[object]:
        return [Uint(int(self.handle)), true_or_none(self.closed), self.error]


@final
class End(Composite):
    """The performative that ends a session."""

    def __init__(self, error: Error | None = None) -> None:
        super().__init__(END)
        self.error = error

    def fields(self) -> list[object]:
        return [self.error]


@final
class Close(Composite):
    """The performative that closes a connection."""

    def __init__(self, error: Error | None = None) -> None:
        super().__init__(CLOSE)
        self.error = error

    def fields(self) -> list[object]:
        return [self.error]


@final
class Declare(Composite):
    """The body of a message to a coordinator that begins a transaction."""

    def __init__(self, global_id: object = None) -> None:
        super().__init__(DECLARE)
        self.global_id = global_id

    def fields(self) -> list[object]:
        return [self.global_id]


@final
class Discharge(Composite):
    """The body of a message to a coordinator that commits a transaction, or rolls it back if `fail` is set."""

    def __init__(self, txn_id: bytes, fail: bool = False) -> None:
        super().__init__(DISCHARGE)
        self.txn_id = txn_id
        self.fail = fail

    def fields(self) -> list[object]:
        return [self.txn_id, true_or_none(self.fail)]


# ---- reading


def decode_performative(data: bytes, at: i64, end: i64, depth_max: i64 = DEPTH_MAX) -> Composite:
    """Return the performative in the octets [at, end). Raises PeerError(MALFORMED) unless they hold exactly one."""
    return performative_of(decode_value(data, at, end, depth_max))


def read_performative(reader: ValueReader) -> Composite:
    """Return the performative at the position of `reader`. Raises PeerError(MALFORMED) if there is none."""
    return performative_of(reader.value())


def performative_of(value: object) -> Composite:
    """Return a decoded value as a performative. Raises PeerError(MALFORMED) if it is anything else."""
    if not isinstance(value, Described):
        raise PeerError(MALFORMED, f"a performative is expected, not {describe(value)}")
    code = code_of(value, PERFORMATIVE_NAMES)
    body = value.value
    if code == TRANSFER:
        return transfer_of(FieldReader("transfer", body, 11))
    if code == DISPOSITION:
        return disposition_of(FieldReader("disposition", body, 6))
    if code == FLOW:
        return flow_of(FieldReader("flow", body, 11))
    if code == ATTACH:
        return attach_of(FieldReader("attach", body, 14))
    if code == DETACH:
        detach = FieldReader("detach", body, 3)
        return Detach(detach.required_uint(0, "handle"), detach.boolean(1, "closed"), error_of(detach, 2, "error"))
    if code == BEGIN:
        return begin_of(FieldReader("begin", body, 8))
    if code == END:
        return End(error_of(FieldReader("end", body, 1), 0, "error"))
    if code == OPEN:
        return open_of(FieldReader("open", body, 10))
    if code == CLOSE:
        return Close(error_of(FieldReader("close", body, 1), 0, "error"))
    if code == DECLARE:
        return Declare(FieldReader("declare", body, 1).value(0))
    if code == DISCHARGE:
        discharge = FieldReader("discharge", body, 2)
        return Discharge(discharge.required_binary(0, "txn-id"), discharge.boolean(1, "fail"))
    raise PeerError(MALFORMED, f"{describe(value.descriptor)} describes no performative")


def open_of(fields: FieldReader) -> Open:
    """Return the open performative with these fields."""
    made = Open(fields.required_string(0, "container-id"))
    made.hostname = fields.string(1, "hostname")
    made.max_frame_size = fields.uint(2, "max-frame-size", UINT_MAX)
    made.channel_max = fields.ushort(3, "channel-max", USHORT_MAX)
    made.idle_time_out_ms = fields.uint(4, "idle-time-out")
    made.outgoing_locales = fields.symbols(5, "outgoing-locales")
    made.incoming_locales = fields.symbols(6, "incoming-locales")
    made.offered_capabilities = fields.symbols(7, "offered-capabilities")
    made.desired_capabilities = fields.symbols(8, "desired-capabilities")
    made.properties = fields.symbol_map(9, "properties")
    return made


def begin_of(fields: FieldReader) -> Begin:
    """Return the begin performative with these fields."""
    made = Begin(
        fields.required_uint(1, "next-outgoing-id"),
        fields.required_uint(2, "incoming-window"),
        fields.required_uint(3, "outgoing-window"),
    )
    made.remote_channel = fields.ushort(0, "remote-channel")
    made.handle_max = fields.uint(4, "handle-max", UINT_MAX)
    made.offered_capabilities = fields.symbols(5, "offered-capabilities")
    made.desired_capabilities = fields.symbols(6, "desired-capabilities")
    made.properties = fields.symbol_map(7, "properties")
    return made


def attach_of(fields: FieldReader) -> Attach:
    """Return the attach performative with these fields."""
    made = Attach(
        fields.required_string(0, "name"), fields.required_uint(1, "handle"), fields.required_boolean(2, "role")
    )
    made.snd_settle_mode = fields.ubyte(3, "snd-settle-mode", SENDER_MIXED, SENDER_MIXED)
    made.rcv_settle_mode = fields.ubyte(4, "rcv-settle-mode", RECEIVER_SECOND, RECEIVER_FIRST)
    made.source = source_of(fields, 5)
    made.target = target_of(fields, 6)
    made.unsettled = fields.map(7, "unsettled")
    made.incomplete_unsettled = fields.boolean(8, "incomplete-unsettled")
    made.initial_delivery_count = fields.uint(9, "initial-delivery-count")
    made.max_message_size = fields.size(10, "max-message-size")
    made.offered_capabilities = fields.symbols(11, "offered-capabilities")
    made.desired_capabilities = fields.symbols(12, "desired-capabilities")
    made.properties = fields.symbol_map(13, "properties")
    return made


def flow_of(fields: FieldReader) -> Flow:
    """Return the flow performative with these fields."""
    made = Flow()
    made.next_incoming_id = fields.uint(0, "next-incoming-id")
    made.incoming_window = fields.required_uint(1, "incoming-window")
    made.next_outgoing_id = fields.required_uint(2, "next-outgoing-id")
    made.outgoing_window = fields.required_uint(3, "outgoing-window")
    made.handle = fields.uint(4, "handle")
    made.delivery_count = fields.uint(5, "delivery-count")
    made.link_credit = fields.uint(6, "link-credit")
    made.available = fields.uint(7, "available")
    made.drain = fields.boolean(8, "drain")
    made.echo = fields.boolean(9, "echo")
    made.properties = fields.symbol_map(10, "properties")
    return made


def transfer_of(fields: FieldReader) -> Transfer:
    """Return the transfer performative with these fields."""
    made = Transfer()
    made.handle = fields.required_uint(0, "handle")
    made.delivery_id = fields.uint(1, "delivery-id")
    made.delivery_tag = fields.binary(2, "delivery-tag")
    made.message_format = fields.uint(3, "message-format")
    made.settled = fields.boolean(4, "settled")
    made.more = fields.boolean(5, "more")
    made.rcv_settle_mode = fields.ubyte(6, "rcv-settle-mode", RECEIVER_SECOND, ABSENT)
    made.state = state_of(fields.value(7))
    made.resume = fields.boolean(8, "resume")
    made.aborted = fields.boolean(9, "aborted")
    made.batchable = fields.boolean(10, "batchable")
    return made


def disposition_of(fields: FieldReader) -> Disposition:
    """Return the disposition performative with these fields."""
    made = Disposition()
    made.role = fields.required_boolean(0, "role")
    made.first = fields.required_uint(1, "first")
    made.last = fields.uint(2, "last", made.first)
    made.settled = fields.boolean(3, "settled")
    made.state = state_of(fields.value(4))
    made.batchable = fields.boolean(5, "batchable")
    return made
