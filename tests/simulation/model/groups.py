"""Named groups of a work queue: each of them gets every message, and settles it for itself alone.

A group is to the model a queue of its own, whose messages are those of the queue that it has not settled.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from tests.simulation.broker import Inside
from tests.simulation.model.promises import NEVER, Settlement, check
from tests.simulation.model.queues import Copy, Message, Queue

if TYPE_CHECKING:
    from tests.simulation.model.model import Model

FIRST, NEXT = "first", "next"  # where a group may be told to go on, beside offsets


class Group(Queue):
    """One group from its first consumer to its end.

    made, moved  what makes certain that it is there, and that it has gone elsewhere
    moves        how often it has: what was delivered before is settled too late
    """

    def __init__(self, id: int, of: Groups, name: str) -> None:
        super().__init__(id, f"{of.queue.name}/{name}", {}, put_off=of.queue.put_off)
        self.group = name
        self.of = of
        self.made: Final = Settlement()
        self.moved = Settlement(0)


class Groups:
    """The groups of one queue.

    queue    its copies are what the log may have: `vague` where some group needs it no more
    by_name  those that there are
    known    by number, also those of which nobody can say whether a crash would leave them
    ever     all messages that came: of those that nobody wants any more a node may have some, and another may not
    """

    def __init__(self, model: Model, queue: Queue) -> None:
        self.ever: set[int] = set()
        self.model = model
        self.queue = queue
        self.by_name: dict[str, Group] = {}
        self.known: dict[int, Group] = {}

    @property
    def broker(self) -> Inside:
        assert self.model.broker is not None
        return self.model.broker

    # ---- what the broker takes in

    def joined(self, name: str) -> Group:
        """The group that a consumer comes to, made if it is the first."""
        group = self.by_name.get(name)
        if group is None:
            id = self.broker.work_groups(self.queue.id).get(name, -self.model.numbers.next)
            group = self.by_name[name] = Group(id, self, name)
            self.model.settled.append(group.made)
            if id > 0:
                self.known[id] = group
            group.came = self.queue.came
            for number, copy in self.queue.copies.items():
                group.copies[number] = self.anew(copy)
        return group

    def anew(self, copy: Copy) -> Copy:
        """A copy of the log's for a group that has not settled it."""
        made = Copy(NEVER, copy.message, copy.came_us, copy.place, 0, copy.lives_ms)
        made.vague = copy.vague or self.model.doubts
        return made

    def published(self, message: Message) -> None:
        self.ever.add(message.number)
        for group in self.by_name.values():
            group.copies[message.number] = self.anew(self.queue.copies[message.number])
            group.came = self.queue.came

    def settled(self, number: int) -> None:
        """Some group needs a message no more, so that the log may be without it."""
        if number in self.queue.copies:
            self.queue.copies[number].vague = True

    def deleted(self, name: str) -> Group | None:
        group = self.by_name.pop(name, None)
        if group is not None:
            group.ending = True
        return group

    def move(self, group: Group, to: str) -> Settlement:
        """A group goes on elsewhere: all before is settled, and all from there on comes as if for the first time."""
        there = {number_in(body): offset for offset, body in self.broker.records(self.queue.id).items()}
        first = {FIRST: 0, NEXT: NEVER}.get(to, -1)
        first = int(to) if first < 0 else first
        group.moves += 1
        group.moved = Settlement()
        self.model.settled.append(group.moved)
        for number, copy in self.queue.copies.items():
            if number in there and there[number] >= first:
                before = group.copies.get(number)
                if before is None or before.settled:
                    group.copies[number] = self.anew(copy)
            elif number in group.copies:
                gone = group.copies[number]
                gone.is_sent = gone.is_sent or (group.users > 0 and not gone.settled)  # in this very turn
                self.model.settle(group, number)
        return group.moved

    def may_have(self, number: int) -> bool:
        """Whether the log of the node that leads now may have what the one before had no more."""
        return self.broker.delivers_committed and number in self.ever

    # ---- the comparison

    def audit(self, restarted: bool, durable: int) -> list[Queue]:
        """Hold the groups that there are against those that may be; those that there are."""
        there = set(self.broker.work_groups(self.queue.id).values())
        present: list[Queue] = []
        for id, group in list(self.known.items()):
            if id in there:
                check(not group.ended, f"{group} was deleted and answered, and is there again")
                check(restarted or not group.ending, f"{group} was deleted, and is there")
                group.ending = False
                self.by_name[group.group] = group
                group.was_careless = group.was_careless or (restarted and group.moved.mark > durable)
                present.append(group)
            else:
                gone = group.ending or (restarted and group.made.mark > durable)
                check(gone, f"{group} has had a consumer, and that was on the disk, and it is not there")
                if restarted:
                    del self.known[id]
                if self.by_name.get(group.group) is group:
                    del self.by_name[group.group]
        self.audit_log(restarted)
        return present

    def audit_log(self, restarted: bool) -> None:
        """Hold all that the queue's log has against what it must have."""
        model = self.model
        found: set[int] = set()
        for offset, body in sorted(self.broker.records(self.queue.id).items()):
            number = number_in(body)
            message = model.messages.get(number)
            is_known = number in self.queue.copies or self.may_have(number)
            is_one = is_known and message is not None and message.body == body
            check(is_one, f"{self.queue} has {body[:40]!r} at {offset}: nobody published that there")
            check(number not in found, f"{self.queue} has message {number} twice")
            found.add(number)
        for number, copy in list(self.queue.copies.items()):
            message = copy.message
            if number in found:
                message.promised = message.promised or not self.broker.was_full
                continue
            may_go = copy.vague or message.refused or self.queue.may_go(copy, model.now_us)
            never_was = not message.promised and (restarted or self.broker.was_full)
            check(may_go or never_was, f"{self.queue} has lost message {number}, which some group has not settled")
            copy.vague = True
            if restarted:
                del self.queue.copies[number]


def number_in(body: bytes) -> int:
    """The number of the message of that body."""
    return int(body.partition(b";")[0])
