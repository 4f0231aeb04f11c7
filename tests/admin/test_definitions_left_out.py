"""What a broker cannot put in force of another's definitions is left out and listed; everything else is imported."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pika
import pika.exceptions
import pytest

from tests.admin.importing import Document, asking, exported, lines, refusal, take_in
from tests.broker_process import BrokerProcess

SECTIONS = ("permissions", "topic_permissions", "parameters", "policies", "queues", "exchanges", "bindings")


def queue(name: str, arguments: Document | None = None, **fields: object) -> Document:
    return {"name": name, "vhost": "/", "arguments": arguments or {}, **fields}


def exchange(name: str, kind: str, arguments: Document | None = None) -> Document:
    return {"name": name, "vhost": "/", "type": kind, "arguments": arguments or {}}


def binding(source: str, destination: str, arguments: Document | None = None) -> Document:
    return {"source": source, "vhost": "/", "destination": destination, "arguments": arguments or {}}


def policy(pattern: str, definition: Document) -> Document:
    return {"vhost": "/", "name": "p", "pattern": pattern, "definition": definition}


def parameter(component: str, name: str, value: object) -> Document:
    return {"vhost": "/", "component": component, "name": name, "value": value}


# Each file, and how the lines about what is left out of it begin; ! marks those by which messages may be lost.
LEFT_OUT: list[tuple[Document, list[str]]] = [
    ({"queues": [queue("x", vhost="nope")]}, ["! queues[0] 'x': vhost: 'nope' does not exist, and is not among the"]),
    (
        {"queues": [queue("odd type", {"x-queue-type": "odd"})]},
        ["! queues[0] 'odd type': invalid arg 'x-queue-type' for queues[0] 'odd type': \"unsupported queue type '"],
    ),
    (
        {"queues": [queue("args", {"x-odd": 1, "x-mesage-ttl": 5, "x-max-length": "many"})]},
        [
            "! queues[0] 'args': arguments.x-mesage-ttl: nothing here puts it in force; did you mean x-message-ttl?",
            "! queues[0] 'args': arguments.x-max-length: invalid arg 'x-max-length' for queues[0] 'args': \"expected",
            "queues[0] 'args': arguments.x-odd: nothing here puts it in force",
        ],
    ),
    (
        {"queues": [queue("key", {"x-dead-letter-routing-key": "k", "x-expires": 0})]},
        [
            "! queues[0] 'key': arguments.x-dead-letter-routing-key: invalid arg 'x-dead-letter-routing-key' for que",
            "! queues[0] 'key': arguments.x-expires: invalid arg 'x-expires' for queues[0] 'key': {value_zero,0}",
        ],
    ),
    (
        {
            "queues": [
                queue("three", {"x-queue-type": "quorum", "x-quorum-initial-group-size": 3, "x-delivery-limit": 4}),
                queue("log", {"x-queue-type": "stream", "x-initial-cluster-size": 3}),
            ]
        },
        [
            "queues[0] 'three': arguments.x-quorum-initial-group-size: invalid arg 'x-quorum-initial-group-size' for",
            "queues[1] 'log': arguments.x-initial-cluster-size: invalid arg 'x-initial-cluster-size' for queues[1] '",
        ],
    ),
    (
        {
            "exchanges": [exchange("local", "x-local-random")],
            "queues": [queue("bound")],
            "bindings": [binding("local", "bound")],
        },
        [
            "! exchanges[0] 'local': type: 'x-local-random' is an unknown exchange type; known are direct, fanout, h",
            "! bindings[0] 'local': source: 'local' is no exchange of the vhost or the file, for it was left out",
        ],
    ),
    (
        {"exchanges": [exchange("e", "fanout", {"alternate-exchang": "x", "odd": 1})]},
        [
            "! exchanges[0] 'e': arguments.alternate-exchang: nothing here puts it in force; did you mean alternate-",
            "exchanges[0] 'e': arguments.odd: nothing here puts it in force",
        ],
    ),
    (
        {"exchanges": [exchange("d", "topic", {"alternate-exchange": 5})]},
        ["! exchanges[0] 'd': arguments.alternate-exchange: invalid type 'signedint' for arg 'alternate-exchange'"],
    ),
    (
        {
            "users": [{"name": "u", "password_hash": "zz", "tags": ""}],
            "permissions": [{"user": "u", "vhost": "/", "configure": "", "write": "", "read": ""}],
        },
        [
            "users[0] 'u': password_hash: 'zz...' is no base64 of a salt and a hash by rabbit_password_hashing_sha256",
            "permissions[0] 'u': user: 'u' does not exist, and is not among the users of the file",
        ],
    ),
    (
        {"vhosts": [{"name": "v", "default_queue_type": "odd", "limits": {"max-odd": 1, "max-queues": 7}}]},
        [
            "vhosts[0] 'v': default_queue_type: vhost: default_queue_type: 'odd' is not classic, quorum or stream",
            "vhosts[0] 'v': limits.max-odd: limit: 'max-odd' is no limit; the limits are max-connections, max-queues, ",
        ],
    ),
    (
        {"policies": [policy("", {"federation-upstream-set": "all", "ha-mode": "all", "max-lenght": 1})]},
        [
            "! policies[0] 'p': definition.federation-upstream-set: nothing here puts it in force",
            "! policies[0] 'p': definition.max-lenght: nothing here puts it in force; did you mean max-length?",
            "! policies[0] 'p': nothing is left of the policy, which is not made",
            "policies[0] 'p': definition.ha-mode: means nothing to this broker, and nothing is lost without it",
        ],
    ),
    (
        {"policies": [policy("(?<=a)b", {"max-length": 5})]},
        ["! policies[0] 'p': policy 'p': pattern: '(?<=a)b' is no regular expression: "],
    ),
    (
        {"parameters": [parameter("operator_policy", "o", {"pattern": "(a)\\1", "definition": {"max-length": 5}})]},
        ["! parameters[0] 'o': operator policy 'o': pattern: "],
    ),
    (
        {"parameters": [parameter("vhost-limits", "limits", {"max-odd": 1})]},
        ["parameters[0] 'limits': value.max-odd: limit: 'max-odd' is no limit; the limits are "],
    ),
    (
        {"parameters": [parameter("federation-upstream", "up", {"uri": "amqp://"}), parameter("c", "x" * 300, 1)]},
        [
            "! parameters[0] 'up': a parameter of 'federation-upstream' is kept, and means nothing to this broker",
            "parameters[1] 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx': name:",
        ],
    ),
    (
        {"bindings": [binding("amq.direct", "none")]},
        ["! bindings[0] 'amq.direct': destination: 'none' is no queue of the vhost or the file"],
    ),
    (
        {
            "queues": [queue("half")],
            "bindings": [binding("amq.headers", "half", {"x-match": "odd"}), binding("amq.direct", "half", {"why": 1})],
        },
        [
            "! bindings[0] 'amq.headers': Invalid x-match field value <<\"odd\">>",
            "bindings[1] 'amq.direct': arguments.why: nothing here puts it in force: only headers exchanges look at",
        ],
    ),
    ({"quues": [{"name": "x", "vhost": "/"}]}, ["! quues: no such section; did you mean queues?"]),
    (
        {"queues": [queue("slip", autodelete=True)]},
        ["queues[0] 'slip': autodelete: no such field; did you mean auto_d"],
    ),
]


@pytest.mark.parametrize(
    ("document", "told"), LEFT_OUT, ids=lambda each: next(iter(each)) if isinstance(each, dict) else ""
)
def test_what_cannot_be_in_force_is_left_out_and_listed(
    broker: BrokerProcess, document: Document, told: list[str]
) -> None:
    """And nothing else is: what stands beside it is there afterwards; a strict import changes nothing."""
    before = exported(broker)
    strict = refusal(broker, document, "/definitions?strict=true")
    assert exported(broker) == before
    found = lines(take_in(broker, {**document, "global_parameters": [{"name": "beside", "value": 1}]}))
    for line, start in zip(found, told, strict=True):
        assert line.startswith(start)
        said = line.removeprefix("! ")
        assert said in strict
        assert said in broker.log_text()
    assert {"name": "beside", "value": 1} in exported(broker)["global_parameters"]
    with asking(broker) as api:
        api.delete("/global-parameters/beside")


def test_what_is_left_of_an_entry_is_in_force(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http="127.0.0.1:0")
    for document, _ in LEFT_OUT:
        take_in(broker, document)
    found = exported(broker)
    assert {each["name"]: each["arguments"] for each in found["queues"]} == {
        "args": {},
        "bound": {},
        "half": {},
        "key": {},
        "log": {"x-queue-type": "stream"},
        "slip": {},
        "three": {"x-queue-type": "quorum", "x-delivery-limit": 4},
    }
    assert [each["arguments"] for each in found["exchanges"]] == [{}, {}]
    assert [(each["source"], each["destination"]) for each in found["bindings"]] == [("amq.direct", "half")]
    assert found["policies"] == []
    with asking(broker) as api:
        assert api.get("/vhost-limits/v").json() == [{"vhost": "v", "value": {"max-queues": 7}}]


def test_optional_fields_are_absent_or_null(broker: BrokerProcess) -> None:
    """As exports of RabbitMQ 3.7 have them, and scripts that fill in what they know."""
    nothing = {"durable": None, "auto_delete": None, "arguments": None}
    document = {
        "vhosts": [{"name": "nulls", "description": None, "tags": None, "limits": None, "metadata": None}],
        "users": [{"name": "nulls", "password_hash": None, "hashing_algorithm": None, "tags": None, "limits": None}],
        "permissions": None,
        "exchanges": [{"name": "e", "vhost": "nulls", "type": "direct", "internal": None, **nothing}],
        "queues": [{"name": "q", "vhost": "nulls", **nothing}, {"name": "r", "vhost": "nulls"}],
        "policies": [
            {
                "vhost": "nulls",
                "name": "p",
                "pattern": "^q",
                "definition": {"max-length": 5},
                "priority": None,
                "apply-to": None,
            }
        ],
        "bindings": [
            {"source": "e", "vhost": "nulls", "destination": "q"},
            {
                "source": "e",
                "vhost": "nulls",
                "destination": "r",
                "destination_type": None,
                "routing_key": None,
                "arguments": None,
            },
        ],
    }
    assert take_in(broker, document) == []
    found = exported(broker)
    ours = {section: [each for each in found[section] if each.get("vhost") == "nulls"] for section in SECTIONS}
    assert [(each["name"], each["durable"], each["auto_delete"]) for each in ours["queues"]] == [
        ("q", True, False),
        ("r", True, False),
    ]
    assert [(each["priority"], each["apply-to"]) for each in ours["policies"]] == [(0, "all")]
    keys = [(each["destination"], each["routing_key"]) for each in found["bindings"] if each["vhost"] == "nulls"]
    assert sorted(keys) == [("q", ""), ("r", "")]


def test_a_pattern_that_cannot_be_lets_nothing_pass(start_broker: Callable[..., BrokerProcess]) -> None:
    """A topic permission restricts: without it, the user could do everything."""
    broker = start_broker(http="127.0.0.1:0")
    document = {
        "users": [{"name": "u", "password": "p", "tags": "management"}],
        "permissions": [{"user": "u", "vhost": "/", "configure": "(?<!amq)x", "write": ".*", "read": "(a)\\1"}],
        "topic_permissions": [{"user": "u", "vhost": "/", "exchange": "amq.topic", "write": "^(?=a)", "read": ".*"}],
    }
    told = lines(take_in(broker, document))
    assert [line.partition(" is no regular")[0] for line in told] == [
        "permissions[0] 'u': configure: configure: '(?<!amq)x'",
        "permissions[0] 'u': read: read: '(a)\\1'",
        "topic_permissions[0] 'u': write: write: '^(?=a)'",
    ]
    found = exported(broker)
    (permission,) = [each for each in found["permissions"] if each["user"] == "u"]
    assert [permission[field] for field in ("configure", "write", "read")] == ["$x", ".*", "$x"]
    assert [(each["write"], each["read"]) for each in found["topic_permissions"]] == [("$x", ".*")]
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, "/", pika.PlainCredentials("u", "p"))
    with pika.BlockingConnection(parameters) as connection:
        for key in ("", "a", "x"):
            channel = connection.channel()
            channel.confirm_delivery()
            with pytest.raises(pika.exceptions.ChannelClosedByBroker):
                channel.basic_publish("amq.topic", key, b"")
        with pytest.raises(pika.exceptions.ChannelClosedByBroker):
            connection.channel().queue_declare("mine")


def test_a_broker_starts_with_what_can_be_in_force_and_strictly_not_at_all(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"queues": [queue("made", {"x-odd": 1})]}))
    broker = BrokerProcess(tmp_path / "lenient", http="127.0.0.1:0", definitions_import_path=str(file))
    broker.start()
    with asking(broker) as api:
        assert api.get("/queues/%2F/made").json()["arguments"] == {}
    told = "queues[0] 'made': arguments.x-odd: nothing here puts it in force"
    assert f"definitions_import_path: left out: {told}" in broker.log_text()
    broker.finish()
    strict = BrokerProcess(tmp_path / "strict", definitions_import_path=str(file), definitions_strict=True)
    strict.launch()
    assert strict.wait() == 2
    assert f"definitions_import_path: {file}: {told}" in strict.log_text()


def test_many_entries_are_left_out_at_once(broker: BrokerProcess) -> None:
    """The broker lives, and every one of them is listed."""
    many = [queue(f"q{number}", {"x-queue-type": "jms"}) for number in range(3_000)]
    assert len(take_in(broker, {"queues": many})) == len(many)


def test_what_a_client_asks_for_is_refused_by_name_as_before(broker: BrokerProcess) -> None:
    with asking(broker) as api:
        answer: dict[str, Any] = api.put("/queues/%2F/asked", json={"arguments": {"x-odd": 1}}).json()
        assert "invalid arg 'x-odd'" in answer["reason"]
