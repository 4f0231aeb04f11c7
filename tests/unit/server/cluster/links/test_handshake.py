"""The handshake of two nodes, without sockets: who is taken for whom, and what a stranger learns."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import pytest

from forebay.server.cluster.links.frames import HELLO, MESSAGE, PROOF, REFUSED, FrameReader, frame
from forebay.server.cluster.links.handshake import (
    BUSY,
    HANDSHAKE_OCTETS_MAX,
    MESSAGES,
    Hello,
    NodeHandshake,
    Refused,
    Rejection,
    names_node,
    refusal_frame,
)

SECRET = b"an open secret of nodes"


def hello(name: str, **facts: object) -> Hello:
    nonce = (name.encode() * 32)[:32].hex()
    given = {"versions": (1, 1), "purpose": MESSAGES, "cluster": "shop", "node": name, "store": f"s{name}"}
    return msgspec.convert({**given, "nonce": nonce, **facts}, Hello)


def side(own: Hello, connecting: bool, **facts: object) -> NodeHandshake:
    secret = facts.pop("secret", SECRET)
    assert isinstance(secret, bytes)
    return NodeHandshake(own, secret, connecting=connecting, **facts)  # type: ignore[arg-type]


def opened(octets: bytes) -> tuple[int, bytes]:
    reader = FrameReader(HANDSHAKE_OCTETS_MAX)
    reader.add(octets)
    found = reader.next()
    assert found is not None
    return found


def run(connecting: NodeHandshake, accepting: NodeHandshake) -> list[int]:
    """Have both speak to the end; the kinds of all frames."""
    kinds = []
    octets, turn = connecting.first(), accepting
    while octets:
        kind, body = opened(octets)
        kinds.append(kind)
        octets = turn.received(kind, body)
        turn = connecting if turn is accepting else accepting
    return kinds


def refusal(connecting: NodeHandshake, accepting: NodeHandshake) -> str:
    with pytest.raises(Refused) as caught:
        run(connecting, accepting)
    assert not caught.value.theirs
    assert not (connecting.done and accepting.done)
    return str(caught.value)


def test_both_know_each_other_and_the_connecting_side_proves_first() -> None:
    a, b = side(hello("a"), True, expected="b"), side(hello("b"), False)
    assert run(a, b) == [HELLO, HELLO, PROOF, PROOF]
    assert a.done and b.done
    assert a.other == hello("b")
    assert b.other == hello("a")
    assert (a.version, b.version) == (1, 1)


def test_the_newest_version_that_both_speak_is_spoken() -> None:
    a, b = side(hello("a", versions=(1, 3)), True), side(hello("b", versions=(2, 5)), False)
    run(a, b)
    assert (a.version, b.version) == (3, 3)


@pytest.mark.parametrize(
    ("of_a", "of_b", "expected", "words"),
    [
        ({"versions": (3, 4)}, {}, "", "versions 3 to 4 of the protocol, and here are 1 to 1"),
        ({"cluster": "shops"}, {}, "", "cluster 'shops' is another one"),
        ({"node": "b"}, {}, "", "node 'b' is the name of this node"),
        ({}, {"node": "c"}, "b", "node 'c' is not 'b'"),
        ({"purpose": "tea"}, {}, "", "purpose 'tea' is unknown"),
    ],
)
def test_one_that_is_in_the_wrong_place_is_told_why(
    of_a: dict[str, object], of_b: dict[str, object], expected: str, words: str
) -> None:
    a, b = side(hello("a", **of_a), True, expected=expected), side(hello("b", **of_b), False)
    assert refusal(a, b) == words


def test_another_secret_is_refused_by_either_side() -> None:
    a, b = side(hello("a"), True), side(hello("b"), False, secret=b"another secret")
    assert refusal(a, b) == "node 'a' has another secret"
    a, b = side(hello("a"), True), side(hello("b"), False)
    b.received(*opened(a.first()))
    kind, body = opened(side(hello("b"), False).received(*opened(a.first())))
    a.received(kind, body)
    with pytest.raises(Refused, match="node 'b' has another secret"):
        a.received(PROOF, bytes(32))
    assert not a.done


def test_no_secret_is_another_secret() -> None:
    assert "another secret" in refusal(side(hello("a"), True, secret=b""), side(hello("b"), False))
    assert "another secret" in refusal(side(hello("a"), True), side(hello("b"), False, secret=b""))


def test_a_stranger_gets_no_proof_before_it_has_given_one() -> None:
    b = side(hello("b"), False)
    kind, body = opened(b.received(*opened(side(hello("a"), True).first())))
    assert kind == HELLO
    assert msgspec.json.decode(body, type=Hello) == hello("b")
    with pytest.raises(Refused):
        b.received(PROOF, bytes(32))


def test_a_proof_is_worth_nothing_in_another_handshake() -> None:
    a, b = side(hello("a"), True), side(hello("b"), False)
    proof = a.received(*opened(b.received(*opened(a.first()))))
    again = side(hello("b", nonce="ab" * 32), False)
    again.received(*opened(a.first()))
    with pytest.raises(Refused, match="another secret"):
        again.received(*opened(proof))
    assert b.received(*opened(proof))


def test_a_proof_is_not_taken_back_by_the_side_that_made_it() -> None:
    """One that only sends back what it gets proves nothing."""
    a = side(hello("a"), True)
    a.first()
    proof = a.received(HELLO, msgspec.json.encode(hello("b")))
    with pytest.raises(Refused, match="another secret"):
        a.received(*opened(proof))


def test_a_proof_is_worth_nothing_behind_other_certificates() -> None:
    """One between both, with a certificate of its own on each side, can pass on HELLOs and proofs."""
    a = side(hello("a"), True, certificates=b"a and the one between")
    b = side(hello("b"), False, certificates=b"the one between and b")
    assert refusal(a, b) == "node 'a' has another secret"


@pytest.mark.parametrize(
    ("names", "text"),
    [(["c.shop", "d"], "node 'a' shows a certificate for c.shop, d"), ([], "node 'a' shows a certificate for ")],
)
def test_without_a_secret_a_certificate_names_its_node(names: Sequence[str], text: str) -> None:
    assert refusal(side(hello("a"), True, secret=b""), side(hello("b"), False, secret=b"", names=names)) == text
    run(side(hello("a"), True), side(hello("b"), False, names=names))  # the secret tells


def test_a_certificate_names_a_node_by_its_name_or_its_first_label() -> None:
    assert names_node(["x", "a.forebay.svc"], "a")
    assert names_node(["a"], "a")
    assert names_node(["a.b"], "a.b")
    assert not names_node(["*.forebay.svc", "aa", "b.a", ""], "a")


def test_the_accepting_side_has_the_last_word() -> None:
    asked = []

    def admit(other: Hello) -> Rejection | None:
        asked.append(other.node)
        return Rejection(BUSY, "not now")

    a, b = side(hello("a"), True), side(hello("b"), False, admit=admit)
    with pytest.raises(Refused) as caught:
        run(a, b)
    assert caught.value.refusal.reason == BUSY
    assert asked == ["a"]
    answer = refusal_frame(caught.value.refusal)
    with pytest.raises(Refused, match="refused by the other side: not now") as told:
        a.received(*opened(answer))
    assert told.value.theirs
    assert not a.done


def test_nobody_is_asked_about_a_stranger() -> None:
    def admit(other: Hello) -> Rejection | None:
        raise AssertionError(other)

    refusal(side(hello("a"), True, secret=b"another"), side(hello("b"), False, admit=admit))


@pytest.mark.parametrize("kind", [PROOF, MESSAGE])
def test_frames_that_are_not_due_are_refused(kind: int) -> None:
    with pytest.raises(Refused, match=f"a frame of kind {kind} that is not due"):
        side(hello("b"), False).received(kind, b"")
    b = side(hello("b"), False)
    b.received(*opened(side(hello("a"), True).first()))
    with pytest.raises(Refused, match=f"a frame of kind {HELLO} that is not due"):
        b.received(HELLO, msgspec.json.encode(hello("a")))


GOOD = msgspec.to_builtins(hello("a"))


@pytest.mark.parametrize(
    "octets",
    [b"", b"{}", b"[]", b"\xff", msgspec.json.encode(GOOD)[:-1], msgspec.json.encode({**GOOD, "nonce": "00"})],
)
def test_what_is_no_hello_is_refused(octets: bytes) -> None:
    with pytest.raises(Refused, match="is no hello"):
        side(hello("b"), False).received(HELLO, octets)
    with pytest.raises(Refused, match="is no rejection"):
        side(hello("b"), False).received(REFUSED, octets)


def test_names_are_short() -> None:
    long = msgspec.json.encode({**msgspec.to_builtins(hello("a")), "node": "a" * 65})
    with pytest.raises(Refused, match="is no hello"):
        side(hello("b"), False).received(*opened(frame(HELLO, long)))
