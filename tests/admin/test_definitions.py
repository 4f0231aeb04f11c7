"""Definitions go out and come in as RabbitMQ's files, whole or not at all."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pika
import pika.exceptions
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.admin.importing import Document, asking, exported, refusal, take_in
from tests.broker_process import BrokerProcess

FILES = Path(__file__).parent / "definitions"
SECTIONS = ("users", "vhosts", "permissions", "topic_permissions", "parameters", "policies", "queues", "exchanges")


def by_name(entries: list[Document]) -> list[str]:
    """Entries in an order that both brokers can have."""
    return sorted(json.dumps(entry, sort_keys=True) for entry in entries)


def rabbitmq(version: str) -> Document:
    document: Document = json.loads((FILES / f"rabbitmq-{version}.json").read_text())
    return document


def test_a_file_of_rabbitmq_4_comes_out_as_it_went_in(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http="127.0.0.1:0")
    document = rabbitmq("4.0")
    take_in(broker, document)
    found = exported(broker)
    for section in (*SECTIONS, "bindings", "global_parameters"):
        theirs, ours = document[section], found[section]
        if section == "users":  # guest is of the configuration
            theirs = [user for user in theirs if user["name"] != "guest"]
            ours = [user for user in ours if user["name"] != "guest"]
        assert by_name(ours) == by_name(theirs), section
    with asking(broker, "anna", "anna's password") as api:
        assert api.get("/whoami").json()["tags"] == ["administrator"]
    credentials = pika.PlainCredentials("worker", "wörker")
    parameters = pika.ConnectionParameters("127.0.0.1", broker.amqp_port, "orders", credentials)
    with pika.BlockingConnection(parameters) as connection:
        connection.channel().basic_get("jobs")
    broker.kill9()
    broker.start()
    assert exported(broker) == found
    with asking(broker) as api:
        alone = api.get("/definitions/orders").json()
        assert alone["rabbitmq_definition_format"] == "single_virtual_host"
        assert [queue["name"] for queue in alone["queues"]] == ["audit", "jobs", "jobs.urgent", "lost"]
        assert not any("vhost" in entry for section in ("queues", "bindings", "policies") for entry in alone[section])
        api.put("/vhosts/copy")
        assert take_in(broker, alone, "/definitions/copy") == []
        again = api.get("/definitions/copy").json()
        for section in ("parameters", "policies", "queues", "exchanges", "bindings"):
            assert by_name(again[section]) == by_name(alone[section]), section


def test_a_file_of_rabbitmq_3_10_leaves_out_what_means_nothing(start_broker: Callable[..., BrokerProcess]) -> None:
    broker = start_broker(http="127.0.0.1:0")
    take_in(broker, rabbitmq("3.10"))
    found = exported(broker)
    assert [(each["name"], each["definition"]) for each in found["policies"]] == [
        ("lazy", {"max-length": 1000, "queue-mode": "lazy"})
    ]
    assert [queue["name"] for queue in found["queues"]] == ["jobs", "lazy.mail", "mail"]
    for text in ("ha-mode: means nothing", "user 'guest' is of the configuration"):
        assert text in broker.log_text()
    with asking(broker, "old", "old password") as api:  # salted SHA-512; without a tag it may do nothing
        assert "management" in api.get("/whoami").json()["reason"]


def test_our_own_file_comes_in_again(broker: BrokerProcess, start_broker: Callable[..., BrokerProcess]) -> None:
    with asking(broker) as api:
        api.put("/users/ours", json={"password": "secret", "tags": "administrator"})
        api.put("/users/nobody", json={"tags": ""})
    document = exported(broker)
    other = start_broker(http="127.0.0.1:0")
    take_in(other, document)
    take_in(other, document)
    assert "declared otherwise" not in other.log_text()
    assert exported(other) == {
        **document,
        "explanation": exported(other)["explanation"],
        "original_cluster_name": exported(other)["original_cluster_name"],
    }
    with asking(other, "ours", "secret") as api:
        assert api.get("/whoami").status_code == 200
    with asking(other, "nobody", "") as api:
        assert api.get("/whoami").status_code == 401


@pytest.mark.parametrize(
    ("document", "text"),
    [
        ({"queues": [{"name": "x", "vhost": "/", "durable": "no"}]}, "queues[0] 'x': durable: 'no' is neither"),
        ({"queues": [{"name": "", "vhost": "/"}]}, "queues[0] '': name: '' is no name"),
        ({"queues": [{"vhost": "/"}]}, "queues[0]: name: None is no text"),
        ({"queues": [{"name": "x", "vhost": "/", "arguments": {"a": 1 << 63}}]}, "more than 64 bits"),
        ({"queues": {}}, "queues: is no list"),
        ({"queues": [5]}, "queues[0]: 5 is no object"),
        ({"users": [{"name": "u", "password_hash": "", "tags": [1]}]}, "users[0] 'u': tags: [1] is no list of texts"),
        ({"users": [{"name": "", "tags": ""}]}, "users[0] '': name: '' is no name"),
        ({"vhosts": [{"name": ""}]}, "vhosts[0] '': name: '' has not 1 to 255 octets"),
        ({"bindings": [{"source": "amq.topic", "vhost": "/", "destination": 5}]}, "destination: 5 is no text"),
        (
            {"policies": [{"vhost": "/", "name": "p", "pattern": "", "priority": "1"}]},
            "priority: '1' is no whole number",
        ),
        ([], "the file is no object"),
    ],
)
def test_what_is_wrong_changes_nothing(broker: BrokerProcess, document: object, text: str) -> None:
    before = exported(broker)
    valid = {"vhosts": [{"name": "left out"}], "global_parameters": [{"name": "left out", "value": 1}]}
    whole = {**valid, **document} if isinstance(document, dict) else document
    if isinstance(document, dict) and "vhosts" in document:
        whole = {**document, "global_parameters": valid["global_parameters"]}
    assert text in refusal(broker, whole)
    assert exported(broker) == before


def test_all_that_is_wrong_is_said_at_once(broker: BrokerProcess) -> None:
    before = exported(broker)
    document = {
        "queues": [{"name": "good", "vhost": "/"}, {"vhost": "/"}, 5, {"name": "x", "vhost": "/", "durable": "no"}],
        "exchanges": {},
        "users": [{"name": "u", "tags": 1}],
        "permissions": [{"user": "guest", "vhost": "/", "configure": None, "write": "", "read": ""}],
    }
    assert refusal(broker, document).split("; ") == [
        "users[0] 'u': tags: 1 is no list of texts",
        "permissions[0] 'guest': configure: None is no text",
        "exchanges: is no list",
        "queues[1]: name: None is no text",
        "queues[2]: 5 is no object",
        "queues[3] 'x': durable: 'no' is neither true nor false",
    ]
    assert exported(broker) == before


@pytest.mark.parametrize("body", [b"", b"{", b'{"queues":[{]}', b'{"vhosts":["\xff"]}', b'{"\xff":[]}', b"[]]"])
def test_what_is_no_json_changes_nothing(broker: BrokerProcess, body: bytes) -> None:
    before = exported(broker)
    answer = httpx.post(f"{broker.http_url}/api/definitions", auth=("guest", "guest"), content=body)
    assert (answer.status_code, answer.json()["reason"].partition(":")[0]) == (400, "not_json")
    assert exported(broker) == before


def test_a_form_is_taken_as_the_page_of_rabbitmq_sends_it(broker: BrokerProcess) -> None:
    file = json.dumps({"queues": [{"name": "formed", "vhost": "/", "durable": True}]})
    with asking(broker) as api:
        answer = api.post("/definitions", files={"file": ("definitions.json", file, "application/json")})
        assert answer.status_code == 204, answer.text
        assert api.get("/queues/%2F/formed").status_code == 200
        assert api.post("/definitions", files={"other": ("x", file)}).status_code == 400
        assert api.post("/definitions", content=b"{").status_code == 400
        saved = api.get("/definitions?download=a b.json").headers["Content-Disposition"]
        assert saved == 'attachment; filename="a_b.json"'


def test_what_is_there_stays_and_nothing_goes(broker: BrokerProcess) -> None:
    with asking(broker) as api:
        api.put("/queues/%2F/stays", json={"durable": True, "arguments": {"x-max-length": 5}})
        api.put("/exchanges/%2F/stays", json={"durable": True, "type": "topic"})
        api.put("/global-parameters/set", json={"value": 1})
    document = {
        "queues": [{"name": "stays", "vhost": "/", "durable": False, "auto_delete": False, "arguments": {}}],
        "exchanges": [
            {"name": "stays", "vhost": "/", "type": "fanout"},
            {"name": "amq.topic", "vhost": "/", "type": "topic"},
        ],
        "bindings": [{"source": "stays", "vhost": "/", "destination": "stays", "routing_key": "*"}],
        "global_parameters": [{"name": "set", "value": 2}],
        "users": [{"name": "typed", "password": "by hand", "tags": "monitoring"}],
    }
    take_in(broker, document)
    take_in(broker, document)
    noted = "'stays': the {} is there, declared otherwise, and stays as it is"
    assert broker.log_text().count("queues[0] " + noted.format("queue")) == 2
    assert broker.log_text().count("exchanges[0] " + noted.format("exchange")) == 2
    found = exported(broker)
    queue = next(queue for queue in found["queues"] if queue["name"] == "stays")
    assert (queue["durable"], queue["arguments"]) == (True, {"x-max-length": 5})
    assert next(each for each in found["exchanges"] if each["name"] == "stays")["type"] == "topic"
    assert {"name": "set", "value": 2} in found["global_parameters"]
    with asking(broker, "typed", "by hand") as api:
        assert api.get("/whoami").json()["tags"] == ["monitoring"]


def test_what_is_not_made_of_a_file_is_in_the_log(broker: BrokerProcess) -> None:
    """Also where an entry contradicts another one of the file, or the broker's own exchanges."""
    document = {
        "queues": [
            {"name": "twice", "vhost": "/", "arguments": {"x-max-length": 5}},
            {"name": "twice", "vhost": "/", "arguments": {"x-max-length": 5}},
            {"name": "twice", "vhost": "/", "arguments": {"x-max-length": 6}},
        ],
        "exchanges": [
            {"name": "amq.topic", "vhost": "/", "type": "topic"},
            {"name": "amq.topic", "vhost": "/", "type": "fanout"},
            {"name": "amq.rabbitmq.trace", "vhost": "/", "type": "topic", "internal": True},
        ],
    }
    take_in(broker, document)
    noted = [line.partition("definitions: ")[2] for line in broker.log_text().splitlines()]
    noted = [note for note in noted if "'amq." in note or "'twice'" in note]
    assert sorted(noted) == [
        "exchanges[1] 'amq.topic': the exchange is there, declared otherwise, and stays as it is",
        "exchanges[2] 'amq.rabbitmq.trace': names that begin with amq. are the broker's; it is not made",
        "queues[2] 'twice': the queue is there, declared otherwise, and stays as it is",
    ]
    queue = next(queue for queue in exported(broker)["queues"] if queue["name"] == "twice")
    assert queue["arguments"] == {"x-max-length": 5}


def test_what_cannot_be_finished_says_how_far_it_came(broker: BrokerProcess) -> None:
    with asking(broker) as api:
        api.put("/vhosts/small")
        api.put("/vhost-limits/small/max-queues", json={"value": 1})
        document = {"queues": [{"name": f"q{number}", "vhost": "small"} for number in range(3)]}
        told = refusal(broker, document)
        assert "queues[1] 'q1': cannot declare queue 'q1': queue limit in vhost 'small' (1) is reached" in told
        assert told.endswith("; what stands before it was done, 1 entries")
        assert [queue["name"] for queue in api.get("/queues/small").json()] == ["q0"]


def test_only_administrators_have_definitions(broker: BrokerProcess) -> None:
    with asking(broker) as api:
        api.put("/users/monitor", json={"password": "m", "tags": "monitoring,policymaker"})
    with asking(broker, "monitor", "m") as api:
        assert api.get("/definitions").status_code == 401
        assert api.post("/definitions", json={}).status_code == 401
        assert api.post("/definitions/%2F", json={}).status_code == 401


def test_a_broker_takes_them_in_at_its_start(tmp_path: Path, start_broker: Callable[..., BrokerProcess]) -> None:
    folder = tmp_path / "definitions"
    folder.mkdir()
    (folder / "1.json").write_text(json.dumps(rabbitmq("4.0")))
    more = {"users": [{"name": "typed", "password": "by hand", "tags": "administrator"}]}
    (folder / "2.json").write_text(json.dumps(more))
    options = {"definitions_import_path": str(folder), "definitions_skip_if_unchanged": True}
    broker = start_broker(http="127.0.0.1:0", **options)
    with asking(broker, "typed", "by hand") as api:
        assert len(api.get("/queues/orders").json()) == 4
    with asking(broker) as api:
        assert api.delete("/queues/orders/lost").status_code == 204
    broker.restart()
    with asking(broker) as api:
        assert len(api.get("/queues/orders").json()) == 3
    (folder / "2.json").write_text(json.dumps({"vhosts": [{"name": "later"}]}))
    broker.restart()
    with asking(broker) as api:
        assert len(api.get("/queues/orders").json()) == 4
        assert api.get("/vhosts/later").status_code == 200


def test_a_broker_does_not_start_with_a_wrong_file(tmp_path: Path) -> None:
    file = tmp_path / "wrong.json"
    for text, told in (
        ("{", "no JSON: Expecting"),
        ('{"queues": [1]}', "queues[0]: 1 is no object"),
        ("[]", "is no object"),
    ):
        file.write_text(text)
        broker = BrokerProcess(tmp_path / "broker", definitions_import_path=str(file))
        broker.launch()
        assert broker.wait() == 2
        assert f"definitions_import_path: {file}: {told}" in broker.log_text()
    broker = BrokerProcess(tmp_path / "none", definitions_import_path=str(tmp_path / "nowhere.json"))
    broker.launch()
    assert broker.wait() == 2


names = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), min_size=1, max_size=20).filter(
    lambda name: not name.startswith(("amq.", "$"))
)
values = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 63), (1 << 63) - 1)
    | st.text("xyü", max_size=5)
    | st.lists(st.integers(0, 9), max_size=3)
)
arguments = st.dictionaries(st.sampled_from(["a", "b", "ü"]), values, max_size=3)
# Of queues and exchanges only what is known is taken; of these any value.
queue_arguments = st.dictionaries(
    st.sampled_from(["x-ha-params", "x-ha-nodes", "x-internal-purpose"]), values, max_size=3
)
binding_arguments = st.dictionaries(st.just("x-bound-from"), values, max_size=1)
exchange_arguments = st.dictionaries(st.just("x-internal-purpose"), values, max_size=1)


@st.composite
def documents(draw: st.DrawFn) -> Document:
    """Files with everything in them that there can be."""
    vhost = draw(names.filter(lambda name: name != "/" and len(name.encode()) <= 200))  # "/" cannot be deleted between
    queues = draw(st.lists(names, unique=True, max_size=4))
    exchanges = draw(st.lists(names, unique=True, max_size=3))
    kinds = [draw(st.sampled_from(["direct", "fanout", "topic", "headers"])) for _ in exchanges]
    keys = st.text("ab.*", max_size=5)
    ends = [("queue", name) for name in queues] + [("exchange", name) for name in exchanges]
    sources = [draw(st.sampled_from(list(zip(exchanges, kinds, strict=True)))) for _ in ends if exchanges]
    bindings = [
        {
            "source": source,
            "vhost": vhost,
            "destination": end[1],
            "destination_type": end[0],
            "routing_key": draw(keys),
            "arguments": draw(arguments if kind == "headers" else binding_arguments),
        }
        for end, (source, kind) in zip(ends, sources, strict=False)
    ]
    limit = draw(st.integers(1, 1 << 31))
    return {
        "vhosts": [{"name": vhost, "description": draw(names), "tags": draw(st.lists(names, max_size=2))}],
        "queues": [
            {
                "name": name,
                "vhost": vhost,
                "durable": True,
                "auto_delete": draw(st.booleans()),
                "arguments": draw(queue_arguments),
            }
            for name in queues
        ],
        "exchanges": [
            {
                "name": name,
                "vhost": vhost,
                "type": kind,
                "durable": draw(st.booleans()),
                "auto_delete": False,
                "internal": draw(st.booleans()),
                "arguments": draw(exchange_arguments),
            }
            for name, kind in zip(exchanges, kinds, strict=True)
        ],
        "bindings": bindings,
        "policies": [
            {
                "vhost": vhost,
                "name": draw(names),
                "pattern": "^x",
                "apply-to": draw(st.sampled_from(["all", "queues", "exchanges"])),
                "definition": {"max-length": limit},
                "priority": draw(st.integers(-5, 5)),
            }
        ],
        "parameters": [{"vhost": vhost, "component": "c", "name": draw(names), "value": draw(arguments)}],
    }


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=documents())
def test_any_file_comes_out_as_it_went_in(broker: BrokerProcess, document: Document) -> None:
    (vhost,) = document["vhosts"]
    with asking(broker) as api:
        api.delete(f"/vhosts/{httpx.URL('/', params={'': vhost['name']}).query.decode()[1:].replace('+', '%20')}")
    take_in(broker, document)
    found = exported(broker)
    (shown,) = [each for each in found["vhosts"] if each["name"] == vhost["name"]]
    assert (shown["description"], shown["tags"]) == (vhost["description"], vhost["tags"])
    for section in ("queues", "exchanges", "bindings", "policies", "parameters"):
        ours = [each for each in found[section] if each["vhost"] == vhost["name"]]
        assert by_name(ours) == by_name(document[section]), section


def test_users_of_the_configuration_leave_with_hashes_that_rabbitmq_takes(broker: BrokerProcess) -> None:
    (guest,) = [each for each in exported(broker)["users"] if each["name"] == "guest"]
    assert guest["hashing_algorithm"] == "rabbit_password_hashing_sha256"
    octets = base64.b64decode(guest["password_hash"])
    assert hashlib.sha256(octets[:4] + b"guest").digest() == octets[4:]
    take_in(broker, {"users": [{**guest, "name": "visitor", "tags": ["management"]}]})
    with asking(broker, "visitor", "guest") as api:
        assert api.get("/whoami").json()["name"] == "visitor"
    with asking(broker, "visitor", "other") as api:
        assert api.get("/whoami").status_code == 401
    with asking(broker) as api:
        assert api.delete("/users/visitor").status_code == 204
