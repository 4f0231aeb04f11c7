"""A SCRAM client after RFC 5802 that shares no code with the broker, and how far an exchange is."""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode

from forebay.session.mqtt.entry.auth import AuthExchange


class ScramClient:
    """One login: `first`, `final` of the answer to it, `check` of the answer to that.

    password   is sent through no SASLprep: take one that it leaves alone
    header     the GS2 header
    extension  what follows the nonce in the first message
    """

    def __init__(
        self,
        user: str,
        password: str,
        hash_name: str,
        nonce: str = "abcDEF+/=",
        header: str = "n,,",
        extension: str = "",
    ) -> None:
        name = user.replace("=", "=3D").replace(",", "=2C")
        self.hash_name = hash_name
        self.password = password
        self.nonce = nonce
        self.header = header
        self.bare = f"n={name},r={nonce}{extension}"
        self.expected = b""

    def first(self) -> bytes:
        """The client-first-message."""
        return f"{self.header}{self.bare}".encode()

    def final(self, answer: bytes) -> bytes:
        """The client-final-message, with the proof."""
        fields = dict(each.split("=", 1) for each in answer.decode().split(","))
        assert fields["r"].startswith(self.nonce)
        assert len(fields["r"]) > len(self.nonce)
        salted = hashlib.pbkdf2_hmac(
            self.hash_name, self.password.encode(), b64decode(fields["s"], validate=True), int(fields["i"])
        )
        unproven = f"c={b64encode(self.header.encode()).decode()},r={fields['r']}"
        signed = f"{self.bare},{answer.decode()},{unproven}".encode()
        client_key = self.keyed(salted, b"Client Key")
        stored_key = hashlib.new(self.hash_name, client_key).digest()
        signature = self.keyed(stored_key, signed)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self.expected = b64encode(self.keyed(self.keyed(salted, b"Server Key"), signed))
        return f"{unproven},p={b64encode(proof).decode()}".encode()

    def check(self, answer: bytes) -> None:
        """The server-final-message must prove that the server knows the user, too."""
        assert answer == b"v=" + self.expected

    def keyed(self, key: bytes, data: bytes) -> bytes:
        return hmac.new(key, data, self.hash_name).digest()


def before_connack(exchange: AuthExchange) -> bool:
    """True if the CONNECT is not answered yet: only AUTH and DISCONNECT may come."""
    return exchange.login is not None and not exchange.user
