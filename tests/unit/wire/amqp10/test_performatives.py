"""The performatives of AMQP 1.0: their fields, defaults, and what is refused."""

from __future__ import annotations

import pytest

from forebay.core.errors import MALFORMED, PeerError
from forebay.wire.amqp10.encoder import encode_value
from forebay.wire.amqp10.fields import ABSENT
from forebay.wire.amqp10.performatives import (
    RECEIVER_SECOND,
    ROLE_RECEIVER,
    ROLE_SENDER,
    SENDER_MIXED,
    SENDER_SETTLED,
    Attach,
    Begin,
    Close,
    Declare,
    Detach,
    Discharge,
    Disposition,
    End,
    Flow,
    Open,
    Transfer,
    decode_performative,
)
from forebay.wire.amqp10.sasl import (
    SASL_SYS_TEMP,
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
    decode_sasl,
)
from forebay.wire.amqp10.states import (
    IS_ACCEPTED,
    IS_RELEASED,
    Accepted,
    DeclaredState,
    Error,
    Modified,
    Received,
    Rejected,
    Released,
    TransactionalState,
    state_of,
)
from forebay.wire.amqp10.termini import (
    COPY,
    DELETE_ON_CLOSE,
    DELETE_ON_NO_LINKS_OR_MESSAGES,
    NEVER,
    Coordinator,
    LifetimePolicy,
    LinkSource,
    LinkTarget,
    lifetime_of,
)
from forebay.wire.amqp10.values import (
    SYMBOL_32,
    Array,
    Byte,
    Composite,
    Described,
    Map,
    Symbol,
    Ubyte,
    Uint,
    Ulong,
    Ushort,
)

ERROR = Error("amqp:not-found", "no queue 'q'", {"queue": "q"})


def full_open() -> Open:
    made = Open("client")
    made.hostname = "vhost:/"
    made.max_frame_size = 131_072
    made.channel_max = 63
    made.idle_time_out_ms = 30_000
    made.outgoing_locales = ["en-US"]
    made.incoming_locales = ["en-US", "de"]
    made.offered_capabilities = ["ANONYMOUS-RELAY"]
    made.desired_capabilities = ["SHARED-SUBS"]
    made.properties = {"product": "RabbitMQ", "version": "4.1.0", "n": Uint(1)}
    return made


def full_begin() -> Begin:
    made = Begin(0xFFFFFFFD, 400, 0xFFFFFFFF)
    made.remote_channel = 0
    made.handle_max = 255
    made.offered_capabilities = ["a"]
    made.desired_capabilities = ["b"]
    made.properties = {}
    return made


def full_attach() -> Attach:
    made = Attach("link", 0, ROLE_RECEIVER)
    made.snd_settle_mode = SENDER_SETTLED
    made.rcv_settle_mode = RECEIVER_SECOND
    source = LinkSource("/queues/q")
    source.durable = 2
    source.expiry_policy = NEVER
    source.timeout = 9
    source.dynamic = True
    source.dynamic_properties = {"supported-dist-modes": Symbol("move")}
    source.distribution_mode = COPY
    source.filter = {"selector": Described(Symbol("apache.org:selector-filter:string"), "a = 1")}
    source.default_outcome = Modified(delivery_failed=True)
    source.outcomes = ["amqp:accepted:list", "amqp:modified:list"]
    source.capabilities = ["queue"]
    made.source = source
    target = LinkTarget("t")
    target.durable = 1
    target.expiry_policy = "link-detach"
    target.timeout = 1
    target.dynamic = True
    target.dynamic_properties = {}
    target.capabilities = ["temporary-queue"]
    made.target = target
    made.unsettled = Map([(b"t", None)])
    made.incomplete_unsettled = True
    made.initial_delivery_count = 0
    made.max_message_size = 1 << 40
    made.offered_capabilities = ["shared"]
    made.desired_capabilities = ["global"]
    made.properties = {"paired": True}
    return made


def full_flow() -> Flow:
    made = Flow()
    made.next_incoming_id = 0
    made.incoming_window = 400
    made.next_outgoing_id = 0xFFFFFFFF
    made.outgoing_window = 256
    made.handle = 3
    made.delivery_count = 0
    made.link_credit = 100
    made.available = 5
    made.drain = True
    made.echo = True
    made.properties = {"rabbitmq:active": True}
    return made


def full_transfer() -> Transfer:
    made = Transfer()
    made.handle = 1
    made.delivery_id = 0
    made.delivery_tag = b"tag"
    made.message_format = 0
    made.settled = True
    made.more = True
    made.rcv_settle_mode = 1
    made.state = TransactionalState(b"txn")
    made.resume = True
    made.aborted = True
    made.batchable = True
    return made


def full_disposition() -> Disposition:
    made = Disposition()
    made.role = ROLE_SENDER
    made.first = 0
    made.last = 9
    made.settled = True
    made.state = Rejected(ERROR)
    made.batchable = True
    return made


PERFORMATIVES: list[Composite] = [
    Open(""),
    full_open(),
    Begin(0, 1, 2),
    full_begin(),
    Attach("", 0xFFFFFFFF, ROLE_SENDER),
    full_attach(),
    Flow(),
    full_flow(),
    Transfer(),
    full_transfer(),
    Disposition(),
    full_disposition(),
    Detach(0),
    Detach(7, True, ERROR),
    End(),
    End(ERROR),
    Close(),
    Close(Error("amqp:connection:forced")),
    Declare(),
    Declare(b"global"),
    Discharge(b"txn"),
    Discharge(b"txn", True),
]
SASL: list[Composite] = [
    SaslMechanisms(["PLAIN"]),
    SaslMechanisms(["SCRAM-SHA-256", "PLAIN", "ANONYMOUS"]),
    SaslInit("PLAIN", b"\0u\0p", "host"),
    SaslInit("EXTERNAL"),
    SaslChallenge(b""),
    SaslResponse(b"r"),
    SaslOutcome(0),
    SaslOutcome(SASL_SYS_TEMP, b"v=1"),
]
STATES: list[Composite] = [
    Accepted(),
    Released(),
    Rejected(),
    Rejected(ERROR),
    Modified(),
    Modified(True, True, Map([(Symbol("x-a"), [1])])),
    Received(0, 0),
    Received(3, 1 << 40),
    DeclaredState(b"t"),
    TransactionalState(b"t"),
    TransactionalState(b"t", Accepted()),
]


def decoded(value: object) -> Composite:
    octets = encode_value(value)
    return decode_performative(octets, 0, len(octets))


def attributes(value: object) -> object:
    """What an object says, its parts included."""
    if not isinstance(value, Composite):
        return value
    names = [name for name in dir(value) if name[0] != "_"]
    return {name: attributes(getattr(value, name)) for name in names if not callable(getattr(value, name))}


@pytest.mark.parametrize("each", PERFORMATIVES, ids=repr)
def test_a_performative_is_read_as_it_was_written(each: Composite) -> None:
    found = decoded(each)
    assert type(found) is type(each)
    assert found == each
    assert attributes(found) == attributes(each)
    octets = b"xx" + encode_value(each) + b"y"
    assert decode_performative(octets, 2, len(octets) - 1) == each


@pytest.mark.parametrize("each", SASL, ids=repr)
def test_a_sasl_frame_is_read_as_it_was_written(each: Composite) -> None:
    octets = encode_value(each)
    found = decode_sasl(octets, 0, len(octets))
    assert type(found) is type(each)
    assert attributes(found) == attributes(each)


@pytest.mark.parametrize("each", STATES, ids=repr)
def test_a_state_is_read_as_it_was_written(each: Composite) -> None:
    made = Disposition()
    made.state = each
    found = decoded(made)
    assert isinstance(found, Disposition)
    assert type(found.state) is type(each)
    assert attributes(found.state) == attributes(each)


def test_states_without_fields_are_one_object() -> None:
    assert state_of(Described(Ulong(0x24), [])) is IS_ACCEPTED
    assert state_of(Described(Symbol("amqp:accepted:list"), [])) is IS_ACCEPTED
    assert state_of(Described(Ulong(0x26), [])) is IS_RELEASED
    unknown = Described(Symbol("com.example:state"), [1])
    assert state_of(unknown) is unknown


def test_what_is_absent_has_its_default() -> None:
    opened = decoded(Described(Ulong(0x10), ["c"]))
    assert isinstance(opened, Open)
    assert (opened.max_frame_size, opened.channel_max, opened.idle_time_out_ms) == (0xFFFFFFFF, 65535, ABSENT)
    assert (opened.hostname, opened.properties, opened.offered_capabilities) == (None, None, [])
    attached = decoded(Described(Ulong(0x12), ["l", Uint(0), True]))
    assert isinstance(attached, Attach)
    assert (attached.snd_settle_mode, attached.rcv_settle_mode, attached.max_message_size) == (SENDER_MIXED, 0, 0)
    assert (attached.source, attached.target, attached.initial_delivery_count) == (None, None, ABSENT)
    moved = decoded(Described(Ulong(0x14), [Uint(5)]))
    assert isinstance(moved, Transfer)
    assert (moved.delivery_id, moved.delivery_tag, moved.message_format, moved.settled) == (ABSENT, None, ABSENT, False)
    disposed = decoded(Described(Ulong(0x15), [True, Uint(7)]))
    assert isinstance(disposed, Disposition)
    assert (disposed.first, disposed.last, disposed.settled, disposed.state) == (7, 7, False, None)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (None, []),
        (Symbol("a"), ["a"]),
        (Array(SYMBOL_32, [Symbol("a"), Symbol("b")]), ["a", "b"]),
        (Array(SYMBOL_32, []), []),
        ([Symbol("a"), Symbol("b")], ["a", "b"]),
        ([], []),
    ],
)
def test_several_symbols_come_in_every_form(value: object, found: list[str]) -> None:
    opened = decoded(Described(Ulong(0x10), ["c", None, None, None, None, None, None, value]))
    assert isinstance(opened, Open)
    assert opened.offered_capabilities == found


@pytest.mark.parametrize(
    "name", ["amqp:open:list", "amqp:begin:list", "amqp:attach:list", "amqp:flow:list", "amqp:transfer:list"]
)
def test_a_descriptor_may_be_a_symbol(name: str) -> None:
    for each in PERFORMATIVES:
        if name == f"amqp:{type(each).__name__.lower()}:list":
            assert decoded(Described(Symbol(name), each.fields())) == each
            wide = b"\x00\x80" + int(each.code).to_bytes(8, "big") + encode_value(each.fields())
            assert decode_performative(wide, 0, len(wide)) == each


def test_a_declare_may_hold_a_null() -> None:
    """As Proton writes it: by its symbol, with a list that has a field."""
    assert decoded(Described(Symbol("amqp:declare:list"), [None])) == Declare()


REFUSED: list[tuple[object, str]] = [
    ("text", "a performative is expected, not string 'text'"),
    (Described(Ulong(0x99), []), r"ulong ulong\(153\) describes no performative"),
    (Described(Symbol("amqp:opne:list"), []), "describes no performative"),
    (Described(Ulong(0x10), "c"), "open: a list is expected, not string 'c'"),
    (Described(Ulong(0x10), []), "open: container-id is absent"),
    (Described(Ulong(0x10), [None]), "open: container-id is absent"),
    (Described(Ulong(0x10), [Symbol("c")]), r"open: container-id is expected to be string, not symbol symbol\('c'\)"),
    (Described(Ulong(0x10), ["c", None, 5]), "open: max-frame-size is expected to be uint, not long 5"),
    (Described(Ulong(0x10), ["c", None, None, Uint(5)]), "open: channel-max is expected to be ushort"),
    (Described(Ulong(0x10), ["c"] + [None] * 10), "open: 11 fields, at most 10 are known"),
    (Described(Ulong(0x10), ["c"] + [None] * 6 + [["x"]]), "offered-capabilities is expected to be symbol, not string"),
    (Described(Ulong(0x10), ["c"] + [None] * 6 + [[None]]), "offered-capabilities is expected to be symbol"),
    (Described(Ulong(0x10), ["c"] + [None] * 8 + [Map([("k", 1)])]), "a key of properties is expected to be symbol"),
    (Described(Ulong(0x10), ["c"] + [None] * 8 + [[]]), "properties is expected to be map, not list"),
    (Described(Ulong(0x11), [None, Uint(0), Uint(0)]), "begin: outgoing-window is absent"),
    (Described(Ulong(0x12), ["l", Uint(0)]), "attach: role is absent"),
    (Described(Ulong(0x12), ["l", Uint(0), Ubyte(1)]), "attach: role is expected to be boolean"),
    (Described(Ulong(0x12), ["l", Uint(0), True, Ubyte(3)]), "attach: snd-settle-mode is 3, at most 2"),
    (Described(Ulong(0x12), ["l", Uint(0), True, None, Ubyte(2)]), "attach: rcv-settle-mode is 2, at most 1"),
    (Described(Ulong(0x12), ["l", Uint(0), True, None, None, "q"]), "attach: source is expected to be source"),
    (
        Described(Ulong(0x12), ["l", Uint(0), True, None, None, None, Described(Ulong(0x28), [])]),
        "attach: target is expected to be target",
    ),
    (
        Described(Ulong(0x12), ["l", Uint(0), True, None, None, Described(Ulong(0x28), [5])]),
        "source: address is expected to be string",
    ),
    (Described(Ulong(0x13), [None, Uint(0), Uint(0)]), "flow: outgoing-window is absent"),
    (Described(Ulong(0x14), []), "transfer: handle is absent"),
    (Described(Ulong(0x14), [Uint(0), None, "t"]), "transfer: delivery-tag is expected to be binary"),
    (Described(Ulong(0x15), [True]), "disposition: first is absent"),
    (Described(Ulong(0x15), [True, Uint(0), None, None, Described(Ulong(0x24), [1])]), "accepted: 1 fields, at most 0"),
    (Described(Ulong(0x16), [Byte(1)]), r"detach: handle is expected to be uint, not byte byte\(1\)"),
    (Described(Ulong(0x17), [Described(Ulong(0x1D), [])]), "error: condition is absent"),
    (Described(Ulong(0x18), [Described(Ulong(0x1D), ["c"])]), "error: condition is expected to be symbol"),
    (Described(Ulong(0x18), ["reason"]), "close: error is expected to be error, not string"),
    (Described(Ulong(0x32), []), "discharge: txn-id is absent"),
    (Described(Ulong((1 << 64) - 1), []), "describes no performative"),
    (Described(Described(Ulong(1), Ulong(2)), []), "describes no performative"),
]


@pytest.mark.parametrize(("value", "text"), REFUSED)
def test_an_error_names_the_field_and_its_value(value: object, text: str) -> None:
    with pytest.raises(PeerError, match=text) as caught:
        decoded(value)
    assert caught.value.reason == MALFORMED


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "a SASL frame is expected, not null None"),
        (Described(Ulong(0x10), ["c"]), "describes no SASL frame"),
        (Described(Ulong(0x41), []), "sasl-init: mechanism is absent"),
        (Described(Ulong(0x41), ["PLAIN"]), "sasl-init: mechanism is expected to be symbol"),
        (Described(Ulong(0x43), [None]), "sasl-response: response is absent"),
        (Described(Ulong(0x44), []), "sasl-outcome: code is absent"),
        (Described(Ulong(0x44), [Ubyte(5)]), "sasl-outcome: code is 5, at most 4"),
    ],
)
def test_an_error_of_a_login_names_the_field_and_its_value(value: object, text: str) -> None:
    octets = encode_value(value)
    with pytest.raises(PeerError, match=text):
        decode_sasl(octets, 0, len(octets))


def test_the_size_of_messages_may_be_beyond_every_size() -> None:
    attached = decoded(Described(Ulong(0x12), ["l", Uint(0), True] + [None] * 7 + [Ulong((1 << 64) - 1)]))
    assert isinstance(attached, Attach)
    assert attached.max_message_size == 0


def test_a_coordinator_is_a_target() -> None:
    made = Attach("txn", 1, ROLE_SENDER)
    made.target = Coordinator(["amqp:local-transactions"])
    found = decoded(made)
    assert isinstance(found, Attach)
    assert isinstance(found.target, Coordinator)
    assert found.target.capabilities == ["amqp:local-transactions"]


def test_lifetimes_of_dynamic_nodes() -> None:
    made = Attach("d", 1, ROLE_RECEIVER)
    made.source = LinkSource()
    made.source.dynamic_properties = {"lifetime-policy": LifetimePolicy(DELETE_ON_CLOSE)}
    found = decoded(made)
    assert isinstance(found, Attach)
    assert found.source is not None
    assert found.source.dynamic_properties is not None
    assert lifetime_of(found.source.dynamic_properties["lifetime-policy"]) == DELETE_ON_CLOSE
    named = Described(Symbol("amqp:delete-on-no-links-or-messages:list"), [])
    assert lifetime_of(named) == DELETE_ON_NO_LINKS_OR_MESSAGES
    for other in (None, "x", Described(Ulong(0x2F), []), Described(Symbol("x"), []), Described(Ushort(1), [])):
        assert lifetime_of(other) == 0
