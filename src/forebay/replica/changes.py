"""Changes of the register that are under way: one at a time.

Whether a change was made is known once the register is seen at a revision above the one that it was bound to, and not
before: a read of the same revision proves nothing, since the change may still be on its way. So a leader sends the
very same change again, which is harmless, as it is bound to its revision. A candidate need not remember its own:
whoever sees itself as the leader leads.
"""

from __future__ import annotations

from mypy_extensions import i64, mypyc_attr

from forebay.replica.outcome import Change
from forebay.replica.register import TRANSFER, RegisterValue
from forebay.replica.standing import LEADS, Standing


@mypyc_attr(allow_interpreted_subclasses=True)
class Changes:
    """The changes of one member.

    pending  may have been made, may still be made, and may never be
    sent_us  when it was sent last
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
        """The register stands at this revision: whatever was bound to a lower one is made, or never will be."""
        pending = self.pending
        if pending is not None and revision > pending.revision:
            self.forget()

    def seen_same(self, revision: i64) -> None:
        """A sight that brings no later revision; it settles nothing."""

    def forget(self) -> None:
        self.pending = None
        self.standing.out.change = None

    def tick(self, now: i64) -> None:
        if self.pending is not None and now - self.sent_us >= self.standing.settings.change_us:
            self.overdue(now)

    def overdue(self, now: i64) -> None:
        """The outcome is not known."""
        if self.standing.role == LEADS:
            self.send(now)
        else:
            self.forget()
            self.standing.out.read = True

    def hands_over(self) -> bool:
        """A transfer is under way: nothing more may be delivered until it is known to have failed."""
        pending = self.pending
        return pending is not None and pending.value.why == TRANSFER
