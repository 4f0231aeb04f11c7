"""Headers that request something: found where they are, passed over where something only looks so."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from forebay.core.message import EXPIRES, KEYED, Properties
from forebay.message.formats.table import EXCHANGE_FORMAT
from forebay.message.requests import REQUEST_HEADERS, REQUESTS, UNKNOWN
from forebay.wire.amqp091.properties import encode_properties


def properties(**headers: object) -> bytes:
    """With these headers, `_` standing for `-`."""
    made = Properties()
    made.message_id = "id"
    made.headers = [(name.replace("_", "-"), value) for name, value in headers.items()]
    return encode_properties(made)


def test_few_messages_request_something() -> None:
    for name in REQUEST_HEADERS:
        assert EXCHANGE_FORMAT.requests(properties(**{"a": 1, name.decode(): "x", "z": None})) == REQUESTS
    for octets in (b"\0\0", properties(), properties(cc=["a"], x_delayed=5, C=1, X_delay=5, CCC=[], BCCC=[])):
        assert not EXCHANGE_FORMAT.requests(octets)
    assert EXCHANGE_FORMAT.requests(properties(x_group_id="g")) == KEYED
    assert EXCHANGE_FORMAT.requests(properties(x_group_id="g", CC=[])) == KEYED | REQUESTS
    assert not EXCHANGE_FORMAT.requests(properties(table={"CC": ["a"], "x-delay": 5}, text="x-delay", list=["BCC"]))


@given(
    st.lists(
        st.sampled_from([name.decode() for name in REQUEST_HEADERS] + ["", "x-", "C", "Bcc", "x-delay-"]), max_size=4
    )
)
def test_a_message_requests_something_by_one_of_the_names(names: list[str]) -> None:
    made = Properties()
    made.headers = [(name, "v") for name in names]
    assert bool(EXCHANGE_FORMAT.requests(encode_properties(made)) & REQUESTS) == any(
        name.encode() in REQUEST_HEADERS for name in names
    )


def test_reserved_names_and_expirations() -> None:
    assert EXCHANGE_FORMAT.requests(properties(x_forebay_delay=5)) == UNKNOWN
    made = Properties()
    made.expiration_ms = 1000
    assert EXCHANGE_FORMAT.requests(encode_properties(made)) == EXPIRES
