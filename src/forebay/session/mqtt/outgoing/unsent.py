"""Packets that an earlier connection of a session left unacknowledged: they are sent again [MQTT-4.4.0-1, 4.6.0-1]."""

from __future__ import annotations

from typing import Final, final

from librt.strings import BytesWriter
from mypy_extensions import i64

from forebay.broker.contract import VhostContract
from forebay.broker.mqtt.client_session import AWAIT_PUBACK, AWAIT_PUBCOMP, COMPLETED, PHASE_BITS, ClientSession
from forebay.broker.mqtt.sessions import Sessions
from forebay.routing.cut_work import STEPS_A_TURN
from forebay.session.mqtt.outgoing.encode import DUP, PacketEncoder
from forebay.session.mqtt.outgoing.stored_rights import StoredRights
from forebay.session.mqtt.outgoing.window import LOGGED_1, LOGGED_2, RELEASED_LOGGED, Flight, Window
from forebay.wire.mqtt.codes import PUBREL
from forebay.wire.mqtt.encoding import write_ack

LOGGED_FLIGHT_1: Final = Flight(LOGGED_1, 0, 0, None)
LOGGED_FLIGHT_2: Final = Flight(LOGGED_2, 0, 0, None)
RELEASED_LOGGED_FLIGHT: Final = Flight(RELEASED_LOGGED, 0, 0, None)


@final
class Unsent:
    """The packet identifiers in flight of a session, still to be sent again over its new connection."""

    def __init__(
        self, vhost: VhostContract, client: ClientSession, encoder: PacketEncoder, window: Window, out: BytesWriter
    ) -> None:
        self.vhost = vhost
        self.client = client
        self.encoder = encoder
        self.window = window
        self.out = out
        self.ids = list(client.inflight)

    def send(self, rights: StoredRights | None) -> bool:
        """Send what the window and the turn allow, and return whether that was all of it.

        rights  of the session's user, where they have to be asked: what it may not have is completed unsent
        """
        sent = 0
        steps: i64 = 0
        for id in self.ids:
            if self.window.is_full() or steps >= STEPS_A_TURN:
                break
            sent += 1
            word: i64 = self.client.inflight[id]
            if word & 3 == AWAIT_PUBCOMP:
                self.window.take(id, RELEASED_LOGGED_FLIGHT)
                self.encoder.others_sent += 1
                write_ack(self.out, PUBREL, id, 0, b"")
            else:
                self.send_record(id, word, rights)
                steps += self.vhost.fanout.trie.spent
        self.ids = self.ids[sent:]
        return not self.ids

    def send_record(self, id: i64, word: i64, rights: StoredRights | None) -> None:
        offset = word >> PHASE_BITS
        sessions = self.vhost.sessions
        block = sessions.log.block(offset)
        assert block is not None and block.base <= offset, "what is in flight is in the log"
        index = offset - block.base
        qos: i64 = 1 if word & 3 == AWAIT_PUBACK else 2
        self.window.take(id, LOGGED_FLIGHT_1 if qos == 1 else LOGGED_FLIGHT_2)
        if rights is not None and rights.keep_back(self.vhost, block, index, index + 1, False):
            complete(sessions, self.client, self.window, id)
            return
        recipient = sessions.recipient(self.client, block, index)
        if not self.encoder.write(self.out, block, index, recipient, id, qos, DUP, False):
            complete(sessions, self.client, self.window, id)


def complete(sessions: Sessions, client: ClientSession, window: Window, id: i64) -> None:
    """Free a packet identifier: nothing more is expected for it."""
    window.free(id)
    if client.inflight.pop(int(id), None) is not None:
        sessions.operate(client, COMPLETED, id, 0, False)
