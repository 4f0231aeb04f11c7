"""The rights of MQTT sessions whose client is away: asked again when they change, and before a will is published.

Only rights that are stored here are known without a login: those of a token or of another server are asked at the
client's return.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from forebay.broker.mqtt.client_session import ANONYMOUS, EXTERNAL, NOBODY, VOUCHED, ClientSession, Will
from forebay.broker.vhost import Vhost
from forebay.core.errors import RequestError
from forebay.directory.logins.authorizer import Principal
from forebay.directory.permissions import Rights
from forebay.directory.users import Users
from forebay.message.events import PUBLISH_DENIED, SUBSCRIBE_DENIED

CHECKED_AT_ONCE: Final = 200  # subscriptions in one call of `step`


class SessionRights:
    """Ends what sessions of absent clients have, and their users may not have any more.

    stamp    `Users.stamp` of when the sessions were last listed
    waiting  sessions of that list to be looked at: vhost, and number of the session
    filters  of the session in hand, still to be looked at
    """

    def __init__(self, users: Users, vhosts: Mapping[bytes, Vhost]) -> None:
        self.users = users
        self.vhosts = vhosts
        self.stamp = -1
        self.waiting: deque[tuple[Vhost, int]] = deque()
        self.filters: list[bytes] = []
        self.in_hand: tuple[Vhost, ClientSession, Rights | None] | None = None

    def step(self) -> None:
        """Look at some of the kept subscriptions, if rights have changed; call several times a second."""
        stamp = self.users.stamp()
        if stamp != self.stamp:
            self.stamp = stamp
            self.in_hand = None
            self.waiting = deque((vhost, number) for vhost in self.vhosts.values() for number in vhost.sessions.offline)
        checked = 0
        while checked < CHECKED_AT_ONCE and (self.in_hand is not None or self.waiting):
            if self.in_hand is None:
                self.begin(*self.waiting.popleft())
                checked += 1
                continue
            vhost, client, rights = self.in_hand
            if not self.filters or client.connection or client.ended:
                if not client.connection:
                    client.checked = stamp
                self.in_hand = None
                continue
            self.check(vhost, client, rights, self.filters.pop())
            checked += 1

    def begin(self, vhost: Vhost, number: int) -> None:
        """Take the session of this number in hand, if it is still there and its rights are known."""
        client = vhost.sessions.by_number.get(number)
        if client is None or not self.has_stored_rights(client) or client.checked == self.stamp:
            return
        self.filters = list(client.subscriptions)
        self.in_hand = (vhost, client, self.rights_of(vhost, client))

    def has_stored_rights(self, client: ClientSession) -> bool:
        """Return whether the rights of the session's user are known without a login.

        Those of a user who is not there are not: a configuration may have lost the user by mistake, and nobody can use
        the session meanwhile.
        """
        owner = client.owner
        if owner.authority == EXTERNAL or owner.user == NOBODY.user:
            return False
        return owner.authority == VOUCHED or owner.user in self.users.by_name

    def rights_of(self, vhost: Vhost, client: ClientSession) -> Rights | None:
        """Return the rights of the session's user in the vhost, None if it may not enter."""
        owner = client.owner
        try:
            rights = self.users.rights(Principal(owner.user, vouched=owner.authority == VOUCHED), vhost.name)
        except RequestError:
            return None
        rights.client_id = client.client_id.decode()
        rights.is_anonymous = owner.authority == ANONYMOUS
        return rights

    def check(self, vhost: Vhost, client: ClientSession, rights: Rights | None, filter: bytes) -> None:
        """End a subscription if the session's user may not have it any more."""
        reason = f"access to vhost '{vhost.name.decode('utf-8', 'replace')}' refused for user '{client.owner.user}'"
        if rights is not None:
            try:
                rights.check_subscribe(filter)
                return
            except RequestError as error:
                reason = error.text
        if vhost.clients.unsubscribe(client, filter):
            note_denied(vhost, SUBSCRIBE_DENIED, client, reason)
            vhost.touch()

    def withdraw_wills(self, vhost: Vhost) -> None:
        """Take back the wills that are to be published now, and that their users may not publish any more."""
        sessions = vhost.sessions
        sessions.wills = [(client, will) for client, will in sessions.wills if self.may_leave(vhost, client, will)]

    def may_leave(self, vhost: Vhost, client: ClientSession, will: Will) -> bool:
        """Return whether a session's will may still be published."""
        if not self.has_stored_rights(client):
            return client.owner.authority == EXTERNAL or client.owner.user == NOBODY.user
        rights = self.rights_of(vhost, client)
        reason = f"will: access refused for user '{client.owner.user}'"
        if rights is not None:
            try:
                rights.check_publish_topic(will.topic)
                return True
            except RequestError as error:
                reason = f"will: {error.text}"
        note_denied(vhost, PUBLISH_DENIED, client, reason)
        return False


def note_denied(vhost: Vhost, type: str, client: ClientSession, reason: str) -> None:
    """Note that the user of a session may not do any more what the session was to do for it."""
    fields: dict[str, object] = {"user": client.owner.user, "client_id": client.client_id, "reason": reason}
    vhost.events.note(type, vhost.name, fields)
