"""Protobuf messages as columns, and bodies that Protobuf's own library has written."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from forebay.core.errors import OptionError
from forebay.spark.formats.body_format import BodyReading
from forebay.spark.formats.protobuf import ProtobufFormat
from tests.protobuf_files import descriptors, message


def read_all(bodies: list[bytes | None], name: str) -> tuple[list[Any], list[str | None]]:
    """The bodies as an executor makes columns of them, and what is wrong with each."""
    batch = pa.RecordBatch.from_pydict({"value": pa.array(bodies, pa.binary())})
    reading = BodyReading(ProtobufFormat(name, descriptors()), 0, 0, "body", "error")
    (found,) = reading(iter([batch]))
    return found.column(1).to_pylist(maps_as_pydicts="strict"), found.column(2).to_pylist()


def test_every_type_becomes_a_column() -> None:
    said = message("tests.Reading")
    said.device = "pump-1"
    said.level = -3
    said.total = (1 << 64) - 1
    said.count = (1 << 32) - 1
    said.ratio = 0.25
    said.raw = b"\xff"
    said.state = 1
    said.at.FromDatetime(datetime(2026, 11, 23, 12, 30, 1, 5, tzinfo=UTC))
    said.took.FromTimedelta(timedelta(seconds=2, microseconds=7))
    said.place.floor = 4
    said.values.extend([1, 2])
    said.labels["a"] = 7
    (found,), errors = read_all([said.SerializeToString()], "tests.Reading")
    assert errors == [None]
    assert found == {
        "device": "pump-1",
        "level": -3,
        "total": Decimal((1 << 64) - 1),
        "count": (1 << 32) - 1,
        "ratio": 0.25,
        "raw": b"\xff",
        "state": "ON",
        "at": datetime(2026, 11, 23, 12, 30, 1, 5, tzinfo=UTC),
        "took": timedelta(seconds=2, microseconds=7),
        "place": {"floor": 4},
        "values": [1, 2],
        "labels": {"a": 7},
        "note": None,
    }


def test_a_number_that_was_not_sent_is_0_and_what_may_be_absent_is_null() -> None:
    (found,), errors = read_all([b""], "tests.Reading")
    assert errors == [None]
    assert (found["level"], found["device"], found["values"], found["state"]) == (0, "", [], "OFF")
    assert found["at"] is found["place"] is found["note"] is None


def test_a_state_that_the_descriptor_does_not_know_is_its_number() -> None:
    said = message("tests.Reading")
    said.state = 77
    (found,), _ = read_all([said.SerializeToString()], "tests.Reading")
    assert found["state"] == "77"


def test_bad_bodies_are_told_apart_and_harm_no_other() -> None:
    good = message("tests.Needy")
    good.needed = 5
    found, errors = read_all([good.SerializeToString(), b"\xff", b"", None], "tests.Needy")
    assert found == [{"needed": 5}, None, None, None]
    assert errors[0] is None
    assert errors[1] and "DecodeError" in errors[1]
    assert errors[2] and "needed" in errors[2]
    assert errors[3] == "there is no body"


@given(st.lists(st.binary(max_size=40), max_size=8))
def test_any_octets_are_read_or_told(bodies: list[bytes]) -> None:
    found, errors = read_all(list(bodies), "tests.Reading")
    assert [each is None for each in found] == [each is not None for each in errors]


def test_arguments_are_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="descriptor: missing"):
        ProtobufFormat("tests.Reading", "")
    with pytest.raises(OptionError, match=r"descriptor: '.*none' cannot be read: No such file"):
        ProtobufFormat("tests.Reading", tmp_path / "none")
    with pytest.raises(OptionError, match="descriptor: it is no set of descriptors"):
        ProtobufFormat("tests.Reading", b"\xff")
    with pytest.raises(OptionError, match=r"schema: no message 'tests\.Other' in the descriptor"):
        ProtobufFormat("tests.Other", descriptors())
    with pytest.raises(OptionError, match=r"schema: tests\.Tree\.left: the message tests\.Tree holds itself"):
        ProtobufFormat("tests.Tree", descriptors())
    file = tmp_path / "set"
    file.write_bytes(descriptors())
    assert ProtobufFormat("tests.Reading", file).columns().fieldNames()[0] == "device"
