"""Definitions files sent to a broker over HTTP, and what it says of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import httpx

from tests.broker_process import BrokerProcess

WAIT_S_MAX: Final = 60
Document = dict[str, Any]


@contextmanager
def asking(broker: BrokerProcess, user: str = "guest", password: str = "guest") -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"{broker.http_url}/api", auth=(user, password), timeout=WAIT_S_MAX) as client:
        yield client


def take_in(broker: BrokerProcess, document: object, path: str = "/definitions") -> list[Document]:
    """Import a file; what was left out."""
    with asking(broker) as api:
        answer = api.post(path, json=document)
        assert answer.status_code in {200, 204}, answer.text
        left_out: list[Document] = answer.json()["left_out"] if answer.status_code == 200 else []
        assert bool(left_out) == (answer.status_code == 200)
        return left_out


def lines(left_out: list[Document]) -> list[str]:
    """Entry, field and reason of each part that was left out; marked where messages may be lost."""
    marks = {True: "! ", False: ""}
    return [
        marks[each["may_lose_messages"]] + ": ".join(filter(None, (each["entry"], each["field"], each["reason"])))
        for each in left_out
    ]


def refusal(broker: BrokerProcess, document: object, path: str = "/definitions") -> str:
    with asking(broker) as api:
        answer = api.post(path, json=document)
        assert answer.status_code == 400, answer.text
        return str(answer.json()["reason"])


def exported(broker: BrokerProcess) -> Document:
    with asking(broker) as api:
        document: Document = api.get("/definitions").json()
        return document
