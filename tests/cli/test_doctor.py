"""`forebay doctor` beside a broker, before one, and with what is wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.broker_process import BrokerProcess
from tests.unit.cli.commands import Forebay


def findings(printed: str) -> dict[str, dict[str, Any]]:
    """The worst finding of each check."""
    order = ("good", "note", "warning", "error")
    found: dict[str, dict[str, Any]] = {}
    for each in json.loads(printed)["findings"]:
        if each["check"] not in found or order.index(each["level"]) > order.index(found[each["check"]]["level"]):
            found[each["check"]] = each
    return found


def test_beside_a_broker_its_own_limits_are_looked_at(forebay: Forebay, shared: BrokerProcess) -> None:
    done = forebay.run("doctor", "--json")
    found = findings(done.stdout)
    assert (done.returncode != 0) == (json.loads(done.stdout)["worst"] in {"warning", "error"})
    assert set(found) == {
        *("configuration", "broker", "version", "data folder", "disk", "disk room", "open files", "memory"),
        *("clock", "ports", "default password"),
    }
    assert found["broker"]["level"] == "good"
    assert f"in use by the process {shared.pid}" in found["data folder"]["text"]
    assert found["disk"]["fields"]["syncs"] > 0
    assert f"127.0.0.1:{shared.amqp_port}" in found["ports"]["text"]
    assert found["default password"]["fields"] == {"guest": True, "everywhere": False}


def test_before_a_broker_starts_what_would_stop_it_is_said(forebay: Forebay, tmp_path: Path) -> None:
    file = tmp_path / "forebay.yaml"
    file.write_text(
        f"amqp: {forebay.environment['FOREBAY_SERVER']}\ndata: {tmp_path}\nmemory_octets_max: 1099511627776\n"
    )
    done = forebay.run("doctor", "--server", "127.0.0.1:1", "--config", str(file), "--json")
    found = findings(done.stdout)
    assert done.returncode == 1
    assert found["broker"]["level"] == "note"
    assert (found["ports"]["level"], found["data folder"]["level"]) == ("error", "error")
    assert found["memory"]["level"] == "error"
    printed = forebay.run("doctor", "--server", "127.0.0.1:1", "--config", str(file)).stdout
    text = " ".join(printed.split())
    assert "is no data folder of a broker: it has forebay.yaml" in text
    assert "→ give the broker a folder of its own" in text
    assert " errors" in printed.splitlines()[-1]


def test_whoever_is_no_administrator_is_told(forebay: Forebay) -> None:
    found = findings(forebay.run("doctor", "--password", "wrong", "--json").stdout)
    assert (found["broker"]["level"], "Login was refused" in found["broker"]["text"]) == ("warning", True)
    assert "--user and --password" in found["broker"]["remedy"]
