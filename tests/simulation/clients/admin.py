"""An administrator by octets, over the block protocol: users, permissions and policies come, change and go."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Final

import msgspec

from tests.simulation.clients.client import Client, Effect
from tests.simulation.kinds import GOVERNED, GROUPED, GROUPS
from tests.simulation.model.facts import Change, Facts
from tests.simulation.model.groups import FIRST, NEXT, Group
from tests.simulation.model.passwords import PASSWORDS, hash_of
from tests.simulation.model.promises import Settlement, check
from tests.simulation.model.vhosts import NAMES as VHOSTS
from tests.simulation.model.vhosts import Vhosts

PREFACE: Final = b"FBLK\x02\0\0\0"
REQUEST, REPLY, ERROR = 1, 2, 3
HEAD_OCTETS: Final = 8
NAMES: Final = ("ana", "bo", "cy")
TAGS: Final[tuple[list[str], ...]] = ([], ["monitoring"], ["management", "policymaker"])
PATTERNS: Final = ("", "^a", ".*")
POLICIES: Final = ("first", "second")
DEFINITIONS: Final[tuple[dict[str, object], ...]] = (
    {"max-length": 5},
    {"message-ttl": 4000},
    {"max-length": 9, "message-ttl": 9000},
    {"delivery-limit": 3},
)


UserValue = tuple[list[str], str]  # tags, and the hash of the password


def asked(fields: dict[str, object]) -> bytes:
    """The frame of a request."""
    payload = msgspec.json.encode(fields)
    return len(payload).to_bytes(4, "little") + bytes([REQUEST, 0, 0, 0]) + payload


@dataclass(eq=False)
class Expected:
    """An answer that has to come, the changes that it promises, and what else comes of it.

    is_of_group  a group of a work queue is asked of
    """

    is_error: bool = False
    is_of_group: bool = False
    changes: list[Change] = field(default_factory=list)
    then: Effect | None = None


class BlocksClient(Client):
    """A client over the block protocol."""

    def begin(self) -> None:
        super().begin()
        self.greeted = False

    def take(self, data: bytes) -> int:
        at = 0
        if not self.greeted:
            if len(data) < len(PREFACE):
                return 0
            self.greeted = True
            at = len(PREFACE)
        while at + HEAD_OCTETS <= len(data):
            end = at + HEAD_OCTETS + int.from_bytes(data[at : at + 4], "little")
            if end > len(data):
                break
            self.answered(data[at + 4], data[at + HEAD_OCTETS : end])
            at = end
        return at

    @abstractmethod
    def answered(self, kind: int, payload: bytes) -> None:
        """A frame has come."""


class Administrator(BlocksClient):
    """One administrator, with one connection at a time.

    expected  in the order of the requests
    catch_up  has all clients take what has been sent to them
    """

    def __init__(self, name: str, vhosts: Vhosts, catch_up: Effect) -> None:
        self.vhosts = vhosts
        self.catch_up = catch_up
        super().__init__(name, vhosts.default)

    def begin(self) -> None:
        super().begin()
        self.is_in = False  # logged in
        self.expected: deque[Expected] = deque()

    def open(self, chance: Random) -> None:
        self.send(PREFACE)
        self.request({"op": "auth", "user": "guest", "password": "guest"})

    def request(self, fields: dict[str, object]) -> Expected:
        """Send a request; what is expected of its answer is filled in when the broker has taken it in."""
        expected = Expected()
        self.expected.append(expected)
        self.send(asked(fields))
        return expected

    def ask(self, do: str, facts: Facts, name: str, value: object, needs: bool | None, **given: object) -> None:
        """Ask for a change that makes this the value of a name. needs: it has to have one already, or none."""
        expected = self.request({"op": "control", "do": do, **given})
        self.effects.append((self.sent, partial(self.done, expected, facts, name, value, needs)))

    def done(self, expected: Expected, facts: Facts, name: str, value: object, needs: bool | None) -> None:
        there = facts.value(name) is not None
        if needs is not None and there != needs:
            expected.is_error = True
        else:
            expected.changes = [facts.change(name, value, self.model.doubts), *self.model.changed(facts, name, value)]

    # ---- what it does

    def act(self, chance: Random) -> str:
        return chance.choices(ACTIONS, WEIGHTS)[0](self, chance)

    def set_user(self, chance: Random) -> str:
        name, tags, hash = chance.choice(NAMES), chance.choice(TAGS), hash_of(chance.choice(PASSWORDS))
        users = self.model.users
        what = chance.random()
        if what < 0.5:
            self.ask("user.add", users, name, (tags, hash), False, user=name, password=hash, tags=tags)
            return f"adds user {name} with {tags}"
        if what < 0.75:
            self.change_user("user.password", name, lambda old: (old[0], hash), password=hash)
            return f"gives user {name} another password"
        self.change_user("user.tags", name, lambda old: (tags, old[1]), tags=tags)
        return f"gives user {name} the tags {tags}"

    def change_user(self, do: str, name: str, change: Callable[[UserValue], UserValue], **given: object) -> None:
        """Change a part of what is kept of a user, which has to be there."""
        users = self.model.users
        expected = self.request({"op": "control", "do": do, "user": name, **given})

        def done() -> None:
            old = users.value(name)
            if isinstance(old, tuple):
                expected.changes = [users.change(name, change(old), self.model.doubts or not users.is_sure(name))]
            else:
                expected.is_error = True

        self.effects.append((self.sent, done))

    def delete_user(self, chance: Random) -> str:
        name = chance.choice(NAMES)
        self.ask("user.delete", self.model.users, name, None, True, user=name)
        return f"deletes user {name}"

    def set_permission(self, chance: Random) -> str:
        name = chance.choice(NAMES)
        given = {each: chance.choice(PATTERNS) for each in ("configure", "write", "read")}
        expected = self.request({"op": "control", "do": "permission.set", "vhost": "/", "user": name, **given})
        self.effects.append((self.sent, partial(self.permitted, expected, name, given)))
        return f"permits {name} {given}"

    def clear_permission(self, chance: Random) -> str:
        name = chance.choice(NAMES)
        expected = self.request({"op": "control", "do": "permission.clear", "vhost": "/", "user": name})
        self.effects.append((self.sent, partial(self.permitted, expected, name, None)))
        return f"permits {name} nothing"

    def permitted(self, expected: Expected, name: str, given: object) -> None:
        if self.model.users.value(name) is None:
            expected.is_error = True
        else:
            expected.changes = [self.model.permissions.change(name, given, self.model.doubts)]

    def set_policy(self, chance: Random) -> str:
        name, definition = chance.choice(POLICIES), chance.choice(DEFINITIONS)
        value = (definition, chance.choice((0, 1)))
        given: dict[str, object] = {"policy": name, "pattern": f"^{GOVERNED}$", "definition": definition}
        self.ask("policy.set", self.model.policies, name, value, None, vhost="/", priority=value[1], **given)
        return f"sets policy {name} to {value}"

    def clear_policy(self, chance: Random) -> str:
        name = chance.choice(POLICIES)
        self.ask("policy.clear", self.model.policies, name, None, True, vhost="/", policy=name)
        return f"clears policy {name}"

    def make_vhost(self, chance: Random) -> str:
        name = chance.choice(VHOSTS)
        return self.set_vhost(name, True)

    def delete_vhost(self, chance: Random) -> str:
        name = chance.choice(VHOSTS)
        if any(each.is_of_group for each in self.expected):  # whose queue has to be there when that is followed
            return "waits for an answer"
        return self.set_vhost(name, False)

    def set_vhost(self, name: str, there: bool) -> str:
        if not self.is_in:  # else nobody knows whether it is heeded
            return "waits to be let in"
        expected = self.request({"op": "control", "do": "vhost.add" if there else "vhost.delete", "vhost": name})

        def done() -> None:
            model = self.vhosts.find(name)
            if (model is not None) == there:
                expected.is_error = True
            elif model is None:
                made = self.vhosts.made(name)
                expected.then = lambda: setattr(made, "promised", True)
            else:
                self.vhosts.deleted(model)
                expected.then = lambda: setattr(model, "ended", model.ending)

        self.effects.append((self.sent, done))
        return f"{'makes' if there else 'deletes'} vhost {name}"

    def move_group(self, chance: Random) -> str:
        to = chance.choice((FIRST, FIRST, NEXT, str(chance.randint(0, 20))))

        def done(group: Group, expected: Expected) -> None:
            if to.isdigit() and int(to) > group.of.broker.end(group.of.queue.id):
                expected.is_error = True
                return
            self.catch_up()
            moved: Settlement = group.of.move(group, to)
            settled = [copy for copy in group.copies.values() if copy.settled]

            def then() -> None:
                for each in (moved, *settled):
                    each.mark = 0

            expected.then = then

        return self.ask_of_group(chance, "group.seek", done, to=to) + f" to {to}"

    def delete_group(self, chance: Random) -> str:
        def done(group: Group, expected: Expected) -> None:
            group.of.deleted(group.group)
            expected.then = lambda: setattr(group, "ended", group.ending)

        return self.ask_of_group(chance, "group.delete", done, if_unused=False)

    def ask_of_group(self, chance: Random, do: str, done: Callable[[Group, Expected], None], **given: object) -> str:
        if not self.is_in:
            return "waits to be let in"
        models = self.vhosts.there()
        there = [(model.name, name) for model in models for name in model.group_names()]
        # As a rule one that is there.
        some = there if there and chance.random() < 0.9 else [(model.name, name) for model in models for name in GROUPS]
        vhost, name = chance.choice(some)
        request = {"op": "control", "do": do, "vhost": vhost, "queue": GROUPED, "group": name, **given}
        expected = self.request(request)
        expected.is_of_group = True

        def taken_in() -> None:
            model = self.vhosts.find(vhost)
            groups = None if model is None else model.groups_there()
            group = None if groups is None else groups.by_name.get(name)
            if group is None:
                expected.is_error = True
            else:
                done(group, expected)

        self.effects.append((self.sent, taken_in))
        return f"{do} {name} of {vhost}"

    # ---- what it is told

    def answered(self, kind: int, payload: bytes) -> None:
        self.is_in = True
        expected = self.expected.popleft()
        check(kind == (ERROR if expected.is_error else REPLY), f"{self.name} was told {payload!r}")
        for change in expected.changes:
            change.promised = not change.vague
        if expected.then is not None:
            expected.then()

    def ended(self) -> None:
        check(not self.is_in, f"{self.name}: the broker ended the connection")  # else it may be for too long

    def gone(self) -> None:
        """Nothing of an administrator's is held."""


ACTIONS: Final = (
    Administrator.set_user,
    Administrator.delete_user,
    Administrator.set_permission,
    Administrator.clear_permission,
    Administrator.set_policy,
    Administrator.clear_policy,
    Administrator.make_vhost,
    Administrator.delete_vhost,
    Administrator.move_group,
    Administrator.delete_group,
)
WEIGHTS: Final = (30, 12, 20, 8, 20, 10, 25, 8, 20, 8)
