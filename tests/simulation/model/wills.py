"""The last wills of clients: published when a connection ends without a word, unless the client is back in time."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from tests.simulation.kinds import TOPIC
from tests.simulation.model.facts import Change
from tests.simulation.model.promises import NEVER, Settlement
from tests.simulation.model.queues import UNKNOWN, Message

if TYPE_CHECKING:
    from tests.simulation.model.model import Model

SECOND_US: Final = 1_000_000


@dataclass(eq=False)
class Will(Settlement):
    """The will of one connection; it is settled when it was published or called off.

    durable    its session outlives the connection
    is_sure    its CONNECT was answered
    due_us     when it is to be published, once the connection has ended
    is_vague   it may have been published already, or not be there at all
    change     what it has made of what is retained
    """

    message: Message = field(default_factory=lambda: Message(0, "", b""))
    topic: str = ""
    delay_s: int = 0
    retain: bool = False
    durable: bool = False
    is_sure: bool = False
    due_us: int = NEVER
    is_vague: bool = False
    change: Change | None = None


class Wills:
    """The wills that may yet be published.

    published, off   those that were published, or called off, as long as a crash may undo it
    """

    def __init__(self, model: Model) -> None:
        self.model = model
        self.open: list[Will] = []
        self.published: list[Will] = []
        self.off: list[Will] = []

    def begin(self, will: Will) -> None:
        """The broker has taken in a CONNECT with it."""
        will.is_vague = self.model.doubts
        will.message.topic = will.topic
        self.open.append(will)

    def ended(self, will: Will) -> None:
        """Its connection has ended without DISCONNECT."""
        if will not in self.open or will.due_us < NEVER:
            return
        will.due_us = self.model.now_us
        if will.delay_s and will.durable:
            will.due_us += will.delay_s * SECOND_US
        else:
            self.publish(will)

    def doubt(self, will: Will) -> None:
        """Perhaps the broker has ended its connection already, and nobody has heard so: then it may be published."""
        if will in self.open:
            will.is_vague = True
            if will.retain:
                self.model.retained.change(will.topic, will.message.number, True)

    def back(self, will: Will, resumed: bool) -> None:
        """Its client is back, perhaps before the broker has seen the end of the connection."""
        if will not in self.open:
            return
        if self.model.doubts:
            self.doubt(will)
        elif resumed and will.delay_s:
            self.call_off(will)
        else:
            self.publish(will)

    def call_off(self, will: Will) -> None:
        """Nobody is to hear of it."""
        if will in self.open:
            self.open.remove(will)
            self.off.append(will)
            will.is_vague = will.is_vague or self.model.doubts

    def release(self) -> None:
        """The broker has looked whose time has come."""
        assert self.model.broker is not None
        for will in [each for each in self.open if each.due_us <= self.model.broker.swept_us]:
            self.publish(will)

    def publish(self, will: Will) -> None:
        model = self.model
        self.open.remove(will)
        self.published.append(will)
        will.is_vague = will.is_vague or model.is_tight
        if will.is_vague:
            will.message.taken = UNKNOWN  # whoever gets it gets it, and it is owed to nobody
        if will.retain:
            will.change = model.retain(will.message, will.topic, will.message.number)
        model.published(will.message, TOPIC, will.topic)

    def tighten(self) -> None:
        """The disk is full: nobody is told whether there was room for those that were published just before."""
        for will in self.published:
            if will.mark == NEVER:
                will.is_vague = True
                will.message.taken = UNKNOWN
                if will.change is not None:
                    will.change.vague = True

    def crashed(self) -> None:
        """The broker has started again: connections have ended, and delays begin, at the latest now.

        What was published or called off just before may be so again.
        """
        now_us = self.model.now_us
        for will in self.open:
            will.is_vague = will.is_vague or not will.is_sure or will.due_us < NEVER
        for will in [*self.published, *self.off]:
            will.is_vague = True
            self.open.append(will)
        self.published.clear()
        self.off.clear()
        self.open = [each for each in self.open if each.durable]
        for will in self.open:
            # Where the clock has gone back, it may come as late as it was due before.
            before_us = will.due_us if will.due_us < NEVER else 0
            will.due_us = max(now_us + will.delay_s * SECOND_US, before_us)
        self.expect()
        self.release()  # it looks at once

    def expect(self) -> None:
        """Reckon with wills of which nobody knows when their time comes."""
        for will in self.open:
            if will.is_vague and will.retain and will.due_us < NEVER:
                self.model.retained.change(will.topic, will.message.number, True)

    def audited(self, restarted: bool, certain: bool) -> None:
        """All is quiet: what was published is there for good, and what was called off must not come.

        Nobody waits for the note of either, so the disk may have it only when something else is written.
        """
        if restarted:
            self.crashed()
            return
        if not certain:
            return
        broker = self.model.broker
        assert broker is not None
        durable = broker.durable()
        for will in (*self.published, *self.off):
            will.mark = min(will.mark, broker.mark())
            if will.mark <= durable:
                will.message.promised = will in self.published and not will.is_vague
                will.message.void = will in self.off and not will.is_vague
        self.published = [will for will in self.published if will.mark > durable]
        self.off = [will for will in self.off if will.mark > durable]
        self.expect()
