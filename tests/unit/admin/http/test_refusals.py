"""Answers to requests about which somebody else has to be asked."""

from __future__ import annotations

import asyncio

from starlette.applications import Starlette
from starlette.requests import Request

from forebay.admin.http.refusals import error_handlers
from forebay.directory.logins.authorizer import Proof, Undecided


class Question(Proof):
    """A proof that nobody runs."""

    def run(self) -> None:
        """Find out nothing."""


class Asked:
    """Stands in for a broker, and knows what it was asked."""

    def __init__(self) -> None:
        self.proofs: list[Proof] = []

    async def ask(self, proof: Proof) -> None:
        self.proofs.append(proof)


def test_who_decides_is_asked_before_the_caller_may_ask_again() -> None:
    api, broker, question = Starlette(), Asked(), Question(0)
    api.state.broker = broker
    request = Request({"type": "http", "app": api, "headers": []})
    answer = asyncio.run(error_handlers()[Undecided](request, Undecided(question)))
    assert broker.proofs == [question]
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "0")
