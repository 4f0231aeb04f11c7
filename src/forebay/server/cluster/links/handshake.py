"""The handshake of two nodes: octets in, octets out. Nobody is told a thing before it has shown who it is.

    connecting                                              accepting
    HELLO  versions, purpose, cluster, node, store, nonce ▶
                                                          ◀ HELLO  the same
    PROOF  HMAC-SHA256 ▶
                                                          ◀ PROOF  HMAC-SHA256
                                                       or ◀ REFUSED  reason, at any time

A HELLO is an object of JSON. A proof is over a label of the side, the certificates of both sides as TLS has shown them
(so that what one connection proves is worth nothing on another) and both HELLOs, which hold 32 octets of chance each;
its key is the cluster's secret. The connecting side proves first: strangers who connect get no proof of ours to guess
secrets by. Where there is no secret the certificates alone tell, and name the node.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import Annotated, Any, Final

import msgspec

from forebay.core.errors import ForebayError
from forebay.server.cluster.links.frames import HELLO, PROOF, REFUSED, frame

VERSION_MIN: Final = 1
VERSION_MAX: Final = 4  # 2: node_stats.py; 3: draining.py; 4: reads/grants.py
NONCE_OCTETS: Final = 32
HANDSHAKE_OCTETS_MAX: Final = 4096
LABEL: Final = b"forebay nodes 1\0"
# Purposes of a connection.
MESSAGES: Final = "messages"
BULK: Final = "bulk"
RELAY: Final = "relay"
# Reasons to refuse one.
BUSY: Final = "busy"
STRANGER: Final = "stranger"


Word = Annotated[str, msgspec.Meta(max_length=64)]
Text = Annotated[str, msgspec.Meta(max_length=1000)]
Nonce = Annotated[str, msgspec.Meta(min_length=2 * NONCE_OCTETS, max_length=2 * NONCE_OCTETS)]


class Hello(msgspec.Struct, frozen=True):
    """The fields by which one side introduces itself.

    versions  of the protocol, the oldest and the newest spoken
    nonce     in hexadecimal
    """

    versions: tuple[int, int]
    purpose: Word
    cluster: Word
    node: Word
    store: Word
    nonce: Nonce


class Rejection(msgspec.Struct, frozen=True):
    """The refusal by one side of a handshake. Its reason is a word for programs."""

    reason: Word
    text: Text


class Refused(ForebayError):
    """The handshake has failed.

    theirs  the other side has refused us, and not we it
    """

    def __init__(self, refusal: Rejection, theirs: bool) -> None:
        super().__init__(f"refused by the other side: {refusal.text}" if theirs else refusal.text)
        self.refusal = refusal
        self.theirs = theirs


def refusal_frame(refusal: Rejection) -> bytes:
    """Encode the frame that tells the other side of a refusal."""
    return frame(REFUSED, msgspec.json.encode(refusal))


class NodeHandshake:
    """One side of one handshake.

    expected      the node that must be at the other end; empty for any
    certificates  SHA-256 of that of the connecting side and of that of the accepting one; empty without TLS
    names         that the other side's certificate is for; None where there is none to look at
    admit         the last word of the accepting side, when the other one has proved who it is: a refusal, or None

    other    the other side's HELLO, once it has come
    version  of the protocol that both speak
    done     both have proved who they are
    """

    def __init__(
        self,
        own: Hello,
        secret: bytes,
        *,
        connecting: bool,
        expected: str = "",
        certificates: bytes = b"",
        names: Sequence[str] | None = None,
        admit: Callable[[Hello], Rejection | None] | None = None,
    ) -> None:
        self.own = own
        self.secret = secret
        self.connecting = connecting
        self.expected = expected
        self.certificates = certificates
        self.names = names
        self.admit = admit
        self.other: Hello | None = None
        self.version = 0
        self.done = False
        self._own_octets = msgspec.json.encode(own)
        self._other_octets = b""

    def first(self) -> bytes:
        """Encode the frame with which the connecting side begins."""
        return frame(HELLO, self._own_octets)

    def received(self, kind: int, octets: bytes) -> bytes:
        """Process a frame; return the frame to answer with, or no octets.

        raises  Refused
        """
        if kind == REFUSED:
            raise Refused(decoded(Rejection, octets), theirs=True)
        if kind == HELLO and self.other is None:
            return self._hello(octets)
        if kind == PROOF and self.other is not None and not self.done:
            return self._proof(self.other, octets)
        raise self._refused(STRANGER, f"a frame of kind {kind} that is not due in a handshake")

    def _hello(self, octets: bytes) -> bytes:
        other, own = decoded(Hello, octets), self.own
        low, high = max(other.versions[0], own.versions[0]), min(other.versions[1], own.versions[1])
        if low > high:
            spoken = f"{own.versions[0]} to {own.versions[1]}"
            text = f"versions {other.versions[0]} to {other.versions[1]} of the protocol, and here are {spoken}"
            raise self._refused(STRANGER, text)
        if other.cluster != own.cluster:
            raise self._refused(STRANGER, f"cluster {other.cluster!r} is another one")
        if other.node == own.node:
            raise self._refused(STRANGER, f"node {other.node!r} is the name of this node")
        if self.expected and other.node != self.expected:
            raise self._refused(STRANGER, f"node {other.node!r} is not {self.expected!r}")
        if self.names is not None and not self.secret and not names_node(self.names, other.node):
            raise self._refused(STRANGER, f"node {other.node!r} shows a certificate for {', '.join(self.names)}")
        self.other, self._other_octets, self.version = other, octets, high
        if self.connecting:
            return frame(PROOF, self._made(connecting=True))
        if other.purpose not in {MESSAGES, BULK, RELAY}:
            raise self._refused(STRANGER, f"purpose {other.purpose!r} is unknown")
        return frame(HELLO, self._own_octets)

    def _proof(self, other: Hello, octets: bytes) -> bytes:
        if not hmac.compare_digest(octets, self._made(connecting=not self.connecting)):
            raise self._refused(STRANGER, f"node {other.node!r} has another secret")
        if self.connecting:
            self.done = True
            return b""
        refusal = None if self.admit is None else self.admit(other)
        if refusal is not None:
            raise Refused(refusal, theirs=False)
        self.done = True
        return frame(PROOF, self._made(connecting=False))

    def _made(self, *, connecting: bool) -> bytes:
        """Compute the proof of one side, from the secret, both certificates and both hellos."""
        hellos = [self._own_octets, self._other_octets]
        if not self.connecting:
            hellos.reverse()
        parts = [b"connecting" if connecting else b"accepting", self.certificates, *hellos]
        text = LABEL + b"".join(len(part).to_bytes(4, "big") + part for part in parts)
        return hmac.digest(self.secret, text, sha256)

    def _refused(self, reason: str, text: str) -> Refused:
        return Refused(Rejection(reason, text), theirs=False)


def decoded(kind: type[Any], octets: bytes) -> Any:
    """Decode the object of a frame. Raises Refused if the octets hold none."""
    try:
        return msgspec.json.decode(octets, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise Refused(
            Rejection(STRANGER, f"{octets[:40]!r} is no {kind.__name__.lower()}: {error}"), theirs=False
        ) from None


def names_node(names: Sequence[str], node: str) -> bool:
    """Return whether a certificate with these names is that of a node: one is its name, alone or before a domain."""
    return any(node in {name, name.partition(".")[0]} for name in names)
