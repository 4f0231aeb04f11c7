"""JSON can say what nothing can keep: wherever that stands it is refused, and is never an error of the broker."""

from __future__ import annotations

import http.client
import json
from base64 import b64encode
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit

import pytest
from msgspec import Struct

from forebay.admin.api import all_routes
from tests.broker_process import BrokerProcess
from tests.password_hash import password_hash

WAIT_S_MAX: Final = 60
HOLE: Final = "THE-HOLE"
HALF: Final = '"\\ud83d"'
DEEP: Final = "[" * 250 + "]" * 250
# For a field that is text: halves of surrogate pairs. For any other: what is a number or a value, and cannot be kept.
TEXTS: Final = (HALF, '"x\\udc00y"')
VALUES: Final = (
    '{"a": [{"\\ud83d": 1}]}',
    '{"a": ["\\udc00"]}',
    "NaN",
    "-Infinity",
    "1e999",
    str(1 << 63),
    str(-(1 << 63) - 1),
    str(1 << 70),
    "9" * 5000,
    DEEP,
    "[" * 100_000,
)
BODIES: Final = (b"\xff", b'"\xed\xa0\xbd"', b'{"name": "\xed\xa0\xbd"}', b"\xff\xfe{\x00}\x00", b"[" * 100_000)
SEGMENTS: Final = ("%ED%A0%BD", "%FF%C0", "%00", "x" * 3000, "%F0%9F%98%80" * 200)
NO_TEXT: Final = SEGMENTS[:2]
KNOWN: Final = {
    "vhost": "%2F",
    "queue": "known",
    "exchange": "amq.topic",
    "name": "known",
    "source": "amq.topic",
    "destination": "known",
    "user": "known",
    "policy": "known",
    "limit": "max-queues",
    "props": "known",
    "topic": "known",
    "component": "known",
    "parameter": "known",
}
# Valid values of fields, by which a request comes as far as the value that is wrong.
FILLED: Final[dict[str, object]] = {
    "vhost": "/",
    "queue": "known",
    "exchange": "amq.topic",
    "destination": "known",
    "policy": "made",
    "user": "known",
    "routing_key": "known",
    "payload": "p",
    "payload_encoding": "string",
    "properties": {},
    "count": 1,
    "ackmode": "ack_requeue_true",
    "encoding": "auto",
    "name": "made",
    "value": 1,
    "type": "direct",
    "tags": "",
    "password": "p",
    "configure": "",
    "write": "",
    "read": "",
    "pattern": "^made",
    "definition": {"max-length": 5},
    "apply-to": "queues",
    "apply_to": "queues",
    "component": "made",
    "arguments": {},
    "topic": "known",
    "id": 1,
}
# Streams, what would end the test's own ways in, and what wrong logins would.
LEFT_OUT: Final = ("/subscribe/{filter}", "/api/login", "/api/logout", "/api/reset", "/api/reset/{node}")


class Asker:
    """One connection to the broker's API."""

    def __init__(self, url: str) -> None:
        place = urlsplit(url)
        self.host, self.port = str(place.hostname), int(place.port or 0)
        self.connection = http.client.HTTPConnection(self.host, self.port, timeout=WAIT_S_MAX)
        login = b64encode(b"guest:guest").decode()
        self.headers = {"Authorization": f"Basic {login}", "Content-Type": "application/json"}

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, bytes]:
        """Return the status and the body of an answer."""
        self.connection.request(method, path, body, self.headers)
        answer = self.connection.getresponse()
        return answer.status, answer.read()


@pytest.fixture(scope="module")
def asker(broker: BrokerProcess) -> Iterator[Asker]:
    asker = Asker(broker.http_url)
    for path, fields in (
        ("queues/%2F/known", {"durable": True}),
        ("users/known", {"password_hash": password_hash("known"), "tags": ""}),
        ("permissions/%2F/known", {"configure": "", "write": "", "read": ""}),
        ("policies/%2F/known", {"pattern": "^known", "definition": {"max-length": 5}}),
        ("parameters/known/%2F/known", {"value": 1}),
        ("global-parameters/known", {"value": 1}),
    ):
        assert asker.ask("PUT", f"/api/{path}", json.dumps(fields).encode())[0] < 300
    yield asker
    asker.connection.close()


def resolved(document: dict[str, Any], schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the shapes that a schema allows."""
    if "$ref" in schema:
        return resolved(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    choices = [each for key in ("anyOf", "oneOf", "allOf") for each in schema.get(key, ())]
    return [shape for each in choices for shape in resolved(document, each)] or [schema]


def bodies(document: dict[str, Any], operation: dict[str, Any]) -> Iterator[bytes]:
    """Yield the bodies of an operation in which one field has a value that cannot be."""
    content = operation.get("requestBody", {}).get("content", {})
    if not content:
        return
    yield from BODIES
    schema = content.get("application/json", {}).get("schema", {})
    fields: dict[str, Any] = {}
    for shape in resolved(document, schema):
        fields |= shape.get("properties", {})
    base = {name: FILLED[name] for name in fields if name in FILLED}
    for name, field in fields.items():
        kinds = {shape.get("type") for shape in resolved(document, field)}
        is_text = kinds <= {"string", "null"}
        for value in TEXTS if is_text else (*TEXTS, *VALUES):
            yield json.dumps({**base, name: HOLE}).replace(f'"{HOLE}"', value).encode()
    yield json.dumps({**base, HOLE: 1}).replace(f'"{HOLE}"', HALF).encode()


def paths(path: str, operation: dict[str, Any]) -> Iterator[str]:
    """Yield paths and queries of an operation in which one name is octets that are no text, or is too long."""
    parameters = operation.get("parameters", ())
    names = [each["name"] for each in parameters if each["in"] == "path"]
    for name in names:
        for segment in SEGMENTS if name == names[-1] else NO_TEXT[:1]:
            yield filled(path, {**{each: KNOWN.get(each, "1") for each in names}, name: segment})
    plain = filled(path, {each: KNOWN.get(each, "1") for each in names})
    for each in parameters:
        if each["in"] == "query":
            yield f"{plain}?{each['name']}={NO_TEXT[0]}"


def filled(path: str, names: dict[str, str]) -> str:
    for name, value in names.items():
        path = path.replace("{" + name + "}", value)
    return path


def test_every_route_reads_its_body_by_the_one_reader() -> None:
    read = [(route.path, route.inputs.body) for route in all_routes().all if route.inputs.body is not None]
    assert len(read) > 20
    assert [path for path, body in read if not issubclass(body, Struct)] == []


def test_no_field_of_the_document_can_be_an_error_of_the_broker(broker: BrokerProcess, asker: Asker) -> None:
    document = json.loads(asker.ask("GET", "/api/openapi.json")[1])
    wrong: list[str] = []
    asked = 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if path in LEFT_OUT:
                continue
            names = [each["name"] for each in operation.get("parameters", ()) if each["in"] == "path"]
            plain = filled(path, {name: KNOWN.get(name, "1") for name in names})
            for body in bodies(document, operation):
                status, answer = asker.ask(method.upper(), plain, body)
                asked += 1
                if not 400 <= status < 500:
                    wrong.append(f"{method} {plain} {body[:200]!r}: {status} {answer[:200]!r}")
            if method == "delete" and "{" not in path:
                continue
            for odd in paths(path, operation):
                status, answer = asker.ask(method.upper(), odd)
                asked += 1
                if status >= 500 and status != 503:
                    wrong.append(f"{method} {odd[:200]}: {status} {answer[:200]!r}")
    for header in ("Basic \xff\xfe", "Basic " + b64encode(b"\xff:\xff").decode(), "Basic \xed\xa0\xbd"):
        asker.connection.request("GET", "/api/whoami", headers={"Authorization": header})
        answered = asker.connection.getresponse()
        answered.read()
        assert answered.status == 401, header
    assert not wrong, f"{len(wrong)} of {asked}:\n" + "\n".join(wrong)
    assert asked > 1500
    assert asker.ask("GET", "/api/whoami")[0] == 200
    assert "internal error" not in broker.log_text().lower()


def test_an_optional_field_may_be_null(asker: Asker) -> None:
    document = json.loads(asker.ask("GET", "/api/openapi.json")[1])
    refused: list[str] = []
    asked = 0
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            if path in LEFT_OUT or not schema:
                continue
            plain = filled(
                path, {each["name"]: KNOWN.get(each["name"], "1") for each in operation.get("parameters", ())}
            )
            for shape in resolved(document, schema):
                needed = shape.get("required", ())
                base = {name: FILLED[name] for name in needed if name in FILLED}
                for name in shape.get("properties", {}):
                    if name not in needed:
                        body = json.dumps({**base, name: None}).encode()
                        status, answer = asker.ask(method.upper(), plain, body)
                        asked += 1
                        if status == 400 and f"body.{name}:" in json.loads(answer)["reason"]:
                            refused.append(f"{method} {plain} {body!r}: {answer!r}")
    assert not refused, "\n".join(refused)
    assert asked > 100
