"""Spoilt recordings: nothing wrong with the broker itself, nothing left behind; and bugs that are planted are found."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pytest

from forebay.node.broker import NodeBroker
from forebay.node.link import Link
from forebay.node.node import Node
from tests.fuzz.fuzzer import Fuzzer, Result, make_mutator
from tests.fuzz.held import Held

ROUNDS: Final = 18
ROUNDS_A_TEST: Final = 6
ATTEMPTS: Final = 200
LONG_READ: Final = 97  # octets


class Forgetful(NodeBroker):
    """Planted: where a connection came from is remembered for ever."""

    def leave(self, link: Link) -> None:
        current = link.session or link.handshake
        place = None if current is None else current.context
        super().leave(link)
        if place is not None and link.octets_received > LONG_READ:
            self.auth.places[link.octets_received] = place


class Fragile(NodeBroker):
    """Planted: an error of its own while it serves somebody."""

    def touch(self, link: Link) -> None:
        assert link.octets_received % LONG_READ or not link.octets_received, "planted"
        super().touch(link)


@pytest.fixture(scope="module")
def fuzzer() -> Fuzzer:
    return Fuzzer(make_mutator())


@pytest.mark.parametrize("first", range(1, ROUNDS + 1, ROUNDS_A_TEST))
def test_no_input_brings_the_broker_down(fuzzer: Fuzzer, first: int) -> None:
    for seed in range(first, first + ROUNDS_A_TEST):
        failure = fuzzer.round(seed, Result())
        assert failure is None, str(failure)


def test_a_seed_repeats_itself(fuzzer: Fuzzer) -> None:
    results = [Result(), Result()]
    for result in results:
        assert fuzzer.round(7, result) is None
    assert results[0] == results[1]


@pytest.mark.parametrize(("kind", "words"), [(Forgetful, "1 places"), (Fragile, "planted")])
def test_a_planted_bug_is_found_and_made_short(fuzzer: Fuzzer, kind: type[NodeBroker], words: str) -> None:
    class Planted(Held):
        def make_broker(self, node: Node) -> NodeBroker:
            return kind(node.options, node.member.store, node.clock, node.chance)

    def make(options: Mapping[str, object]) -> Held:
        return Planted(**options)

    failure = Fuzzer(fuzzer.mutator, make, ATTEMPTS).round(1, Result())
    assert failure is not None
    assert words in failure.text
    assert len(failure.inputs) == 1
    assert len(failure.inputs[0].steps) <= 20
