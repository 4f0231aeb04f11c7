"""Policies: what administrators set for queues and exchanges by their names, after the declaration and against it.

Of those that match a queue or exchange one policy applies, the one with the highest priority, and beside it one of the
operators' policies, which only limit. How they go together with arguments: `limits_of` in queue/declaration/limits.py.
"""

from __future__ import annotations

from typing import Final

import msgspec
from mypy_extensions import i64

from forebay.core.errors import INVALID, NOT_FOUND, RequestError
from forebay.core.option_names import QUORUM_TYPE, STREAM_TYPE
from forebay.core.reading.nearest import hint
from forebay.directory.permissions import compiled
from forebay.filter.pattern import NAME_PROGRAM_MAX, Pattern
from forebay.filter.program import BadPattern
from forebay.message.address import DEAD_LETTER_PREFIX, NAME_OCTETS_MAX
from forebay.queue.declaration.arguments import BY_KEY, NOBODY, OPERATOR
from forebay.queue.declaration.limits import limits_of
from forebay.queue.queue import SHARE, Queue
from forebay.routing.exchange import Exchange, alternate_of, text

ALL: Final = "all"
QUEUES: Final = "queues"
CLASSIC_QUEUES: Final = "classic_queues"
QUORUM_QUEUES: Final = "quorum_queues"
STREAMS: Final = "streams"
EXCHANGES: Final = "exchanges"
APPLY_TO: Final = (ALL, QUEUES, CLASSIC_QUEUES, QUORUM_QUEUES, STREAMS, EXCHANGES)
PATTERN_OCTETS_MAX: Final = 1024
PRIORITY_LIMIT: Final = 1 << 31
SHOWN_MAX: Final = 80


class Policy(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One policy; made by `check_policy`.

    pattern     a regular expression, as filters have them, that is found in the name of a queue or exchange
    definition  keys of `forebay.queue.declaration.arguments.SETTINGS`, checked
    operator    an operator's
    """

    name: str
    operator: bool
    pattern: str
    apply_to: str
    definition: dict[str, object]
    priority: int

    def covers(self, name: bytes, target: str) -> bool:
        """True if it is about the queue or exchange; `target` is one of APPLY_TO."""
        if self.apply_to not in {ALL, target} and (self.apply_to != QUEUES or target == EXCHANGES):
            return False
        found = compiled(self.pattern)
        return found is not None and found.find(text(name)) is True

    def called(self) -> str:
        """The policy as errors name it."""
        return f"{kind_name(self.operator)} '{self.name}'"

    def fields(self) -> dict[str, object]:
        """The fields by name."""
        return msgspec.structs.asdict(self)


class Policies:
    """The policies of one vhost, users' and operators', by name."""

    def __init__(self) -> None:
        self.by_user: dict[str, Policy] = {}
        self.by_operator: dict[str, Policy] = {}

    def table_of(self, operator: bool) -> dict[str, Policy]:
        """The operators' by name, or the users'."""
        return self.by_operator if operator else self.by_user

    def listed(self, operator: bool) -> list[Policy]:
        """The policies, by name."""
        own = self.table_of(operator)
        return [own[name] for name in sorted(own)]

    def listed_all(self) -> list[Policy]:
        """The users', then the operators'."""
        return self.listed(False) + self.listed(True)

    def find(self, name: str, operator: bool) -> Policy:
        """RequestError(NOT_FOUND) where there is none of the name."""
        policy = self.table_of(operator).get(name)
        if policy is None:
            raise RequestError(NOT_FOUND, f"no {kind_name(operator)} '{name}'")
        return policy

    def match(self, name: bytes, target: str, operator: bool) -> Policy | None:
        """The one that applies: of the highest priority, and of several such the first by name."""
        best: Policy | None = None
        for policy in self.table_of(operator).values():
            rank = (-policy.priority, policy.name)
            if policy.covers(name, target) and (best is None or rank < (-best.priority, best.name)):
                best = policy
        return best

    def of_queue(self, queue: Queue, operator: bool) -> Policy | None:
        """The one that applies to a queue; what MQTT subscriptions share has no name that anybody chose."""
        return None if queue.kind == SHARE else self.match(queue.name, target_of(queue), operator)

    def of_exchange(self, exchange: Exchange) -> Policy | None:
        """The one that applies to an exchange; operators set nothing for these."""
        return self.match(exchange.name, EXCHANGES, False) if exchange.name else None

    def govern_queue(self, queue: Queue, delivery_limit: i64) -> None:
        """Put in force for the queue what applies to it now."""
        user = self.of_queue(queue, False)
        operator = self.of_queue(queue, True)
        of_user = {} if user is None else user.definition
        of_operator = {} if operator is None else operator.definition
        has_own = not queue.name.startswith(DEAD_LETTER_PREFIX)  # what dies there has nowhere to go
        name = DEAD_LETTER_PREFIX + queue.name if has_own else b""
        queue.limits.become(limits_of(queue.spec, of_user, of_operator, delivery_limit, name))
        for group in queue.groups.values():
            group.choose_fairness()

    def govern_exchange(self, exchange: Exchange) -> None:
        """Give the exchange the alternate that applies to it now: the argument's, or the policy's."""
        exchange.alternate = alternate_of(exchange.arguments)
        policy = self.of_exchange(exchange)
        if exchange.alternate is None and policy is not None and "alternate-exchange" in policy.definition:
            exchange.alternate = str(policy.definition["alternate-exchange"]).encode()


def check_policy(
    name: str, operator: bool, pattern: object, apply_to: object, definition: object, priority: object
) -> Policy:
    """A policy of these values; RequestError(INVALID) names the field and the value."""
    if not 0 < octets_of(name) <= NAME_OCTETS_MAX:
        raise RequestError(
            INVALID, f"{kind_name(operator)}: name: {shown(name)} is no text of 1 to {NAME_OCTETS_MAX} octets"
        )
    who = f"{kind_name(operator)} '{name}'"
    if not 0 <= octets_of(pattern) <= PATTERN_OCTETS_MAX:
        raise RequestError(
            INVALID, f"{who}: pattern: {shown(pattern)} is no text of at most {PATTERN_OCTETS_MAX} octets"
        )
    assert isinstance(pattern, str)
    try:
        Pattern(pattern, NAME_PROGRAM_MAX)
    except BadPattern as error:
        raise RequestError(INVALID, f"{who}: pattern: {shown(pattern)} is no regular expression: {error}") from None
    if not isinstance(apply_to, str) or apply_to not in APPLY_TO:
        raise RequestError(INVALID, f"{who}: apply-to: {shown(apply_to)} is none of {', '.join(APPLY_TO)}")
    if isinstance(priority, bool) or not isinstance(priority, int) or not -PRIORITY_LIMIT <= priority < PRIORITY_LIMIT:
        raise RequestError(INVALID, f"{who}: priority: {shown(priority)} is not a whole number of 32 bits")
    if not isinstance(definition, dict) or not definition:
        raise RequestError(INVALID, f"{who}: definition: {shown(definition)} is not a table with at least one key")
    for key, value in definition.items():
        check_definition(who, operator, key, value)
    return Policy(name, operator, pattern, apply_to, dict(definition), priority)


def check_definition(who: str, operator: bool, key: object, value: object) -> None:
    """RequestError(INVALID) unless such a policy may set the key to the value."""
    setting = BY_KEY.get(key) if isinstance(key, str) else None
    if setting is None or setting.policy == NOBODY or (operator and setting.policy != OPERATOR):
        allowed = OPERATOR if operator else NOBODY + 1
        known = [each.key for each in BY_KEY.values() if each.policy >= allowed]
        raise RequestError(
            INVALID, f"{who}: {shown(key)} (value {shown(value)}) is not recognised; {hint(str(key), known)}"
        )
    if setting.fault(value) or (isinstance(value, str) and octets_of(value) < 0):
        raise RequestError(INVALID, f"{who}: {key}: {shown(value)} is not a valid {setting.noun}")


def octets_of(value: object) -> int:
    """The length of a text as UTF-8; -1 for what is no such text."""
    if not isinstance(value, str):
        return -1
    try:
        return len(value.encode())
    except UnicodeEncodeError:
        return -1


def target_of(queue: Queue) -> str:
    """The word of APPLY_TO for the queue's type."""
    if queue.spec.type == STREAM_TYPE:
        return STREAMS
    return QUORUM_QUEUES if queue.spec.type == QUORUM_TYPE else CLASSIC_QUEUES


def kind_name(operator: bool) -> str:
    """Return the words for a policy, or an operator's."""
    return "operator policy" if operator else "policy"


def shown(value: object) -> str:
    whole_text = repr(value)
    return whole_text if len(whole_text) <= SHOWN_MAX else f"{whole_text[: SHOWN_MAX - 3]}..."
