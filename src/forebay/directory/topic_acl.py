"""The topics that a client may publish and subscribe to, by whatever protocol: rules as in mosquitto's `acl_file`.

    topic [read|write|readwrite|deny] FILTER     of clients without a user name, before the first `user` line
    user NAME
    topic [read|write|readwrite|deny] FILTER     of this user
    pattern [read|write|readwrite|deny] FILTER   of everybody

In a pattern %u or ${username} stands for the user, %c or ${clientid} for the client of MQTT. Whatever no rule allows is
refused. A client's own rules are looked at before patterns, and what denies before what allows. A subscription is
allowed if one rule allows all that it asks for, and refused if it asks for anything denied.
"""

from __future__ import annotations

from typing import Final

from forebay.core.errors import INVALID, RequestError

READ: Final = "read"
WRITE: Final = "write"
DENY: Final = "deny"
BOTH: Final = "readwrite"
ACCESS: Final = (READ, WRITE, BOTH, DENY)
LINES_MAX: Final = 100_000
UNFIT: Final = ("+", "#", "/")  # in a name that is put into a pattern, these would mean more than the name

Levels = list[str]


class Rule:
    """One line; `access` is one of ACCESS."""

    def __init__(self, access: str, levels: Levels) -> None:
        self.access = access
        self.levels = levels


class AclBook:
    """All rules; `version` grows with each `load`, so that clients take up the new ones."""

    def __init__(self) -> None:
        self.version = 0
        self.is_used = False
        self.anonymous: list[Rule] = []
        self.users: dict[str, list[Rule]] = {}
        self.patterns: list[Rule] = []

    def load(self, text: str) -> None:
        """Take rules in place of those there are; RequestError(INVALID) names the line, and nothing has changed."""
        anonymous: list[Rule] = []
        users: dict[str, list[Rule]] = {}
        patterns: list[Rule] = []
        own = anonymous
        lines = text.splitlines()
        if len(lines) > LINES_MAX:
            raise RequestError(INVALID, f"more than {LINES_MAX} lines")
        for number, raw in enumerate(lines, 1):
            word, _, rest = raw.strip().partition(" ")
            rest = rest.strip()
            if not word or word.startswith("#"):
                continue
            if word == "user" and rest:
                own = users.setdefault(rest, [])
            elif word == "topic":
                own.append(parse_rule(rest, number))
            elif word == "pattern":
                patterns.append(parse_rule(rest, number))
            else:
                raise RequestError(INVALID, f"line {number}: {raw.strip()[:80]!r} is no rule")
        self.anonymous = anonymous
        self.users = users
        self.patterns = patterns
        self.version += 1
        self.is_used = True

    def rules_of(self, user: str, client_id: str, is_anonymous: bool) -> tuple[list[Rule], list[Rule]]:
        """Return a client's own rules, and the pattern rules with its names filled in."""
        own = self.anonymous if is_anonymous else self.users.get(user, [])
        names = {"%u": user, "${username}": user, "%c": client_id, "${clientid}": client_id}
        return own, [filled for filled in (fill(rule, names) for rule in self.patterns) if filled is not None]


class ClientAcl:
    """The rules for one client."""

    def __init__(self, book: AclBook, user: str, client_id: str, is_anonymous: bool) -> None:
        self.book = book
        self.user = user
        self.client_id = client_id
        self.is_anonymous = is_anonymous
        self.version = -1
        self.own: list[Rule] = []
        self.patterns: list[Rule] = []

    def refresh(self) -> None:
        if self.version != self.book.version:
            self.version = self.book.version
            self.own, self.patterns = self.book.rules_of(self.user, self.client_id, self.is_anonymous)

    def may_publish(self, topic: str) -> bool:
        """Return whether a rule lets the client publish on the topic."""
        return self.decide(WRITE, topic.split("/"))

    def decide(self, access: str, asked: Levels, otherwise: bool = False) -> bool:
        """Return whether the rules allow this access, or `otherwise` if no rule applies."""
        self.refresh()
        for rules in (self.own, self.patterns):
            if any(rule.access == DENY and overlaps(rule.levels, asked) for rule in rules):
                return False
            if any(rule.access in {access, BOTH} and covers(rule.levels, asked) for rule in rules):
                return True
        return otherwise


def parse_rule(rest: str, number: int) -> Rule:
    """Parse the rule that follows the word `topic` or `pattern` in a line."""
    access, _, filter = rest.partition(" ")
    if access not in ACCESS or not filter:
        access, filter = BOTH, rest
    levels = filter.strip().split("/")
    wrong = not filter.strip() or any(len(each) > 1 and ("+" in each or "#" in each) for each in levels)
    if wrong or "#" in levels[:-1]:
        raise RequestError(INVALID, f"line {number}: {filter[:80]!r} is no topic filter")
    return Rule(access, levels)


def fill(rule: Rule, names: dict[str, str]) -> Rule | None:
    """The rule with the names in it; None where a name does not fit into one level of a topic.

    What a rule denies it denies all the same: to who has no such name whatever the name, and everything to who has one
    that is made to mean more.
    """
    levels: Levels = []
    for level in rule.levels:
        filled = level
        for mark, name in names.items():
            if mark in filled:
                if not name and rule.access == DENY:
                    filled = "+"
                    break
                if not name or any(each in name for each in UNFIT):
                    return None if rule.access != DENY else Rule(DENY, ["#"])
                filled = filled.replace(mark, name)
        levels.append(filled)
    return Rule(rule.access, levels)


def covers(allowed: Levels, asked: Levels) -> bool:
    """Return whether `allowed` matches every topic that `asked` matches."""
    if is_hidden(asked[0]) and allowed[0] in {"+", "#"}:
        return False
    for at, level in enumerate(allowed):
        if level == "#":
            return True
        if at >= len(asked) or asked[at] == "#":
            return False
        if level != "+" and level != asked[at]:
            return False
    return len(asked) == len(allowed)


def overlaps(one: Levels, other: Levels) -> bool:
    """Return whether a topic exists that both filters match."""
    if (is_hidden(one[0]) and other[0] in {"+", "#"}) or (is_hidden(other[0]) and one[0] in {"+", "#"}):
        return False
    for at in range(max(len(one), len(other))):
        first = one[at] if at < len(one) else ""
        second = other[at] if at < len(other) else ""
        if (at < len(one) and first == "#") or (at < len(other) and second == "#"):
            return True
        if at >= len(one) or at >= len(other):
            return False
        if "+" not in {first, second} and first != second:
            return False
    return True


def is_hidden(level: str) -> bool:
    """Return whether wildcards at the start of a filter skip topics that begin with this level [MQTT-4.7.2-1]."""
    return level.startswith("$")
