"""What the administration is given of a broker: values, which another process could be sent."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import msgspec
import pytest

import forebay.admin
from forebay.management.directory_reader import DirectoryReader, UserReading
from forebay.server.broker_view import BrokerView
from forebay.server.readings import ClientsReading, IntakeReading, LoadReading, LogReading, Readings
from tests.node_rig import NodeRig

ADMIN = Path(forebay.admin.__file__).parent
LIVE = {"store", "pressure", "flow", "newcomers", "rates", "auth", "alarms"}  # parts of a node
LIVE |= {"connections", "open", "holds", "stats", "totals", "disk"}
VIEWS = ("app", "self.app", "broker", "self.broker", "look.app", "rates.app")
CLUSTER = "metrics/cluster.py"  # of a node that does not lead, and has no broker


def test_the_view_has_no_part_of_a_node_that_readings_tell_of() -> None:
    assert LIVE & set(BrokerView.__annotations__) == set()


def test_the_administration_reaches_into_no_store_and_no_directory() -> None:
    found = [
        f"{path.relative_to(ADMIN)}:{node.lineno}: {ast.unparse(node)}"
        for path in sorted(ADMIN.rglob("*.py"))
        if str(path.relative_to(ADMIN)) != CLUSTER
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and (
            node.attr in {"store", "pressure"}
            or ast.unparse(node).endswith(".vhosts.directory")
            or ast.unparse(node).startswith(tuple(f"{view}.{part}" for view in VIEWS for part in sorted(LIVE)))
        )
    ]
    assert found == []


def test_only_a_client_of_the_administration_has_a_connection() -> None:
    """Whoever is no client of it is read as values (`ConnectionReader`)."""
    found = {
        str(path.relative_to(ADMIN))
        for path in ADMIN.rglob("*.py")
        if re.search(r"server\.net import", path.read_text())
    }
    assert found == {"bridge/transport.py", "coap/notifications.py", "coap/observations.py"}


@pytest.mark.parametrize("type", [LogReading, IntakeReading, LoadReading, ClientsReading])
def test_a_reading_can_be_sent(tmp_path: Path, type: type[msgspec.Struct]) -> None:
    rig = NodeRig(tmp_path, None)
    readings = Readings(rig.broker)
    made = {
        LogReading: readings.log,
        IntakeReading: lambda: readings.intake(rig.clock.us),
        LoadReading: readings.load,
        ClientsReading: readings.clients,
    }
    reading = made[type]()
    assert msgspec.json.decode(msgspec.json.encode(reading), type=type) == reading
    rig.close()


def test_users_are_read_as_values(tmp_path: Path) -> None:
    rig = NodeRig(tmp_path, None)
    rig.vhosts.directory.users.add("ann", "", ["management"])
    rig.vhosts.directory.users.set_limits("ann", {"connections_max": 5})
    reader = DirectoryReader(rig.vhosts.directory)
    ann = reader.user("ann")
    assert (ann.tags, ann.is_free, ann.limits) == (["management"], False, {"max-connections": 5})
    assert msgspec.json.decode(msgspec.json.encode(ann), type=UserReading) == ann
    assert ann in reader.users()
    assert reader.find_user("bob") is None
    rig.close()
