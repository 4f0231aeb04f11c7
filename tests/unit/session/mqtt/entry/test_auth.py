"""Enhanced authentication: which packet answers which, and what ends the connection."""

from __future__ import annotations

import pytest

from forebay.core.errors import UNEXPECTED, PeerError
from forebay.core.option_names import SCRAM_SHA_256
from forebay.directory.logins.login import Auth, LoginRefused, Mechanism, SaslExchange
from forebay.directory.logins.scram import make_scram
from forebay.server.system.chance import SystemRandom
from forebay.session.mqtt.entry.auth import Answer, AuthExchange
from forebay.wire.mqtt import properties as props
from forebay.wire.mqtt.codes import AUTH, CONNACK, DISCONNECT, PINGREQ, PUBACK, V5
from forebay.wire.mqtt.encoding import encode_packet
from forebay.wire.mqtt.packets import Ack, frame
from tests.scram_client import ScramClient, before_connack

SCRAM = SCRAM_SHA_256.encode()
USERS = {"guest": "guest", "ana": "secret"}
CONTINUE, AGAIN = 0x18, 0x19


class Counting(Mechanism):
    """Says 1, 2, ...; the client that says `end` is who it says, without any proof."""

    def start(self) -> SaslExchange:
        return CountingLogin()


class CountingLogin(SaslExchange):
    """One login of that kind."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def step(self, data: bytes) -> bytes:
        self.count += 1
        if data == b"no":
            raise LoginRefused("the client said no")
        if data.startswith(b"end "):
            self.done = True
            self.user = data[4:].decode()
            return b""
        return b"%d" % self.count


def exchange(loopback: bool = True) -> AuthExchange:
    mechanisms = make_scram(USERS, [SCRAM_SHA_256], SystemRandom())
    return AuthExchange(Auth(USERS, ["guest"], {**mechanisms, "COUNT": Counting()}), loopback)


def block(method: bytes | None, data: bytes | None = None, packet_octets_max: int = 0) -> bytes:
    made = []
    if method is not None:
        made.append(props.Property(props.AUTH_METHOD, 0, method, b""))
    if data is not None:
        made.append(props.Property(props.AUTH_DATA, 0, data, b""))
    if packet_octets_max:
        made.append(props.Property(props.MAXIMUM_PACKET_SIZE, packet_octets_max, b"", b""))
    return props.encode_properties(made)


def auth(code: int, method: bytes | None, data: bytes | None = None) -> Ack:
    return Ack(AUTH, 0, code, block(method, data))


def parts(answer: Answer | None) -> tuple[int, int, bytes | None, bytes | None]:
    """Kind, code, method and data of an answer."""
    assert answer is not None
    found = {each.id: each.text for each in props.decode_properties(answer.block)}
    assert set(found) <= {props.AUTH_METHOD, props.AUTH_DATA}
    return int(answer.kind), int(answer.code), found.get(props.AUTH_METHOD), found.get(props.AUTH_DATA)


def data_of(answer: Answer | None) -> bytes:
    data = parts(answer)[3]
    assert data is not None
    return data


def logged_in(user: str = "ana") -> AuthExchange:
    made = exchange()
    assert parts(made.on_connect(block(b"COUNT", b"end " + user.encode()))) == (CONNACK, 0, b"COUNT", None)
    assert made.user == user
    return made


def wrong(made: AuthExchange, packet: Ack) -> str:
    """What is said of a packet that breaks the protocol."""
    with pytest.raises(PeerError) as caught:
        made.on_auth(packet)
    assert caught.value.reason == UNEXPECTED
    return caught.value.text


def test_scram_at_connect() -> None:
    made = exchange()
    client = ScramClient("ana", "secret", "sha256")
    first = made.on_connect(block(SCRAM, client.first()))
    assert parts(first)[:3] == (AUTH, CONTINUE, SCRAM)
    assert before_connack(made)
    last = made.on_auth(auth(CONTINUE, SCRAM, client.final(data_of(first))))
    assert parts(last)[:3] == (CONNACK, 0, SCRAM)
    client.check(data_of(last))
    assert (made.user, before_connack(made)) == ("ana", False)


def test_scram_whose_client_waits_to_be_asked() -> None:
    made = exchange()
    client = ScramClient("ana", "secret", "sha256")
    assert parts(made.on_connect(block(SCRAM))) == (AUTH, CONTINUE, SCRAM, None)
    answer = made.on_auth(auth(CONTINUE, SCRAM, client.first()))
    assert parts(made.on_auth(auth(CONTINUE, SCRAM, client.final(data_of(answer)))))[:2] == (CONNACK, 0)


def test_as_many_messages_as_the_method_wants() -> None:
    made = exchange()
    assert parts(made.on_connect(block(b"COUNT", b"x"))) == (AUTH, CONTINUE, b"COUNT", b"1")
    for count in range(2, 10):
        assert parts(made.on_auth(auth(CONTINUE, b"COUNT"))) == (AUTH, CONTINUE, b"COUNT", b"%d" % count)
        assert before_connack(made)
    assert parts(made.on_auth(auth(CONTINUE, b"COUNT", b"end ana"))) == (CONNACK, 0, b"COUNT", None)


def test_without_a_method_it_is_not_for_here() -> None:
    made = exchange()
    assert made.on_connect(block(None)) is None
    assert not before_connack(made)
    for code in (CONTINUE, AGAIN):
        assert wrong(made, auth(code, SCRAM)) == "AUTH: the CONNECT had no authentication method"


def test_data_without_a_method_is_a_protocol_error() -> None:
    with pytest.raises(PeerError) as caught:
        exchange().on_connect(block(None, b"x"))
    assert caught.value.reason == UNEXPECTED


@pytest.mark.parametrize("method", [b"", b"GS2-KRB5", b"scram-sha-256", b"SCRAM-SHA-512"])
def test_a_method_that_is_not_offered(method: bytes) -> None:
    made = exchange()
    answer = made.on_connect(block(method, b"x"))
    assert parts(answer) == (CONNACK, 0x8C, None, None)
    assert answer is not None
    assert answer.detail == f"authentication method '{method.decode()}' is not offered"
    assert not before_connack(made)


@pytest.mark.parametrize(("user", "password"), [("ana", "Secret"), ("eve", "secret")])
def test_a_wrong_password_and_nobody_are_answered_alike(user: str, password: str) -> None:
    made = exchange()
    client = ScramClient(user, password, "sha256")
    answer = made.on_connect(block(SCRAM, client.first()))
    assert parts(answer)[:3] == (AUTH, CONTINUE, SCRAM)
    last = made.on_auth(auth(CONTINUE, SCRAM, client.final(data_of(answer))))
    assert parts(last) == (CONNACK, 0x87, None, None)
    assert user in last.detail
    assert (made.user, before_connack(made)) == ("", False)
    assert "none is under way" in wrong(made, auth(CONTINUE, SCRAM, b"n,,n=ana,r=x"))


def test_a_user_of_this_machine_only_stays_one() -> None:
    answer = exchange(loopback=False).on_connect(block(b"COUNT", b"end guest"))
    assert parts(answer) == (CONNACK, 0x87, None, None)
    assert parts(exchange(loopback=True).on_connect(block(b"COUNT", b"end guest")))[:2] == (CONNACK, 0)


def test_an_answer_that_is_longer_than_the_client_takes_is_not_sent() -> None:
    made = exchange()
    answer = made.on_connect(block(SCRAM, b"n,,n=ana,r=x", packet_octets_max=40))
    assert parts(answer) == (CONNACK, 0x95, None, None)
    # AUTH with its first answer: fixed header 2, code 1, length 1, method 3 + 5, data 3 + 1; CONNACK has one more.
    assert parts(exchange().on_connect(block(b"COUNT", b"x", packet_octets_max=23)))[:2] == (AUTH, CONTINUE)


@pytest.mark.parametrize(
    ("packet", "said"),
    [
        (auth(CONTINUE, b"COUNT"), "AUTH: authentication method: not the one of CONNECT"),
        (auth(CONTINUE, None, b"x"), "AUTH: authentication method: missing"),
        (Ack(AUTH, 0, 0, b""), "AUTH: authentication method: missing"),
        (auth(AGAIN, SCRAM), "AUTH: re-authenticate: an authentication is under way"),
        (auth(0x00, SCRAM), "AUTH: reason code 0x00: not for clients"),
        (auth(0x87, SCRAM), "AUTH: reason code 0x87: not for clients"),
    ],
)
def test_what_may_not_come_before_the_connack(packet: Ack, said: str) -> None:
    made = exchange()
    made.on_connect(block(SCRAM, b"n,,n=ana,r=x"))
    assert wrong(made, packet) == said


def octets_in(made: AuthExchange, packet: Ack) -> Answer | None:
    octets = encode_packet(packet, V5)
    found = frame(octets, 0, len(octets), len(octets))
    return made.on_packet(octets, octets[0], found & 7, found >> 3)


def test_only_auth_and_disconnect_may_come_before_the_connack() -> None:
    made = exchange()
    made.on_connect(block(b"COUNT", b"x"))
    assert parts(octets_in(made, auth(CONTINUE, b"COUNT", b"x"))) == (AUTH, CONTINUE, b"COUNT", b"2")
    for kind in (PINGREQ, PUBACK):
        with pytest.raises(PeerError, match=f"packet type {kind}: before CONNACK only AUTH and DISCONNECT"):
            octets_in(made, Ack(kind, 1, 0, b""))
    assert octets_in(made, Ack(DISCONNECT, 0, 0, b"")) is None


def test_again_on_a_live_connection() -> None:
    made = logged_in()
    for _ in range(3):
        assert parts(made.on_auth(auth(AGAIN, b"COUNT", b"x"))) == (AUTH, CONTINUE, b"COUNT", b"1")
        assert not before_connack(made)  # all else goes on as before
        assert parts(made.on_auth(auth(CONTINUE, b"COUNT", b"x"))) == (AUTH, CONTINUE, b"COUNT", b"2")
        assert parts(made.on_auth(auth(CONTINUE, b"COUNT", b"end ana"))) == (AUTH, 0, b"COUNT", None)
    assert made.user == "ana"


def test_scram_again_on_a_live_connection() -> None:
    made = exchange()
    for kind in (CONNACK, AUTH):
        client = ScramClient("ana", "secret", "sha256")
        first = block(SCRAM, client.first())
        answer = made.on_connect(first) if kind == CONNACK else made.on_auth(Ack(AUTH, 0, AGAIN, first))
        last = made.on_auth(auth(CONTINUE, SCRAM, client.final(data_of(answer))))
        assert parts(last)[:3] == (kind, 0, SCRAM)
        client.check(data_of(last))


@pytest.mark.parametrize(
    ("data", "detail"), [(b"no", "the client said no"), (b"end guest", "user 'ana' cannot become 'guest'")]
)
def test_again_and_refused_ends_the_connection(data: bytes, detail: str) -> None:
    for begun in (False, True):
        made = logged_in()
        if begun:
            made.on_auth(auth(AGAIN, b"COUNT", b"x"))
        answer = made.on_auth(auth(CONTINUE if begun else AGAIN, b"COUNT", data))
        assert parts(answer) == (DISCONNECT, 0x87, None, None)
        assert answer.detail == detail


@pytest.mark.parametrize(
    ("packet", "said"),
    [
        (auth(AGAIN, SCRAM, b"x"), "AUTH: authentication method: not the one of CONNECT"),
        (auth(CONTINUE, b"COUNT"), "AUTH: continue authentication: none is under way"),
        (auth(AGAIN, None), "AUTH: authentication method: missing"),
        (auth(0x00, b"COUNT"), "AUTH: reason code 0x00: not for clients"),
    ],
)
def test_what_may_not_come_on_a_live_connection(packet: Ack, said: str) -> None:
    assert wrong(logged_in(), packet) == said
