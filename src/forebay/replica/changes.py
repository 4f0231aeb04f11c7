"""Keeps track of a change of the register that is in flight. There is at most one at a time.

The outcome of a change is known once the register is seen at a revision above the one the change was bound to. A read
of the same revision proves nothing, since the change may still be on its way. A leader therefore sends the very same
change again, which is harmless because the change is bound to its revision. A candidate need not remember its own
change: a member that sees itself as the leader in the register leads.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from forebay.replica.outcome import Change
from forebay.replica.register import TRANSFER, RegisterValue
from forebay.replica.standing import LEADS, Standing


@mypyc_attr(allow_interpreted_subclasses=True)
class Changes:
    """The pending change of the register of one member.

    pending  the change whose outcome is unknown; None if there is none
    sent_us  time at which `pending` was last sent
    """

    def __init__(self, standing: Standing) -> None:
        self.standing = standing
        self.pending: Change | None = None
        self.sent_us: i64 = 0

    def propose(self, value: RegisterValue, now: i64) -> None:
        view = self.standing.view
        assert self.pending is None and view is not None
        self.pending = Change(view.revision, value)
        self.send(now)

    def send(self, now: i64) -> None:
        self.standing.out.change = self.pending
        self.sent_us = now

    def seen(self, revision: i64) -> None:
        """Record that the register was seen at `revision`.

        A change bound to a lower revision is decided and is forgotten.
        """
        pending = self.pending
        if pending is not None and revision > pending.revision:
            self.forget()

    def seen_same(self, revision: i64) -> None:
        """Record that the register was seen again at a revision already known. It decides no change."""

    def forget(self) -> None:
        self.pending = None
        self.standing.out.change = None

    def tick(self, now: i64) -> None:
        if self.pending is not None and now - self.sent_us >= self.standing.settings.change_us:
            self.overdue(now)

    def overdue(self, now: i64) -> None:
        """Send a change of unknown outcome again if this member leads.

        Otherwise forget the change and read the register.
        """
        if self.standing.role == LEADS:
            self.send(now)
        else:
            self.forget()
            self.standing.out.read = True

    def hands_over(self) -> bool:
        """Return whether a transfer of leadership is pending.

        Deliver nothing until the transfer is known to have failed.
        """
        pending = self.pending
        return pending is not None and pending.value.why == TRANSFER
