"""Bodies in blocks (RFC 7959)."""

from __future__ import annotations

import pytest

from tests.broker_process import BrokerProcess
from tests.conformance.coap.raw import (
    BLOCK1,
    BLOCK2,
    CHANGED,
    CONTENT,
    CONTINUE,
    GET,
    GUEST,
    PUT,
    REQUEST_TAG,
    SIZE1,
    SIZE2,
    Client,
    Message,
    block,
    client,
    encode,
    metric,
    number,
)

ETAG = 4
BODY = bytes(range(256)) * 4


def put(
    client: Client, topic: str, index: int, more: bool, payload: bytes, exponent: int = 4, tag: bytes = b""
) -> Message:
    """Send one block, and return its answer."""
    options = [(BLOCK1, block(index, more, exponent))]
    if tag:
        options.append((REQUEST_TAG, tag))
    return client.publish(topic, payload, "retain=true", options=options)


def read(client: Client, topic: str, exponent: int = 6) -> bytes:
    """The retained message, block by block."""
    found = b""
    etags = set()
    while True:
        answer = client.request(
            GET, f"topic/{topic}", options=[(BLOCK2, block(len(found) // (16 << exponent), False, exponent))]
        )
        assert answer.code == CONTENT, answer
        value = answer.number(BLOCK2)
        exponent = value & 7
        assert (value >> 4) * (16 << exponent) == len(found)
        etags.add(answer.option(ETAG))
        found += answer.payload
        if not value & 8:
            assert len(etags) == 1
            return found


@pytest.mark.parametrize("exponent", range(7))
def test_a_body_comes_and_goes_in_blocks(client: Client, exponent: int) -> None:
    size = 16 << exponent
    topic = f"blocks/{exponent}"
    body = BODY * 3
    count = len(body) // size
    for index in range(count):
        answer = put(client, topic, index, index < count - 1, body[index * size :][:size], exponent)
        assert answer.option(BLOCK1) == block(index, index < count - 1, exponent)
        assert answer.code == (CONTINUE if index < count - 1 else CHANGED)
    client.prove()
    assert read(client, topic, exponent) == body


def test_a_body_in_one_block_needs_no_other(client: Client) -> None:
    assert put(client, "one", 0, False, b"x").code == CHANGED
    assert client.request(GET, "topic/one").payload == b"x"


def test_blocks_may_come_again(client: Client) -> None:
    for index in (0, 0, 1, 0, 1):
        assert put(client, "again", index, True, bytes([index]) * 256).code == CONTINUE
    assert put(client, "again", 1, True, b"\1" * 256).code == CONTINUE
    assert put(client, "again", 2, False, b"end").code == CHANGED
    client.prove()
    assert read(client, "again") == bytes(256) + b"\1" * 256 + b"end"


def test_a_block_that_is_missing_or_changed_is_told(client: Client) -> None:
    assert put(client, "gap", 1, True, bytes(256)).code_text == "4.08"
    assert put(client, "gap", 0, True, bytes(256)).code == CONTINUE
    assert put(client, "gap", 2, True, bytes(256)).code_text == "4.08"
    assert put(client, "gap", 1, True, bytes(256)).code == CONTINUE
    assert put(client, "gap", 1, True, b"x" * 256).code_text == "4.08"


def test_blocks_have_their_length(client: Client) -> None:
    assert put(client, "length", 0, True, bytes(255)).code_text == "4.00"
    assert put(client, "length", 0, False, bytes(257)).code_text == "4.00"


def test_too_long_a_body_is_refused_as_soon_as_that_is_known(client: Client) -> None:
    answer = put(client, "long", 1000, True, bytes(256))
    assert (answer.code_text, answer.number(SIZE1)) == ("4.13", 100_000)
    options = [(BLOCK1, block(0, True, 4)), (SIZE1, number(100_001))]
    assert client.publish("long", bytes(256), options=options).code_text == "4.13"


def test_two_bodies_of_one_client_are_told_apart(client: Client) -> None:
    for index, tag in ((0, b"a"), (0, b"b"), (1, b"a"), (1, b"b")):
        assert put(client, f"tags/{tag.decode()}", index, True, tag * 256, tag=tag).code == CONTINUE
        assert put(client, "tags/both", index, True, tag * 256, tag=tag).code == CONTINUE
    assert put(client, "tags/both", 2, False, b"b", tag=b"b").code == CHANGED
    client.prove()
    assert read(client, "tags/both") == b"b" * 513


def test_a_client_has_few_unfinished_bodies_and_strangers_none(client: Client, coap_broker: BrokerProcess) -> None:
    codes = [put(client, f"many/{index}", 0, True, bytes(256)).code_text for index in range(20)]
    assert codes == ["2.31"] * 16 + ["5.03"] * 4
    options = [(BLOCK1, block(0, True, 4))]
    request = client.make(PUT, "publish/many/0", ("user=guest", "password=wrong"), options, bytes(256))
    assert client.ask(request).code_text == "4.01"
    assert put(client, "$SYS/many", 0, True, bytes(256)).code_text == "4.00"
    assert metric(coap_broker, "forebay_coap_bytes")[""] >= 16 * 256


def test_a_repeated_last_block_is_not_published_twice(client: Client) -> None:
    put(client, "last", 0, True, bytes(256))
    request = client.make(PUT, "publish/last", (*GUEST, "retain=true"), [(BLOCK1, block(1, False, 4))], b"end")
    assert client.ask(request).code == CHANGED
    client.send(encode(request))
    assert client.expect().code == CHANGED


def test_a_block_beyond_the_end_is_told(client: Client) -> None:
    client.publish("short", b"x", "retain=true")
    assert client.request(GET, "topic/short", options=[(BLOCK2, block(1, False, 6))]).code_text == "4.00"


def test_who_may_not_be_there_gets_short_blocks_and_who_is_gets_long_ones(coap_broker: BrokerProcess) -> None:
    with client(coap_broker) as first:
        put_all(first, "sizes", BODY * 2)
        answer = first.request(GET, "topic/sizes")
        assert answer.code == CONTENT and answer.number(SIZE2) == len(BODY) * 2
        assert 16 <= len(answer.payload) < 256
        assert read(first, "sizes") == BODY * 2
        first.prove()
        assert len(first.request(GET, "topic/sizes").payload) == 1024


def put_all(client: Client, topic: str, body: bytes) -> None:
    for at in range(0, len(body), 256):
        put(client, topic, at // 256, at + 256 < len(body), body[at : at + 256])
