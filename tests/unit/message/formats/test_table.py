"""Only its adapter, and the wire and session of its protocol, ask what a format is."""

from __future__ import annotations

import ast
from pathlib import Path

import forebay
from forebay.core.message import AMQP091, AMQP10, EXPIRES, KEYED, MQTT, QOS_SHIFT, RETAIN, RETAINED
from forebay.message.formats.table import AT_QOS_0, FORMATS, MARKED_LATE, format_of, known_format, topic_octet

SOURCE = Path(forebay.__file__).parent
NUMBERS = {"AMQP091", "AMQP10", "MQTT"}
# Modules that may name the number of a format: adapters, and sessions of that protocol.
MAY_NAME = {
    "message.formats.amqp091": {"AMQP091"},
    "message.formats.amqp10": {"AMQP10"},
    "message.formats.mqtt": {"MQTT"},
    "session.amqp10.incoming.publish": {"AMQP10"},
    "session.amqp10.incoming.receiving": {"AMQP10"},
    "session.amqp10.outgoing.encode": {"AMQP10"},
    "session.amqp091.deliver": {"AMQP091"},
    "session.amqp091.publish": {"AMQP091"},
    "session.amqp091.query": {"AMQP091"},
    "session.mqtt.incoming.commands": {"MQTT"},
    "session.mqtt.incoming.publish": {"MQTT"},
    "session.mqtt.outgoing.encode": {"MQTT"},
}
# Modules that may part the number from the rest of an octet: those of Spark for a whole column at a time.
MAY_MASK = {
    "message.formats.conversion",
    "message.formats.mqtt",
    "message.formats.table",
    "message.properties",
    "session.amqp10.outgoing.encode",
    "session.amqp091.deliver",
    "session.mqtt.outgoing.encode",
    "spark.arrow.batches",
    "spark.arrow.properties",
    "spark.filters.native",
}
ADAPTERS = {f"forebay.message.formats.{name}" for name in ("amqp091", "amqp10", "mqtt")}


def imports() -> dict[str, set[str]]:
    """Return by module what it imports by `from`, with the module that it comes from."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        names = found.setdefault(".".join(path.relative_to(SOURCE).with_suffix("").parts), set())
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                names.update(f"{node.module}.{each.name}" for each in node.names)
                names.add(f"{node.module}")
            elif isinstance(node, ast.Import):
                names.update(each.name for each in node.names)
    return found


IMPORTS = imports()


def test_modules_that_name_a_format() -> None:
    named = {
        module: {name for name in NUMBERS if f"forebay.core.message.{name}" in of} for module, of in IMPORTS.items()
    }
    assert {module: names for module, names in named.items() if names} == MAY_NAME


def test_modules_that_part_an_octet() -> None:
    assert {module for module, of in IMPORTS.items() if "forebay.core.message.FORMAT_MASK" in of} == MAY_MASK


def test_adapters_are_found_by_the_table_alone() -> None:
    assert {module for module, of in IMPORTS.items() if of & ADAPTERS} == {"message.formats.table"}


def test_octets_of_each_format() -> None:
    assert [(each.number, each.name) for each in FORMATS] == [
        (AMQP091, "amqp091"),
        (MQTT, "mqtt"),
        (AMQP10, "amqp10"),
    ]
    for octet in range(256):
        found = known_format(octet)
        if found is None:
            assert (AT_QOS_0[octet], MARKED_LATE[octet]) == (0, 0)
            continue
        assert found is format_of(octet)
        assert octet & 3 == found.number
        assert AT_QOS_0[octet] == (found.qos(octet) == 0)
        assert MARKED_LATE[octet] == found.marks_late


def test_the_qos_of_an_octet() -> None:
    for qos in range(3):
        octet = int(topic_octet(qos, True))
        assert format_of(octet).qos(octet) == qos
        assert octet == MQTT | qos << QOS_SHIFT | RETAIN
    assert topic_octet(0, False) == MQTT
    assert format_of(AMQP091).qos(AMQP091 | EXPIRES | KEYED) == 1


def test_octets_that_a_client_may_give_its_rows() -> None:
    allowed = {octet for octet in range(256) if (found := known_format(octet)) is not None and found.may_publish(octet)}
    of_mqtt = {MQTT | qos << QOS_SHIFT | retain for qos in range(3) for retain in (0, RETAIN)}
    assert allowed == {AMQP091} | of_mqtt
    assert not allowed & {AMQP091 | EXPIRES, MQTT | KEYED, MQTT | RETAINED, MQTT | 3 << QOS_SHIFT}
