"""The API does what its OpenAPI document says: requests made of the document get answers that fit it."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, given, seed, settings
from schemathesis.core.failures import FailureGroup
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.broker_process import BrokerProcess
from tests.password_hash import password_hash

EXAMPLES = 4  # of each operation; half of them with names of what is there
OPERATIONS = "/api/forebay/operations/"  # many, and all alike: fewer examples of each
SEED = 20_260
WAIT_S_MAX = 30
CHECKS = [
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]
# Wrong logins on purpose make the broker refuse the right ones, too.
LEFT_OUT = ("/api/login",)
STREAM = "text/event-stream"  # ends when the caller does
KNOWN = {
    "vhost": "%2F",
    "queue": "known",
    "exchange": "amq.topic",
    "source": "amq.topic",
    "destination": "amq.fanout",
    "user": "known",
    "policy": "known",
    "component": "known",
    "parameter": "known",
    "limit": "max-queues",
    "props": "known",
}


@pytest.fixture(scope="module")
def document(broker: BrokerProcess) -> dict[str, Any]:
    found: dict[str, Any] = httpx.get(f"{broker.http_url}/api/openapi.json", timeout=WAIT_S_MAX).json()
    return found


def make_known(api: httpx.Client) -> None:
    """What the known names are of."""
    api.put("/queues/%2F/known", json={"durable": True})
    api.post("/bindings/%2F/e/amq.topic/q/known", json={"routing_key": "known"})
    api.put("/users/known", json={"password_hash": password_hash("known"), "tags": ""}).raise_for_status()
    api.put("/permissions/%2F/known", json={"configure": "", "write": "", "read": ""})
    api.put("/policies/%2F/known", json={"pattern": "^known", "definition": {"max-length": 5}})
    api.put("/parameters/known/%2F/known", json={"value": 1})
    api.put("/global-parameters/known", json={"value": 1})


def faults(broker: BrokerProcess, session: requests.Session, operation: Any) -> list[str]:
    """What is wrong with the answers to requests for one operation."""
    found: list[str] = []
    count = 0

    @seed(SEED)
    @settings(
        max_examples=EXAMPLES if not operation.path.startswith(OPERATIONS) else 1,
        database=None,
        deadline=None,
        phases=[Phase.explicit, Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy())
    def ask(case: Any) -> None:
        nonlocal count
        count += 1
        if count % 2:
            case.path_parameters = {
                name: KNOWN.get(name, value) for name, value in (case.path_parameters or {}).items()
            }
        answer = case.call(base_url=broker.http_url, session=session, timeout=WAIT_S_MAX)
        where = f"{case.method} {case.formatted_path} {case.query} {case.body!r:.200}"
        if answer.status_code == 500:
            found.append(f"{where}: 500 {answer.text[:200]}")
            return
        try:
            case.validate_response(answer, checks=CHECKS)
        except FailureGroup as group:
            found.extend(
                f"{where}: {answer.status_code} {each.title} {each.message[:300]}" for each in group.exceptions
            )

    ask()
    return found


@pytest.mark.timeout(600)
def test_every_answer_is_as_the_document_says(broker: BrokerProcess, document: dict[str, Any]) -> None:
    schema = schemathesis.openapi.from_dict(document)
    found: list[str] = []
    asked = 0
    is_known = False
    known = httpx.Client(base_url=f"{broker.http_url}/api", auth=("guest", "guest"), timeout=WAIT_S_MAX)
    with known as api, requests.Session() as session:
        session.auth = ("guest", "guest")
        for result in schema.get_all_operations():
            assert isinstance(result, Ok), result
            operation = result.ok()
            if operation.path in LEFT_OUT or STREAM in str(operation.definition.raw["responses"]):
                continue
            if not is_known:
                make_known(api)
            is_known = operation.method.upper() == "GET"  # no other leaves all as it was
            found += faults(broker, session, operation)
            asked += 1
    assert asked > 150
    assert not found, "\n".join(found)
