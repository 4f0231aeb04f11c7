"""Sessions: begin and end, windows, handles, and which errors end what (part 2.5)."""

from __future__ import annotations

import pytest

from tests.broker_process import AnyBroker
from tests.conformance.amqp10.raw import (
    ATTACH,
    BEGIN,
    CLOSE,
    DETACH,
    DISPOSITION,
    END,
    FLOW,
    SENDER,
    TRANSFER,
    Uint,
    attach,
    begin,
    begun,
    body_of,
    consumer,
    flow,
    message,
    performative,
    publisher,
    transfer,
)

QUEUE = "$queue/q"


def test_begin_is_answered_on_the_same_channel(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(begin(7))
    fields = raw.expect(BEGIN, 7)
    assert (fields[0], fields[1]) == (7, 0)


def test_a_channel_is_free_again_after_end(broker: AnyBroker) -> None:
    raw = begun(broker)
    for _ in range(3):
        raw.send(performative(0, END))
        assert raw.expect(END)[0] is None
        raw.send(begin())
        raw.expect(BEGIN)


def test_a_second_begin_on_a_channel_closes_the_connection(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(begin())
    assert raw.error(CLOSE)[0] == "amqp:not-allowed"


@pytest.mark.parametrize(
    ("octets", "condition"),
    [
        (transfer(0, message(), handle=3), "amqp:session:unattached-handle"),
        (flow(3, 1), "amqp:session:unattached-handle"),
        (performative(0, DETACH, Uint(3)), "amqp:session:unattached-handle"),
        (flow(next_incoming=5), "amqp:session:window-violation"),
    ],
)
def test_errors_that_end_the_session_alone(broker: AnyBroker, octets: bytes, condition: str) -> None:
    raw = begun(broker)
    raw.send(begin(1))
    raw.expect(BEGIN, 1)
    raw.send(octets)
    assert raw.error(END)[0] == condition
    raw.send(flow(), performative(0, END), begin())  # what was on its way is not looked at
    raw.expect(BEGIN)
    raw.send(flow(channel=1, echo=True))
    raw.expect(FLOW, 1)


def test_a_handle_that_is_in_use_ends_the_session(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher("/exchanges/amq.topic/a")
    raw.send(publisher("/exchanges/amq.topic/b", name="another"))
    assert raw.error(END)[0] == "amqp:session:handle-in-use"


def test_more_transfers_than_the_window_end_the_session(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher("/exchanges/amq.topic/a")
    window = 2048
    raw.send(*[transfer(0, b"", more=True) for _ in range(window - 1)])
    raw.send(flow(echo=True))
    opened = 0
    while raw.rest or not opened:
        opened = raw.flow(None)[1]
    assert opened == window, "the window was opened again before it was used up"


def test_deliveries_wait_for_the_clients_window(broker: AnyBroker) -> None:
    raw = begun(broker, window=3)
    raw.publisher(QUEUE)
    for number in range(7):
        raw.send(transfer(number, message(b"%d" % number)))
        raw.outcome()
    raw.consumer(QUEUE, credit=0)
    raw.send(flow(1, 100, window=3))
    found = [body_of(raw.delivery()[1]) for _ in range(3)]
    raw.quiet_session(window=3)
    raw.send(flow(next_incoming=3, window=2))
    found += [body_of(raw.delivery()[1]) for _ in range(2)]
    raw.send(flow(next_incoming=5, window=100))
    found += [body_of(raw.delivery()[1]) for _ in range(2)]
    assert found == [b"%d" % number for number in range(7)]


def test_a_long_delivery_is_cut_by_the_window(broker: AnyBroker) -> None:
    raw = begun(broker, window=2)
    raw.publisher(QUEUE)
    body = bytes(range(256)) * 2000
    raw.send(*parts(body))
    raw.outcome()
    raw.consumer(QUEUE, credit=0)
    raw.send(flow(1, 1, window=2))
    got = 0
    payload = b""
    more = True
    while more:
        kind, channel, code, fields, piece = raw.frame()
        assert (kind, channel, code) == (0, 0, TRANSFER)
        payload += piece
        got += 1
        more = fields[5]
        if got % 2 == 0 and more:
            raw.send(flow(next_incoming=got, window=2))
    assert body in payload
    assert got > 3


def parts(body: bytes) -> list[bytes]:
    """A message in transfers of 60,000 octets."""
    payload = message(body)
    cut = [payload[at : at + 60_000] for at in range(0, len(payload), 60_000)]
    return [transfer(0, piece, more=place < len(cut) - 1) for place, piece in enumerate(cut)]


def test_ids_wrap(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(begin(1, next_outgoing=2**32 - 3))
    raw.expect(BEGIN, 1)
    raw.publisher(QUEUE, channel=1)
    ids = [2**32 - 3, 2**32 - 2, 2**32 - 1, 0, 1]
    raw.send(*[transfer(each, message(), channel=1) for each in ids])
    settled: list[int] = []
    while len(settled) < len(ids):
        first, last, code = raw.outcome(1)
        assert code == 0x24
        assert first <= last, "no range passes over the end of the ids"
        settled += range(first, last + 1)
    assert settled == ids
    raw.send(flow(channel=1, echo=True))
    assert raw.flow(None, 1)[0] == 2


def test_end_gives_back_what_is_out(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.publisher(QUEUE)
    raw.send(transfer(0, message(b"kept")))
    raw.outcome()
    raw.send(begin(1))
    raw.expect(BEGIN, 1)
    raw.consumer(QUEUE, credit=5, channel=1)
    raw.delivery(1)
    raw.send(performative(1, END))
    raw.expect(END, 1)
    raw.consumer(QUEUE, credit=5)
    assert body_of(raw.delivery()[1]) == b"kept"


def test_a_link_attached_again_by_name_ends_the_first(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(publisher("/exchanges/amq.topic/a", 0, name="same"))
    raw.expect(ATTACH)
    raw.flow(0)
    raw.send(consumer(QUEUE, 1, name="same"))  # in the other direction: another link
    raw.expect(ATTACH)
    raw.send(publisher("/exchanges/amq.topic/b", 2, name="same"))
    assert raw.error(DETACH)[0] == "amqp:link:stolen"
    assert raw.expect(ATTACH)[1] == 2


def test_deliveries_are_not_resumed(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(attach("l", 0, SENDER, None, None, unsettled={b"tag": None}))
    condition, text = raw.refused(SENDER)
    assert condition == "amqp:not-implemented"
    assert "unsettled" in text
    raw.send(performative(0, DETACH, Uint(0), True))
    raw.publisher("/exchanges/amq.topic/a")


def test_what_a_disposition_says_of_nothing_is_ignored(broker: AnyBroker) -> None:
    raw = begun(broker)
    raw.send(performative(0, DISPOSITION, True, Uint(0), Uint(2**32 - 1), True))
    raw.send(performative(0, DISPOSITION, False, Uint(0), None, True))
    raw.quiet_session()
