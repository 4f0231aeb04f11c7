"""Links through their life: handles and names, detach in all its ways, and the scope of each error (2.5, 2.6, 2.7)."""

from __future__ import annotations

from typing import Any

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp10.raw import (
    ACCEPTED,
    ANNOTATIONS,
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    HEADER,
    MODIFIED,
    PROPERTIES,
    RECEIVER,
    REJECTED,
    RELEASED,
    SENDER,
    VALUE,
    Described,
    Raw,
    Symbol,
    Ubyte,
    Uint,
    begin,
    begun,
    body_of,
    consumer,
    disposition,
    encode,
    flow,
    message,
    performative,
    publisher,
    source,
    target,
    transfer,
)
from tests.conformance.amqp10.test_03_publish import bodies, declare
from tests.conformance.amqp10.test_04_consume import fill, taken

QUEUE = "$queue/q"
TOPIC = "/exchanges/amq.topic/a"


def attached(raw: Raw, *fields: Any) -> list[Any]:
    """Send an attach of these fields; fields of the answer."""
    raw.send(performative(0, ATTACH, *fields))
    return raw.expect(ATTACH)


# ---- handles and names


def test_a_handle_is_free_after_both_have_detached(broker: AnyBroker) -> None:
    """2.6.4: and whoever takes it next is another link."""
    raw = begun(broker)
    for number in range(20):
        if number % 2:
            raw.consumer(QUEUE, 4)
        else:
            raw.publisher(QUEUE, 4)
        raw.send(performative(0, DETACH, Uint(4), bool(number % 3)))
        assert bool(raw.expect(DETACH)[1]) is bool(number % 3)
    raw.quiet_session()


def test_a_handle_is_reused_in_one_write(broker: AnyBroker) -> None:
    raw = begun(broker)
    octets = b""
    for number in range(10):
        octets += publisher(QUEUE, 0, name=f"l{number}") + transfer(number, message(b"%d" % number), settled=True)
        octets += performative(0, DETACH, Uint(0), True)
    raw.send(octets)
    for number in range(10):
        assert raw.expect(ATTACH)[0] == f"l{number}"
        raw.flow(0)
        raw.expect(DETACH)
    assert bodies(broker, 10) == [b"%d" % number for number in range(10)]


def test_a_sender_and_a_receiver_share_no_handle(broker: AnyBroker) -> None:
    """2.7.3: handles are per session, whatever the role."""
    raw = begun(broker)
    raw.publisher(QUEUE, 2)
    raw.send(consumer(QUEUE, 2))
    assert raw.error(END)[0] == "amqp:session:handle-in-use"


def test_frames_for_a_link_that_the_broker_has_ended_are_passed_over(broker: AnyBroker) -> None:
    """2.6.5: until its detach the client may not know; other links of the session go on."""
    raw = begun(broker)
    raw.publisher(QUEUE, 0)
    raw.publisher(QUEUE, 1)
    raw.send(transfer(0, message()[:4], 0, more=True), transfer(7, message(), 0))
    raw.send(transfer(8, message(), 0), flow(0, echo=True), transfer(9, message(b"other"), 1))
    assert raw.error(DETACH)[0] == "amqp:invalid-field"
    assert raw.outcome() == (9, 9, ACCEPTED)
    raw.send(performative(0, DETACH, Uint(0), True))
    raw.publisher(QUEUE, 0)
    raw.quiet_session()


def test_a_detached_handle_is_known_no_more(broker: AnyBroker) -> None:
    """2.8.17: unattached-handle."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(performative(0, DETACH, Uint(0), True))
    raw.expect(DETACH)
    raw.send(performative(0, DETACH, Uint(0), True))
    assert raw.error(END)[0] == "amqp:session:unattached-handle"


@pytest.mark.parametrize("role", [SENDER, RECEIVER])
def test_an_attach_is_answered_with_the_other_role(broker: AnyBroker, role: bool) -> None:
    """2.6.3 and 2.7.3: the same name, and both termini: the one that only the client has is echoed."""
    raw = begun(broker)
    here = [source("mine"), target(QUEUE)] if role is SENDER else [source(QUEUE), target("mine")]
    fields = attached(raw, "name of it", Uint(5), role, None, None, *here, None, None, Uint(0) if not role else None)
    assert (fields[0], fields[2]) == ("name of it", not role)
    assert fields[5].value[0] == ("mine" if role is SENDER else QUEUE)
    assert fields[6].value[0] == (QUEUE if role is SENDER else "mine")
    assert fields[7] is None, "nothing is unsettled"
    assert (fields[9] is None) is (role is SENDER), "whoever sends says where its count begins"


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_a_publisher_is_answered_in_its_own_mode(broker: AnyBroker, mode: int) -> None:
    """2.7.3: some clients compare the mode with the one that they asked for."""
    raw = begun(broker)
    fields = attached(raw, "n", Uint(0), SENDER, Ubyte(mode), None, source(None), target(QUEUE), None, None, Uint(0))
    assert (2 if fields[3] is None else fields[3]) == mode


# ---- what publishers do


def test_detach_in_the_middle_of_a_message(broker: AnyBroker) -> None:
    """2.6.12: what has not come whole was never sent."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, message(b"never")[:5], more=True), performative(0, DETACH, Uint(0), True))
    assert raw.expect(DETACH)[1] is True
    raw.publisher(QUEUE)
    raw.send(transfer(1, message(b"published")))
    assert raw.outcome() == (1, 1, ACCEPTED)
    assert bodies(broker, 1) == [b"published"]


def test_an_end_in_the_middle_of_a_message(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, message(b"never")[:5], more=True), performative(0, END), begin())
    raw.expect(END)
    raw.expect(BEGIN)
    raw.publisher(QUEUE)
    raw.send(transfer(0, message(b"published")))
    assert raw.outcome() == (0, 0, ACCEPTED)
    assert bodies(broker, 1) == [b"published"]


def test_later_frames_may_leave_out_what_the_first_has_said(broker: AnyBroker) -> None:
    """2.7.5: delivery-id, tag and format may be omitted; the last frame may hold nothing."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    payload = message(b"in pieces")
    raw.send(transfer(0, payload[:3], more=True))
    raw.send(performative(0, 0x14, Uint(0), None, None, None, None, True, payload=payload[3:]))
    raw.send(performative(0, 0x14, Uint(0)))
    assert raw.outcome() == (0, 0, ACCEPTED)
    assert bodies(broker, 1) == [b"in pieces"]


def test_settled_in_any_frame_settles_the_delivery(broker: AnyBroker) -> None:
    """2.7.5: true in one is true for all, and null in the first is false."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    payload = message(b"settled late")
    raw.send(transfer(0, payload[:3], more=True), transfer(0, payload[3:6], more=True, settled=True))
    raw.send(performative(0, 0x14, Uint(0), payload=payload[6:]))
    raw.send(transfer(1, message(b"next")))
    assert raw.outcome() == (1, 1, ACCEPTED)
    assert bodies(broker, 2) == [b"settled late", b"next"]


@pytest.mark.parametrize("first", [True, False])
def test_aborted_wins_over_all_else(broker: AnyBroker, first: bool) -> None:
    """2.7.5: whatever more, settled and the payload say, the delivery is dropped; its credit is used (2.6.7)."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    if not first:
        raw.send(transfer(0, message(b"never")[:5], more=True))
    raw.send(transfer(0, message(b"never"), more=True, settled=True, aborted=True))
    raw.send(transfer(1, message(b"published")), flow(0, echo=True))
    assert raw.flow(0)[5] == 2
    assert raw.outcome() == (1, 1, ACCEPTED)
    assert bodies(broker, 1) == [b"published"]


def test_a_tag_may_be_used_again(broker: AnyBroker) -> None:
    """2.6.12: tags are unique among unsettled deliveries; a broker that goes by ids needs none of that."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    for number in range(3):
        raw.send(performative(0, 0x14, Uint(0), Uint(number), b"same", Uint(0), payload=message()))
        assert raw.outcome() == (number, number, ACCEPTED)


def test_too_much_for_the_credit_ends_the_link_alone(broker: AnyBroker) -> None:
    """2.8.18: transfer-limit-exceeded; a message in one frame that never ends does not use credit, so count them."""
    raw = begun(broker)
    raw.publisher(QUEUE, 1)
    raw.send(publisher(QUEUE, 0, name="hurried"))
    raw.expect(ATTACH)
    credit = raw.flow(0)[6]
    # The broker may top the credit up as they come, so that none may be too many.
    raw.send(*[transfer(each, message(), settled=True) for each in range(credit + 10)])
    raw.send(transfer(credit + 10, message(b"other"), 1))
    conditions = []
    while True:
        _, _, code, fields, _ = raw.frame()
        if code == DETACH:
            conditions.append(fields[2].value[0])
        if code == DISPOSITION:
            assert (fields[1], fields[4].code) == (credit + 10, ACCEPTED)
            break
    assert conditions in ([], ["amqp:link:transfer-limit-exceeded"])


@pytest.mark.parametrize(("user", "code"), [(b"guest", ACCEPTED), (b"", ACCEPTED), (b"other", REJECTED)])
def test_a_user_id_is_that_of_the_login(broker: AnyBroker, user: bytes, code: int) -> None:
    """3.2.4: an intermediary that knows the user checks it."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, message(b"x", user_id=user)))
    fields = raw.expect(DISPOSITION)
    assert fields[4].code == code


def test_another_message_format_is_refused(broker: AnyBroker) -> None:
    """2.8.11 and 3.2.16: format 0 is that of AMQP's messages, and others are none of them."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(performative(0, 0x14, Uint(0), Uint(0), b"t", Uint(0x100), payload=message()))
    fields = raw.expect(DISPOSITION)
    assert (fields[4].code, fields[4].value[0].value[0]) == (REJECTED, "amqp:not-implemented")


# ---- what consumers do


def test_every_section_comes_back_as_it_was_sent(broker: AnyBroker) -> None:
    """3.2: the bare message is immutable, octet for octet; the encodings here are not those the broker would choose."""
    bare = b"\x00\x80\0\0\0\0\0\0\0\x73\xd0\0\0\0\x0e\0\0\0\x02\x80\0\0\0\0\0\0\0\x07\x40"
    bare += b"\x00\x80\0\0\0\0\0\0\0\x74\xd1\0\0\0\x0c\0\0\0\x02\xb1\0\0\0\x01k\x56\x01"
    bare += b"\x00\x53\x75\xb0\0\0\0\x01a" + b"\x00\x80\0\0\0\0\0\0\0\x75\xa0\x01b"
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, encode(Described(HEADER, [True, Ubyte(7)])) + bare))
    assert raw.outcome() == (0, 0, ACCEPTED)
    raw.consumer(QUEUE, credit=1)
    _, _, _, _, payload = raw.frame()
    assert payload.endswith(bare)


def test_the_header_says_what_the_publisher_said(broker: AnyBroker) -> None:
    """3.2.1: durable, priority and what is left of the ttl; the first acquirer is told so."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, encode(Described(HEADER, [True, Ubyte(7), Uint(60_000)])) + message(b"x")))
    raw.outcome()
    raw.consumer(QUEUE, credit=1)
    sections = raw.delivery()[1]
    (head,) = [each.value + [None] * 5 for each in sections if each.code == HEADER]
    assert head[:2] == [True, 7]
    assert 0 < head[2] <= 60_000
    assert head[3] is True
    assert (head[4] or 0) == 0


def test_delivery_annotations_are_for_the_first_hop_alone(broker: AnyBroker) -> None:
    """3.2.2: and message annotations are for all (3.2.3)."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    there = encode(Described(0x71, {Symbol("x-opt-hop"): 1})) + encode(Described(ANNOTATIONS, {Symbol("x-opt-all"): 2}))
    raw.send(transfer(0, there + message(b"x")))
    raw.outcome()
    raw.consumer(QUEUE, credit=1)
    found = {each.code: each.value for each in raw.delivery()[1]}
    assert 0x71 not in found
    assert found[ANNOTATIONS]["x-opt-all"] == 2


def test_released_and_failed_deliveries_are_counted_as_the_standard_says(broker: AnyBroker) -> None:
    """3.4.4: released must not count; 3.4.5: modified counts if delivery-failed; 3.2.1: then nobody is the first."""
    raw = begun(broker)
    declare(broker, "counted", {"x-queue-type": "quorum"})
    fill(raw, 1, "/queues/counted")
    raw.consumer("/queues/counted")
    counts = []
    released, modified, failed = Described(RELEASED, []), Described(MODIFIED, []), Described(MODIFIED, [True])
    for number, state in enumerate([released, modified, failed, failed, released]):
        raw.send(flow(1, 1, count=number))
        sections = raw.delivery()[1]
        head = next((each.value for each in sections if each.code == HEADER), []) + [None] * 5
        counts.append((bool(head[3]), head[4] or 0))
        raw.send(disposition(number, state=state))
    assert counts == [(True, 0), (False, 0), (False, 0), (False, 1), (False, 2)]


def test_ranges_over_the_end_of_the_ids_are_serial_numbers(broker: AnyBroker) -> None:
    """2.7.6 and RFC 1982: first may be greater than last where the ids wrap; here that names what is not out."""
    raw = begun(broker)
    fill(raw, 3)
    raw.consumer(QUEUE, credit=3)
    taken(raw, 3)
    raw.send(disposition(2**32 - 5, 1))  # over the end: 0 and 1 are in it
    raw.send(performative(0, DETACH, Uint(1), True))
    raw.expect(DETACH)
    raw.consumer(QUEUE, 2, credit=5)
    assert taken(raw, 1) == [b"2"]
    raw.quiet_session()


def test_settling_twice_changes_nothing(broker: AnyBroker) -> None:
    raw = begun(broker)
    fill(raw, 2)
    raw.consumer(QUEUE, credit=1)
    taken(raw, 1)
    raw.send(disposition(0), disposition(0, state=Described(RELEASED, [])), disposition(0, 100))
    raw.send(flow(1, 5, count=1))
    assert taken(raw, 1) == [b"1"]
    raw.quiet_session()


def test_a_publisher_cannot_settle_what_consumers_hold(broker: AnyBroker) -> None:
    """2.7.6: the role says whose deliveries the ids are of; those of both directions have the same numbers."""
    raw = begun(broker)
    fill(raw, 1)
    raw.consumer(QUEUE, credit=1)
    taken(raw, 1)
    raw.send(disposition(0, role=SENDER))
    raw.send(performative(0, DETACH, Uint(1), True))
    raw.expect(DETACH)
    raw.consumer(QUEUE, credit=1)
    assert taken(raw, 1) == [b"0"]


def test_ids_of_two_sessions_are_apart(broker: AnyBroker) -> None:
    """2.5: a disposition on one session says nothing of the other."""
    raw = begun(broker)
    fill(raw, 2)
    raw.send(begin(1))
    raw.expect(BEGIN, 1)
    raw.consumer(QUEUE, credit=1)
    assert taken(raw, 1) == [b"0"]
    raw.consumer(QUEUE, credit=1, channel=1)
    assert body_of(raw.delivery(1)[1]) == b"1"
    raw.send(disposition(0, channel=1))
    raw.send(performative(0, END))
    raw.expect(END)
    raw.send(flow(1, 1, count=1, channel=1))
    assert body_of(raw.delivery(1)[1]) == b"0"


def test_drain_on_an_empty_queue(broker: AnyBroker) -> None:
    """2.6.7: the sender must use up its credit at once: delivery-count goes on by what is left."""
    raw = begun(broker)
    raw.consumer(QUEUE)
    raw.send(flow(1, 7, drain=True))
    assert raw.flow(1)[5:7] == [7, 0]
    raw.send(flow(1, 3, count=7, drain=True))
    assert raw.flow(1)[5:7] == [10, 0]
    raw.quiet_session()


def test_after_a_detach_nothing_is_heard_of_its_link(broker: AnyBroker) -> None:
    """2.6.4: no transfer, flow or disposition with that handle, whatever was under way."""
    raw = begun(broker)
    fill(raw, 50)
    raw.consumer(QUEUE)
    raw.send(flow(1, 50, echo=True), performative(0, DETACH, Uint(1), True))
    ended = False
    while not ended:
        _, _, code, fields, _ = raw.frame()
        ended = code == DETACH
        assert fields[0] == 1 or code != DETACH
    raw.send(disposition(0, 100))
    raw.quiet_session()
    assert len(bodies(broker, 50)) == 50


def test_after_an_end_nothing_is_heard_of_its_session(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    fill(raw, 20)
    raw.consumer(QUEUE)
    raw.send(transfer(20, message()), flow(1, 20, next_incoming=0), performative(0, END))
    while raw.frame()[2] != END:
        pass
    raw.send(begin(1))
    raw.expect(BEGIN, 1)
    raw.quiet_session(1)


def test_a_value_that_is_no_data_comes_back(broker: AnyBroker) -> None:
    """3.2.8: the body of an amqp-value section may be of any type."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    values: list[Any] = [None, True, -5, "text", b"octets", [1, "a", None], {"k": {"n": [1]}}, Described(0x999, "own")]
    raw.send(*[transfer(number, encode(Described(VALUE, value))) for number, value in enumerate(values)])
    raw.consumer(QUEUE)
    last = -1
    while last < len(values) - 1:
        last = raw.outcome()[1]
    raw.send(flow(1, len(values)))
    found = [body_of(raw.delivery()[1]) for _ in values]
    assert found[:-1] == values[:-1]
    assert (found[-1].code, found[-1].value) == (0x999, "own")


def test_properties_need_not_be_all_there(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, encode(Described(PROPERTIES, [])) + encode(Described(VALUE, "x"))))
    assert raw.outcome() == (0, 0, ACCEPTED)
    raw.consumer(QUEUE, credit=1)
    found = {each.code: each.value for each in raw.delivery()[1]}
    assert found[PROPERTIES] == []


# ---- what is in force


def test_a_handle_beyond_the_highest_closes_the_connection(broker: AnyBroker) -> None:
    """2.7.2: a peer that receives a handle outside the supported range must close with framing-error."""
    raw = begun(broker)
    raw.send(begin(1))
    handle_max = raw.expect(BEGIN, 1)[4]
    raw.send(publisher(TOPIC, handle_max))
    raw.expect(ATTACH)
    raw.flow(handle_max)
    raw.send(publisher(TOPIC, handle_max + 1, name="beyond"))
    assert raw.error(CLOSE)[0] == "amqp:connection:framing-error"


def test_a_publisher_whose_count_begins_anywhere(broker: AnyBroker) -> None:
    """2.7.3 and 2.6.7: credit counts from initial-delivery-count on, also over the end of the numbers."""
    raw = begun(broker)
    start = 2**32 - 2
    attached(raw, "n", Uint(0), SENDER, None, None, source(None), target(QUEUE), None, None, Uint(start))
    granted = raw.flow(0)
    assert granted[5] == start
    assert granted[6] > 3
    raw.send(*[transfer(each, message()) for each in range(3)])
    assert raw.outcome() == (0, 2, ACCEPTED)
    raw.send(flow(0, echo=True))
    assert raw.flow(0)[5] == 1


def test_a_wrong_user_id_is_unauthorized(broker: AnyBroker) -> None:
    """2.8.15: unauthorized-access, as RabbitMQ says it."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, message(b"x", user_id=b"other")))
    fields = raw.expect(DISPOSITION)
    assert fields[4].value[0].value[0] == "amqp:unauthorized-access"


def test_a_default_outcome_that_is_asked_for_is_in_force(broker: AnyBroker) -> None:
    """3.5.3 default-outcome: applied to what is unsettled when the link ends, or settled without a state."""
    raw = begun(broker)
    declare(broker, "jobs", {"x-queue-type": "quorum"})
    fill(raw, 1, "/queues/jobs")
    failed = Described(MODIFIED, [True])
    wanted = Described(0x28, ["/queues/jobs", None, None, None, None, None, None, None, failed])
    answered = attached(raw, "n", Uint(1), RECEIVER, Ubyte(0), None, wanted, target(None))
    assert answered[5].value[8].code == MODIFIED
    raw.send(flow(1, 1))
    raw.delivery()
    raw.send(performative(0, DISPOSITION, True, Uint(0), None, True))
    raw.send(flow(1, 1, count=1))
    sections = raw.delivery()[1]
    head = next((each.value for each in sections if each.code == HEADER), []) + [None] * 5
    assert head[4] == 1


def test_a_publisher_in_mode_second_is_settled_last_or_answered_first(broker: AnyBroker) -> None:
    """2.7.3 rcv-settle-mode second: the receiver (the broker) must not settle before the sender does."""
    raw = begun(broker)
    answer = attached(raw, "n", Uint(0), SENDER, Ubyte(0), Ubyte(1), source(None), target(QUEUE), None, None, Uint(0))
    raw.flow(0)
    raw.send(transfer(0, message(b"x")))
    fields = raw.expect(DISPOSITION)
    assert (answer[4] or 0, bool(fields[3])) in {(0, True), (1, False)}


def test_properties_with_text_where_a_symbol_is_due(broker: AnyBroker) -> None:
    """3.2.4: content-type is a symbol."""
    raw = begun(broker)
    raw.publisher(QUEUE)
    wrong = encode(Described(PROPERTIES, [None] * 6 + ["text/plain"]))
    raw.send(transfer(0, wrong + message(b"x")))
    assert raw.outcome()[2] == REJECTED


@pytest.mark.parametrize("address", ["$queue/q", "/queues/classic"])
def test_released_is_not_counted(broker: AnyBroker, address: str) -> None:
    """3.4.4: released MUST NOT count, nor modified without delivery-failed (3.4.5), on whatever kind of queue."""
    raw = begun(broker)
    declare(broker, "classic", {})
    fill(raw, 1, address)
    raw.consumer(address)
    counts = []
    for number, state in enumerate([Described(RELEASED, []), Described(MODIFIED, []), Described(RELEASED, [])]):
        raw.send(flow(1, 1, count=number))
        sections = raw.delivery()[1]
        head = next((each.value for each in sections if each.code == HEADER), []) + [None] * 5
        counts.append((bool(head[3]), head[4] or 0))
        raw.send(disposition(number, state=state))
    assert counts == [(True, 0), (False, 0), (False, 0)]


def test_the_priority_of_a_consumer(broker: AnyBroker) -> None:
    """RabbitMQ's link property: whoever has more of it is served first."""
    raw = begun(broker)
    raw.consumer(QUEUE, 1, credit=10)
    fields: list[Any] = [None] * 6
    high = {Symbol("rabbitmq:priority"): 5}
    attached(raw, "hi", Uint(2), RECEIVER, Ubyte(0), None, source(QUEUE), target(None), *fields, high)
    raw.send(flow(2, 10))
    raw.publisher(QUEUE, 3)
    raw.send(transfer(0, message(b"x"), 3))
    while (found := raw.frame())[2] != 0x14:
        pass
    assert found[3][0] == 2
