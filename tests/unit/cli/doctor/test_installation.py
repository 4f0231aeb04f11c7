"""Configuration, passwords, ports and data folders."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path

import pytest

from forebay.cli.doctor.diagnosis import ERROR, GOOD, NOTE, WARNING, worst
from forebay.cli.doctor.installation import broker as broker_findings
from forebay.cli.doctor.installation import configuration, folder, guest_of, password, ports
from forebay.core.options import make_options
from forebay.directory.logins.passwords import SALT_OCTETS, hash_password
from tests.broker_process import BrokerProcess

QUIET = {"alarms": [], "slow_readers": 0, "sessions_over_quota": 0, "connections": 1, "connections_max": 100}


def test_faults_of_the_configuration_come_with_their_place(tmp_path: Path) -> None:
    file = tmp_path / "forebay.yaml"
    file.write_text("amqp: 127.0.0.1:5672\namqpp: x\n")
    (found,) = configuration(str(file), {})
    assert (found.level, f"{file}:2: amqpp" in found.text) == (ERROR, True)
    assert f"forebay config check {file}" in found.remedy
    file.write_text("amqp: 0.0.0.0:5672\n")  # which the finding on ports says
    assert [each.level for each in configuration(str(file), {})] == [GOOD]


def test_ports_that_others_reach_or_have() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        (found,) = ports({"amqp": f"127.0.0.1:{port}"}, False)
        assert (found.level, f"amqp 127.0.0.1:{port}: address already in use" in found.text) == (ERROR, True)
        assert ports({"amqp": f"127.0.0.1:{port}"}, True)[0].level == GOOD
    assert ports({"amqp": f"127.0.0.1:{port}"}, False)[0].level == GOOD
    open_to_all = ports({"amqp": "0.0.0.0:5672", "amqps": "0.0.0.0:5671", "prometheus": "[::]:15692"}, True)
    assert [(each.level, each.fields["listener"]) for each in open_to_all] == [
        (WARNING, "amqp"),
        (WARNING, "prometheus"),
    ]
    assert "amqps" in open_to_all[0].remedy


@pytest.mark.parametrize(
    ("enters", "address", "everywhere", "level"),
    [
        (False, "0.0.0.0:1", True, GOOD),
        (True, "127.0.0.1:1", False, NOTE),
        (True, "127.0.0.1:1", True, NOTE),
        (True, "0.0.0.0:1", False, WARNING),
        (True, "0.0.0.0:1", True, ERROR),
    ],
)
def test_the_password_that_everybody_knows(enters: bool, address: str, everywhere: bool, level: str) -> None:
    assert password(enters, {"amqp": address}, everywhere).level == level


def test_guest_is_known_by_password_and_by_hash() -> None:
    assert guest_of(make_options({}))
    assert guest_of(make_options({"users": {"guest": hash_password("guest", bytes(SALT_OCTETS))}}))
    assert not guest_of(make_options({"users": {"guest": "another one"}}))
    assert not guest_of(make_options({"users": {"ann": "guest"}}))


def test_folders_that_are_none(tmp_path: Path) -> None:
    assert [each.level for each in folder(tmp_path / "new", None)] == [NOTE]
    tmp_path.chmod(0o700)
    assert [each.level for each in folder(tmp_path, None)] == [GOOD]
    (tmp_path / "letter.txt").write_text("x")
    (foreign,) = folder(tmp_path, None)
    assert (foreign.level, "letter.txt" in foreign.text) == (ERROR, True)
    tmp_path.chmod(0o755)
    assert "mode 755" in folder(tmp_path, None)[0].text


def test_a_folder_is_read_as_a_broker_would(broker: BrokerProcess, tmp_path: Path) -> None:
    broker.stop()
    assert [each.level for each in folder(broker.data, None)] == [GOOD]
    copy = tmp_path / "copy"
    shutil.copytree(broker.data, copy)
    copy.chmod(0o700)
    wal = min((copy / "wal").glob("*.wal"))
    octets = bytearray(wal.read_bytes())
    octets[40] ^= 1
    wal.write_bytes(bytes(octets))
    (damaged,) = folder(copy, None)
    assert (damaged.level, str(wal) in damaged.text, "forebay log repair" in damaged.remedy) == (ERROR, True, True)
    (copy / "x.damaged").write_bytes(b"")
    assert "set aside by a repair" in folder(copy, None)[0].text


@pytest.mark.parametrize(
    ("facts", "level", "said"),
    [
        ({}, GOOD, "no alarm"),
        ({"alarms": ["disk"]}, ERROR, "alarm: disk"),
        ({"alarms": ["damage"]}, ERROR, "alarm: damage"),
        ({"slow_readers": 2}, WARNING, "2 clients do not read"),
        ({"sessions_over_quota": 3}, WARNING, "3 MQTT sessions"),
        ({"connections": 95}, WARNING, "95 of 100 connections"),
    ],
)
def test_what_a_broker_says_of_itself(facts: dict[str, object], level: str, said: str) -> None:
    found = broker_findings({**QUIET, **facts})
    assert (worst(found), said in found[0].text) == (level, True)
    assert bool(found[0].remedy) == (level != GOOD)
