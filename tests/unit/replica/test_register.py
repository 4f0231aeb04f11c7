"""The register's value: what is written comes back, and what nobody wrote is refused by field and value."""

from __future__ import annotations

import json

import pytest

from forebay.replica.register import (
    MemberAddresses,
    RegisterError,
    RegisterValue,
    decode_register,
    encode_register,
    founding,
)

STORES = [f"{number:032x}" for number in range(1, 4)]
GROUP = f"{9:032x}"
ADDRESSES = MemberAddresses("10.0.0.1:7000", {"amqp": "10.0.0.1:5672"})


def three() -> RegisterValue:
    nodes = ["a", "b", "c"]
    return RegisterValue(
        "shop", 7, "b", {"a": STORES[0], "b": STORES[1]}, dict.fromkeys(nodes, ADDRESSES), 2, "take-over", "b"
    )


def test_what_is_written_comes_back() -> None:
    assert decode_register(encode_register(three())) == three()
    first = founding("shop", "a", STORES[0], ADDRESSES, 1, GROUP)
    assert decode_register(encode_register(first)) == first
    assert first.copy("operator", "").group == GROUP
    assert (first.epoch, first.leader, first.in_sync) == (1, "a", {"a": STORES[0]})


def test_a_record_without_a_group_stays_one() -> None:
    assert b"group" not in encode_register(three())
    assert decode_register(encode_register(three())).group == ""


def test_the_order_of_members_does_not_matter() -> None:
    other = three()
    other.members = dict(reversed(other.members.items()))
    other.in_sync = dict(reversed(other.in_sync.items()))
    assert encode_register(other) == encode_register(three())


def test_a_copy_is_changed_alone() -> None:
    value = three()
    copy = value.copy("operator", "")
    copy.in_sync["c"] = STORES[2]
    del copy.members["a"]
    assert value == three()
    assert (copy.why, copy.by) == ("operator", "")


@pytest.mark.parametrize(
    ("field", "given", "told"),
    [
        ("version", 2, "version 2"),
        ("cluster", "", "cluster is ''"),
        ("group", "", "group is ''"),
        ("group", "of another", "group is 'of another'"),
        ("cluster", "x" * 256, "cluster is"),
        ("epoch", 0, "epoch is 0"),
        ("epoch", True, "epoch is True"),
        ("epoch", 1 << 63, "epoch is"),
        ("leader", "c", "leader is 'c', which is not in sync"),
        ("leader", None, "leader is None"),
        ("in_sync", {"a": STORES[0], "b": STORES[1], "x": STORES[2]}, "in_sync names 'x'"),
        ("in_sync", {"b": "12"}, "in_sync of 'b' is '12'"),
        ("in_sync", {"b": STORES[1].upper().replace("0", "G")}, "in_sync of 'b'"),
        ("in_sync", [], "in_sync is []"),
        ("members", {"b": {"peer": "x:1"}}, "clients of 'b' is None"),
        ("members", {"b": {"peer": 1, "clients": {}}}, "peer of 'b' is 1"),
        ("members", {"b": {"peer": "x:1", "clients": {"amqp": 2}}}, "clients of 'b', 'amqp' is 2"),
        ("members", {"b": {"peer": "x:1", "clients": {}, "other": 1}}, "has a field 'other'"),
        ("members", {f"n{i}": {"peer": "x:1", "clients": {}} for i in range(8)}, "members are 8"),
        ("min_in_sync", 0, "min_in_sync is 0"),
        ("min_in_sync", "2", "min_in_sync is '2'"),
        ("why", "whim", "why is 'whim'"),
        ("by", 3, "by is 3"),
        ("other", 1, "has a field 'other'"),
    ],
)
def test_what_nobody_wrote_is_refused(field: str, given: object, told: str) -> None:
    fields = json.loads(encode_register(three()))
    fields[field] = given
    with pytest.raises(RegisterError) as refused:
        decode_register(json.dumps(fields).encode())
    assert told in str(refused.value)


@pytest.mark.parametrize("octets", [b"", b"{", b"[]", b"\xff", b"null", b'"x"'])
def test_what_is_no_object_is_refused(octets: bytes) -> None:
    with pytest.raises(RegisterError):
        decode_register(octets)
