"""Somebody who logs in by the password of a user that the administrator has made, or by another, and goes again."""

from __future__ import annotations

from random import Random

from tests.simulation.clients.admin import ERROR, NAMES, PREFACE, REPLY, BlocksClient, asked
from tests.simulation.model.facts import Change
from tests.simulation.model.passwords import PASSWORDS, is_of
from tests.simulation.model.promises import check

TOO_LATE = b"no login in time"
DELETED = b"is deleted"  # the user: the broker has let the visitor in, and ended that before it has said so
REFUSED_THERE = b"access to vhost"  # the password was right, and the user has no business there


class Visitor(BlocksClient):
    """A login over the block protocol on each connection.

    user, password  by which it logs in
    was_right       what the model said when the broker began to look: None where that is in doubt
    might_enter     whether the user had permissions then
    was             what the model's last word on the user was then
    is_told         the broker has answered
    """

    def begin(self) -> None:
        super().begin()
        self.user = self.password = ""
        self.was_right: bool | None = None
        self.might_enter: bool | None = None
        self.was: Change | None = None
        self.is_told = False

    def open(self, chance: Random) -> None:
        # As a rule somebody who is there, by the right password: a wrong one costs the broker time, on purpose.
        there = self.model.users.names()
        self.user = chance.choice(there if there and chance.random() < 0.8 else NAMES)
        known = [each for each in PASSWORDS if is_of(self.model.users.value(self.user), each)]
        self.password = chance.choice(known if known and chance.random() < 0.8 else PASSWORDS)
        self.send(PREFACE + asked({"op": "auth", "user": self.user, "password": self.password}), self.taken_in)

    def taken_in(self) -> None:
        self.was_right, self.might_enter = self.is_right(), self.may_enter()
        self.was = self.word()

    def word(self) -> Change | None:
        """The last change of the user."""
        changes = self.model.users.changes.get(self.user)
        return changes[-1] if changes else None

    def is_right(self) -> bool | None:
        """Whether that is the user's password now; None where nobody knows."""
        if self.model.doubts or not self.model.users.is_sure(self.user):
            return None
        return is_of(self.model.users.value(self.user), self.password)

    def may_enter(self) -> bool | None:
        """Whether the user has permissions now, of whatever kind; None where nobody knows."""
        if self.model.doubts or not self.model.permissions.is_sure(self.user):
            return None
        return self.model.permissions.value(self.user) is not None

    def act(self, chance: Random) -> str:
        if not self.is_told:
            return f"waits to be let in as {self.user}"
        self.is_over = True
        return "goes"

    def answered(self, kind: int, payload: bytes) -> None:
        """It was right when the broker began to look, and is still: let in. It was wrong: refused."""
        check(kind in (REPLY, ERROR), f"{self.name} was told {payload!r}")
        text = f"{self.name} logged in as {self.user} by {self.password!r}"
        if TOO_LATE in payload:
            return  # much time has gone by at once
        if DELETED in payload and self.word() is not self.was:
            return
        has_entered = kind == REPLY
        if has_entered or REFUSED_THERE in payload:
            check(self.was_right is not False, f"{text}, which is not the password")
            may_enter = {self.might_enter, self.may_enter()}
            check(None in may_enter or has_entered in may_enter, f"{text}, and was told {payload!r}")
        else:
            check(not (self.was_right and self.is_right()), f"{text}, which is the password: {payload!r}")
        self.is_told = True

    def ended(self) -> None:
        """The broker ends what is refused, and the connections of users that are deleted."""

    def gone(self) -> None:
        """Nothing of a visitor's is held."""
