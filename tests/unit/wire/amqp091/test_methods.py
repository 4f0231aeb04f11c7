"""Arguments, replies and reply codes of AMQP 0.9.1's methods."""

from __future__ import annotations

import pytest
from librt.strings import BytesWriter

from forebay.core import errors
from forebay.core.errors import PeerError
from forebay.wire.amqp091 import methods
from forebay.wire.amqp091.codec import Reader


def reader(octets: bytes) -> Reader:
    return Reader(octets, 0, len(octets), 4)


def test_every_reason_of_an_error_has_a_reply_code() -> None:
    reasons = {
        value
        for name, value in vars(errors).items()
        if name.isupper()
        and isinstance(value, str)
        and name not in {"MESSAGE", "CHANNEL", "CONNECTION", "HALF_CHANGED"}
    }
    assert reasons <= set(methods.REPLIES)


def test_codes_end_what_the_specification_says() -> None:
    hard = {code for code, _ in methods.REPLIES.values() if code in methods.HARD}
    assert hard == {320, 501, 502, 503, 504, 505, 530, 540, 541}


def test_a_reply_text_fits_into_a_short_string() -> None:
    assert methods.reply_text("NOT_FOUND", "no queue 'q'") == b"NOT_FOUND - no queue 'q'"
    assert len(methods.reply_text("NOT_FOUND", "é" * 400)) == 254


def test_declare_bits() -> None:
    declare = methods.QueueDeclare(reader(b"\0\0\x01q\x15\0\0\0\0"))
    assert (declare.queue, declare.passive, declare.durable, declare.exclusive) == (b"q", True, False, True)
    assert (declare.auto_delete, declare.no_wait, declare.arguments) == (False, True, {})
    exchange = methods.ExchangeDeclare(reader(b"\0\0\x01e\x06direct\x0a\0\0\0\0"))
    assert (exchange.exchange, exchange.kind, exchange.passive, exchange.durable) == (b"e", b"direct", False, True)
    assert (exchange.auto_delete, exchange.internal, exchange.no_wait) == (False, True, False)


def test_unbind_has_no_no_wait() -> None:
    bind = methods.QueueBind(reader(b"\0\0\x01q\x01e\x01k\x01\0\0\0\0"), False)
    unbind = methods.QueueBind(reader(b"\0\0\x01q\x01e\x01k\0\0\0\0"), True)
    assert (bind.queue, bind.exchange, bind.routing_key, bind.no_wait) == (b"q", b"e", b"k", True)
    assert (unbind.queue, unbind.exchange, unbind.routing_key, unbind.no_wait) == (b"q", b"e", b"k", False)


def test_a_timestamp_is_no_stream_offset() -> None:
    field = b"\x0fx-stream-offset"
    when = b"\0\0\x01q\0\x0b\0\0\0\x19" + field + b"T\0\0\0\0\0\0\x03\xe8"
    consume = methods.Consume(reader(when))
    assert consume.arguments == {"x-stream-offset": "timestamp=1000000"}
    assert (consume.no_local, consume.no_ack, consume.exclusive, consume.no_wait) == (True, True, False, True)
    number = methods.Consume(reader(when.replace(b"offsetT", b"offsetl")))
    assert number.arguments == {"x-stream-offset": 1000}


def test_arguments_cut_short_are_malformed() -> None:
    whole = b"\0\0\0\x06\x04nameV\x05PLAIN\0\0\0\x02hi\x05en_US"
    start = methods.StartOk(reader(whole))
    assert (start.client_properties, start.mechanism, start.response) == ({"name": None}, b"PLAIN", b"hi")
    assert start.locale == b"en_US"
    for length in range(len(whole)):
        with pytest.raises(PeerError):
            methods.StartOk(reader(whole[:length]))


def test_replies_octet_by_octet() -> None:
    out = BytesWriter()
    methods.put_close(out, 1, methods.CHANNEL_CLOSE, 404, b"no", methods.QUEUE_DECLARE)
    methods.put_tune(out, 2047, 131072, 60)
    methods.put_counts(out, 1, methods.QUEUE_DECLARE_OK, b"q", 1 << 40, 2)
    methods.put_cancel(out, 1, b"t")
    methods.put_settle(out, 1, methods.BASIC_ACK, 5, True)
    methods.put_return(out, 1, 312, b"NO_ROUTE", b"e", b"k")
    methods.put_get_ok(out, 1, 9, True, b"e", b"k", 3)
    assert out.getvalue() == (
        b"\x01\0\1\0\0\0\x0d\0\x14\0\x28\x01\x94\x02no\0\x32\0\x0a\xce"
        b"\x01\0\0\0\0\0\x0c\0\x0a\0\x1e\x07\xff\0\2\0\0\0\x3c\xce"
        b"\x01\0\1\0\0\0\x0e\0\x32\0\x0b\x01q\x7f\xff\xff\xff\0\0\0\2\xce"
        b"\x01\0\1\0\0\0\x07\0\x3c\0\x1e\x01t\x01\xce"
        b"\x01\0\1\0\0\0\x0d\0\x3c\0\x50\0\0\0\0\0\0\0\x05\x01\xce"
        b"\x01\0\1\0\0\0\x13\0\x3c\0\x32\x01\x38\x08NO_ROUTE\x01e\x01k\xce"
        b"\x01\0\1\0\0\0\x15\0\x3c\0\x47\0\0\0\0\0\0\0\x09\x01\x01e\x01k\0\0\0\3\xce"
    )
