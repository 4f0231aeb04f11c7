"""The login of AMQP 1.0 (part 5.3 of the standard): frames of type 1, each with a described list.

sasl-mechanisms 0x40   sasl-init 0x41   sasl-challenge 0x42   sasl-response 0x43   sasl-outcome 0x44
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import MALFORMED, PeerError
from forebay.wire.amqp10.decoder import DEPTH_MAX, decode_value
from forebay.wire.amqp10.fields import FieldReader, code_of, describe
from forebay.wire.amqp10.values import Composite, Described, Symbol, Ubyte, symbol_array

SASL_MECHANISMS: Final = 0x40
SASL_INIT: Final = 0x41
SASL_CHALLENGE: Final = 0x42
SASL_RESPONSE: Final = 0x43
SASL_OUTCOME: Final = 0x44

SASL_NAMES: Final = {
    "amqp:sasl-mechanisms:list": SASL_MECHANISMS,
    "amqp:sasl-init:list": SASL_INIT,
    "amqp:sasl-challenge:list": SASL_CHALLENGE,
    "amqp:sasl-response:list": SASL_RESPONSE,
    "amqp:sasl-outcome:list": SASL_OUTCOME,
}

# Outcomes of a login (section 5.3.3.6).
SASL_OK: Final = 0
SASL_AUTH: Final = 1
SASL_SYS: Final = 2
SASL_SYS_PERM: Final = 3
SASL_SYS_TEMP: Final = 4


@final
class SaslMechanisms(Composite):
    """The mechanisms that a server offers, in its order of preference."""

    def __init__(self, mechanisms: list[str]) -> None:
        super().__init__(SASL_MECHANISMS)
        self.mechanisms = mechanisms

    def fields(self) -> list[object]:
        return [symbol_array(self.mechanisms)]


@final
class SaslInit(Composite):
    """The client's choice of a mechanism, and its first response.

    hostname  the host that the client intends to connect to
    """

    def __init__(self, mechanism: str, initial_response: bytes | None = None, hostname: str | None = None) -> None:
        super().__init__(SASL_INIT)
        self.mechanism = mechanism
        self.initial_response = initial_response
        self.hostname = hostname

    def fields(self) -> list[object]:
        return [Symbol(self.mechanism), self.initial_response, self.hostname]


@final
class SaslChallenge(Composite):
    """A challenge from the server."""

    def __init__(self, challenge: bytes) -> None:
        super().__init__(SASL_CHALLENGE)
        self.challenge = challenge

    def fields(self) -> list[object]:
        return [self.challenge]


@final
class SaslResponse(Composite):
    """The client's response to a challenge."""

    def __init__(self, response: bytes) -> None:
        super().__init__(SASL_RESPONSE)
        self.response = response

    def fields(self) -> list[object]:
        return [self.response]


@final
class SaslOutcome(Composite):
    """The result of a login: `outcome` is one of SASL_OK to SASL_SYS_TEMP."""

    def __init__(self, outcome: i64, additional_data: bytes | None = None) -> None:
        super().__init__(SASL_OUTCOME)
        self.outcome: i64 = outcome
        self.additional_data = additional_data

    def fields(self) -> list[object]:
        return [Ubyte(int(self.outcome)), self.additional_data]


def decode_sasl(data: bytes, at: i64, end: i64) -> Composite:
    """Return the body of a SASL frame. Raises PeerError(MALFORMED) if the octets [at, end) hold anything else."""
    value = decode_value(data, at, end, DEPTH_MAX)
    if not isinstance(value, Described):
        raise PeerError(MALFORMED, f"a SASL frame is expected, not {describe(value)}")
    code = code_of(value, SASL_NAMES)
    if code == SASL_INIT:
        init = FieldReader("sasl-init", value.value, 3)
        return SaslInit(
            init.required_symbol(0, "mechanism"), init.binary(1, "initial-response"), init.string(2, "hostname")
        )
    if code == SASL_RESPONSE:
        return SaslResponse(FieldReader("sasl-response", value.value, 1).required_binary(0, "response"))
    if code == SASL_MECHANISMS:
        return SaslMechanisms(FieldReader("sasl-mechanisms", value.value, 1).symbols(0, "sasl-server-mechanisms"))
    if code == SASL_CHALLENGE:
        return SaslChallenge(FieldReader("sasl-challenge", value.value, 1).required_binary(0, "challenge"))
    if code == SASL_OUTCOME:
        outcome = FieldReader("sasl-outcome", value.value, 2)
        return SaslOutcome(outcome.required_ubyte(0, "code", SASL_SYS_TEMP), outcome.binary(1, "additional-data"))
    raise PeerError(MALFORMED, f"{describe(value.descriptor)} describes no SASL frame")
