"""Who has shown that it is at its address, and which requests are remembered."""

from __future__ import annotations

from forebay.admin.coap.exchanges import LIFETIME_S, CoapExchange, ExchangeTable
from forebay.admin.coap.reach import ECHO_S, PROVEN_MAX, PROVEN_S, Reach
from forebay.wire.coap.message import CONFIRMABLE, CoapMessage

HERE = ("192.0.2.1", 5683)
THERE = ("192.0.2.1", 5684)


def test_an_echo_option_proves_only_its_own_address_for_a_while() -> None:
    reach = Reach()
    value = reach.echo(HERE, 100.0)
    assert not reach.check_echo(THERE, value, 101.0)
    assert not reach.check_echo(HERE, value[:-1] + bytes([value[-1] ^ 1]), 101.0)
    assert not reach.check_echo(HERE, value, 102.0 + ECHO_S)
    assert not reach.check_echo(HERE, b"", 101.0)
    assert not reach.is_proven(HERE, 101.0)
    assert reach.check_echo(HERE, value, 101.0)
    assert reach.is_proven(HERE, 101.0 + PROVEN_S - 1)
    assert not reach.is_proven(HERE, 101.0 + PROVEN_S)
    assert not Reach().check_echo(HERE, value, 101.0)


def test_only_so_many_are_known() -> None:
    reach = Reach()
    for port in range(PROVEN_MAX + 10):
        reach.prove(("192.0.2.1", port), 1.0)
    assert len(reach.proven) == PROVEN_MAX
    assert not reach.is_proven(("192.0.2.1", 9), 1.0)
    assert reach.is_proven(("192.0.2.1", 10), 1.0)


def exchange(number: int, now_s: float) -> tuple[CoapExchange, CoapMessage]:
    message = CoapMessage(CONFIRMABLE, 2, number, b"t")
    return CoapExchange(HERE, message, now_s), message


def test_a_request_is_remembered_for_its_lifetime_if_it_changed_something() -> None:
    table = ExchangeTable(3)
    changed, first = exchange(1, 0.0)
    read, second = exchange(2, 0.0)
    for each in (changed, read):
        table.begin(each)
        each.answer = b"x"
    assert table.find(HERE, first, 1.0) is changed
    table.end(changed, True, 1.0)
    table.end(read, False, 1.0)
    assert table.find(HERE, first, LIFETIME_S) is changed
    assert table.find(THERE, first, 1.0) is None
    assert table.find(HERE, second, 1.0) is None
    assert table.find(HERE, first, LIFETIME_S + 1.0) is None
    table.sweep(LIFETIME_S)
    assert len(table) == 1
    table.sweep(LIFETIME_S + 1.0)
    assert len(table) == 0 and not table.running_at


def test_beyond_its_limit_the_oldest_request_is_forgotten() -> None:
    table = ExchangeTable(3)
    messages = []
    for number in range(5):
        each, message = exchange(number, 0.0)
        table.begin(each)
        table.end(each, True, float(number))
        messages.append(message)
    assert [table.find(HERE, each, 4.0) is not None for each in messages] == [False, False, True, True, True]


def test_requests_that_take_long_are_found() -> None:
    table = ExchangeTable(3)
    old, _ = exchange(1, 0.0)
    new, _ = exchange(2, 5.0)
    for each in (old, new):
        table.begin(each)
    assert list(table.unacknowledged(1.0)) == [old]
    old.is_acknowledged = True
    assert list(table.unacknowledged(1.0)) == []
