"""The comparison of the model with what the broker has: after each start, and whenever nothing is on its way."""

from __future__ import annotations

from tests.simulation.broker import StoredQueue
from tests.simulation.kinds import GOVERNED, KEEPERS
from tests.simulation.model.model import Model, number_of
from tests.simulation.model.promises import NEVER, check
from tests.simulation.model.queues import Copy, Queue, key_of


class Audit:
    """One comparison; from then on what was uncertain is certain.

    durable  what was on the disk before the restart, as far as the broker knew
    """

    def __init__(self, model: Model, restarted: bool, durable: int = NEVER) -> None:
        assert model.broker is not None
        self.model = model
        self.broker = model.broker
        self.restarted = restarted
        self.durable = durable
        # With a full disk a change may stay in memory, and its answer wait.
        self.is_certain = restarted or not self.broker.was_full
        self.ends: dict[Queue, int] = {}
        self.present: list[Queue] = []

    def run(self) -> None:
        model, broker = self.model, self.broker
        self.check_queues()
        self.check_bindings()
        for queue in model.known.values():
            found = broker.stored(queue.id)
            if found is not None and queue in model.groups:
                for group in model.groups[queue].audit(self.restarted, self.durable):
                    left = broker.left_to(queue.id, group.id)
                    assert left is not None
                    self.present.append(group)
                    self.check_found(group, left)
            elif found is not None:  # else a crash may bring it back
                self.present.append(queue)
                self.check_found(queue, found)
        if self.restarted:
            self.check_delayed()
        for queue in self.present:
            self.check_missing(queue)
        self.check_dead()
        self.check_facts()
        if self.restarted:
            model.life += 1
            model.is_tight = broker.is_tight
            self.check_transactions()
            for subscriber in model.subscribers:
                subscriber.restarted(self.durable)
            model.shares.restarted(self.durable)
        model.wills.audited(self.restarted, self.is_certain)
        if self.is_certain and model.put_off:
            model.pass_on(broker.waiting(number_of))
        for queue in self.present:
            self.resolve(queue)

    # ---- what was declared

    def check_queues(self) -> None:
        model, broker = self.model, self.broker
        for queue in list(model.known.values()):
            found = broker.stored(queue.id)
            if found is None:
                gone = queue.ending or not queue.promised or (queue.is_transient and self.restarted)
                check(gone, f"{queue} was declared and answered, and is not there")
                if self.is_certain:
                    model.past.append(model.known.pop(queue.id))
                if model.queues.get(queue.name) is queue:
                    del model.queues[queue.name]
            else:
                check(not queue.ended, f"{queue} was deleted and answered, and is there again")
                check(self.restarted or not queue.ending, f"{queue} was deleted, and is there")
                check(not (queue.is_transient and self.restarted), f"{queue} has outlived the broker")
                queue.promised = queue.promised or self.is_certain
                queue.ending = False
                model.queues[queue.name] = queue
        for name, queue in model.queues.items():
            check(broker.queue_id(name) == queue.id, f"{queue} is not the one of that name")

    def check_bindings(self) -> None:
        model = self.model
        there = self.broker.bindings()
        for key, bound in list(model.bound.items()):
            if key in there:
                check(not bound.ended, f"binding {key} was removed and answered, and is there again")
                bound.promised = bound.promised or self.is_certain
                bound.ending = False
            else:
                gone = bound.ending or not bound.promised or key[1] not in model.known
                check(gone, f"binding {key} was made and answered, and is not there")
                if self.is_certain:
                    del model.bound[key]
                else:
                    bound.ending = True  # until a crash brings it back

    def check_facts(self) -> None:
        model, broker = self.model, self.broker
        for facts, found in (
            (model.users, broker.users()),
            (model.permissions, broker.permissions()),
            (model.policies, broker.policies()),
            (model.retained, broker.retained(number_of)),
            (model.places, broker.places(KEEPERS)),
        ):
            # That a group of readers was made is on the disk with the next that somebody waits for.
            certain = self.restarted or (self.is_certain and facts is not model.places)
            facts.audit(found, self.restarted, model.now_us, certain)

    # ---- messages

    def check_found(self, queue: Queue, stored: StoredQueue) -> None:
        """Hold all that one queue has against what it may have."""
        model = self.model
        for each in queue.copies.values():
            each.found = False
        self.ends[queue] = stored.end
        order = -1
        for offset, body in zip(stored.offsets, stored.bodies, strict=True):
            number = number_of(body)
            message = model.messages.get(number)
            check(message is not None and message.body == body, f"{queue} has {body[:40]!r}: nobody published that")
            copy = queue.copies.get(number) or model.arrived(queue, number)
            check(not copy.found, f"{queue} has message {number} twice")
            copy.found = True
            copy.at = offset
            if copy.place >= 0 and not model.is_tight:
                check(copy.place > order, f"{queue} has message {number} behind a later one")
                order = copy.place
            if copy.settled and not copy.died:
                durable = f"{queue} has message {number}, which was settled, and that was on the disk"
                check(copy.mark > self.durable, durable)
                check(self.restarted, f"{queue} has message {number}, which was settled")
            check(not copy.message.refused, f"{queue} has message {number}, which was refused")
        count = len(stored.bodies)
        check(stored.counted == count, f"{queue} counts {stored.counted} messages, and {count} can be read")
        if queue.has_keys and not queue.users and not queue.rests:
            keys = [key_of(model.messages[number_of(body)]) for body in stored.bodies]
            check(len(keys) == len(set(keys)), f"{queue} has several messages of one key, and nobody holds one")
        most = queue.number_of("x-max-length")
        is_held = self.restarted or queue.users or queue.returns or queue.governed or model.is_tight
        check(count <= most or bool(is_held), f"{queue} has {count} messages, and may have {most}")

    def check_missing(self, queue: Queue) -> None:
        """Hold all that one queue has not against what it must have."""
        model, broker = self.model, self.broker
        for number, copy in queue.copies.items():
            if copy.found or copy.settled:
                continue
            copy.settled = True
            copy.mark = broker.mark()
            copy.is_sent = queue.was_careless and not self.is_certain
            if (
                copy.vague
                or queue.was_careless
                or "x-semantics" in queue.arguments
                or copy.message.refused
                or self.is_back(copy)
            ):
                continue
            if not copy.message.promised and (self.restarted or broker.was_full or queue.rejects):
                continue  # it never was there
            copy.died = True
            promise = "which was confirmed" if copy.message.promised else "which nobody has taken"
            # Delayed messages that had no room come at any time, and take the place of others.
            is_loose = model.is_tight and queue.number_of("x-max-length") < NEVER
            is_right = is_loose or queue.may_go(copy, model.now_us)
            check(is_right, f"{queue} has lost message {number}, {promise}")
            if self.restarted and queue.is_replaced(copy):
                is_right = queue.is_replaced(copy, model.now_us)
                check(is_right, f"{queue} has lost message {number}, {promise}, for a later one that is not there")

    def is_back(self, copy: Copy) -> bool:
        """Whether a crash has undone that a message died."""
        if copy.source is None or copy.source not in self.present or not self.restarted:
            return False
        before = copy.source.copies.get(copy.message.number)
        return before is not None and before.found

    def check_delayed(self) -> None:
        """After a restart a message is where it went, or still waits."""
        model = self.model
        for number, each in list(model.delayed.items()):
            if each.left is None:
                each.vague = each.vague or not each.message.promised
                continue
            queues = [queue for queue in model.known.values() if number in queue.copies]
            copies = [queue.copies[number] for queue in queues]
            is_there = any(copy.found or (copy.settled and copy.mark <= self.durable) for copy in copies)
            if each.left.mark <= self.durable or is_there:
                del model.delayed[number]
            else:
                each.left = None
                # It may never have been there; and what went from its queues as well, in frames that the crash may
                # have spared, may be over.
                has_left = not any(queue.must_have(number, model.now_us) for queue in queues)
                each.vague = each.vague or not each.message.promised or has_left
                model.undone(number)
                for copy in copies:
                    copy.vague = True

    def check_dead(self) -> None:
        """A dead letter is in exactly one of the two queues."""
        model = self.model
        for queue in self.present:
            target = model.dead(queue)
            if target is None:
                continue
            for number, copy in queue.copies.items():
                there = target.copies.get(number)
                is_there = there is not None and (there.found or there.settled)
                is_both = there is not None and (there.found or (there.settled and there.mark <= self.durable))
                check(not (copy.found and is_both), f"message {number} is in {queue} and, dead, in {target}")
                if copy.died and not copy.found and (copy.message.promised or not self.restarted):
                    check(is_there or target.was_careless, f"message {number} has died in {queue}, and is nowhere")

    def check_transactions(self) -> None:
        """Of a transaction that was not answered everything is there, or nothing."""
        there: dict[int, set[bool]] = {}
        for queue in self.present:
            for copy in queue.copies.values():
                if copy.message.transaction and not copy.settled and not copy.died:
                    there.setdefault(copy.message.transaction, set()).add(copy.found)
        for transaction, states in there.items():
            check(len(states) == 1, f"of transaction {transaction} a part is there, and a part is not")

    def resolve(self, queue: Queue) -> None:
        """All that was found is certain, and all else is gone."""
        model, restarted = self.model, self.restarted
        durable = self.broker.durable()
        gone: list[int] = []
        for copy in queue.copies.values():
            if copy.found:
                if restarted or not copy.died:  # else it waits until there is room where it goes
                    copy.settled = copy.died = copy.is_sent = False
                copy.vague = copy.vague and not self.is_certain
                copy.source = None if self.is_certain else copy.source
                copy.message.promised = copy.message.promised or self.is_certain
                copy.message.taken = model.life
            elif copy.mark > durable and not restarted:
                copy.died = False  # a crash may undo it
            else:
                gone.append(copy.message.number)
        for number in gone:
            copy = queue.copies.pop(number)
            if queue.has_keys and copy.message.promised:
                key = key_of(copy.message)
                queue.replaced_below[key] = max(queue.replaced_below.get(key, 0), copy.place)
        queue.was_careless = queue.careless > 0
        queue.governed.clear()
        if queue.name == GOVERNED:
            model.govern(queue)
        if queue.is_stream:
            queue.came = self.ends[queue]
            for copy in queue.copies.values():
                if copy.found:
                    copy.place = copy.at
