"""Regular expressions whose cost no text can blow up: what LIKE matches with.

Python's own engine tries one way after the other and may take years for a pattern such as `(a+)+$`. Here a pattern
becomes a program of few instructions, and all ways through it are followed at once, a character at a time (Thompson's
construction). Sets of places in the program that were met before are remembered together with where each character
leads from them, so that most characters cost one look into a table.

Taken are literals, `.`, classes `[a-z]` `[^a-z]`, `\\d \\w \\s` and their opposites, `^` and `$`, groups `( )` and
`(?: )`, `|`, and `* + ? {m} {m,} {m,n}`, which may have a `?` behind them that changes nothing here. `(?i)` at the
start leaves the case of letters aside. A pattern is looked for anywhere in the text.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

PROGRAM_MAX: Final = 500  # instructions
TEXT_CHARACTERS_MAX: Final = 1 << 16  # that `find` may be given
WORK_MAX: Final = 100_000  # points of the program that one `find` looks at, where it cannot go by what it remembers
PLACES_MAX: Final = 256  # sets that are remembered before all are forgotten
DEPTH_MAX: Final = 32
REPEATS_MAX: Final = 255
DIGITS: Final = "0123456789"

# Instructions. FORK and JUMP go on to `to` (FORK also to `other`); the others look at a character or at the place.
SET: Final = 1
FORK: Final = 2
JUMP: Final = 3
START: Final = 4
END: Final = 5
MATCH: Final = 6


class BadPattern(ValueError):
    """No regular expression of this kind; says where and why."""


@final
class CharacterSet:
    """Characters by ranges; `negated` means all others."""

    def __init__(self, ranges: list[tuple[str, str]], classes: str, negated: bool) -> None:
        self.ranges = ranges
        self.classes = classes
        self.negated = negated

    def has(self, character: str) -> bool:
        for first, last in self.ranges:
            if first <= character <= last:
                return not self.negated
        for name in self.classes:
            if in_class(name, character):
                return not self.negated
        return self.negated


@final
class Instruction:
    """One step of a program."""

    def __init__(self, op: i64, to: i64, other: i64, characters: CharacterSet | None) -> None:
        self.op: i64 = op
        self.to: i64 = to
        self.other: i64 = other
        self.characters = characters


@final
class Place:
    """A set of places in the program between two characters.

    leads    where each character goes from here, as far as it was met
    matched  the pattern has matched already
    at_end   the pattern matches if the text ends here
    """

    def __init__(self, points: list[int], matched: bool, at_end: bool) -> None:
        self.points = points
        self.matched = matched
        self.at_end = at_end
        self.leads: dict[str, Place] = {}


def in_class(name: str, character: str) -> bool:
    """Whether a character is of the class `\\<name>`."""
    lower = name.lower()
    if lower == "d":
        found = character.isdecimal()
    elif lower == "s":
        found = character.isspace()
    else:
        found = character.isalnum() or character == "_"
    return found == (name == lower)


@final
class Pattern:
    """A compiled pattern; `find` may be called any number of times."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.folded = source.startswith("(?i)")
        self.program = Compiler(source, 4 if self.folded else 0, self.folded).program
        self.places: dict[str, Place] = {}
        self.work: i64 = 0  # points of the program looked at by the last `find`
        self.first = self.place([0], True)

    def find(self, text: str) -> bool | None:
        """Whether the pattern matches anywhere in the text; None where finding out takes more than WORK_MAX."""
        if self.folded:
            text = text.lower()
        here = self.first
        self.work = 0
        for character in text:
            if here.matched:
                return True
            there = here.leads.get(character)
            if there is None:
                if self.work > WORK_MAX:
                    return None
                there = self.step(here, character)
            here = there
        return here.matched or here.at_end

    def step(self, here: Place, character: str) -> Place:
        self.work += len(here.points)
        following: list[int] = [0]  # the match may begin at the next character too
        for point in here.points:
            instruction = self.program[point]
            if instruction.characters is not None and instruction.characters.has(character):
                following.append(int(instruction.to))
        there = self.place(following, False)
        if len(here.leads) < PLACES_MAX:
            here.leads[character] = there
        return there

    def place(self, points: list[int], start: bool) -> Place:
        """The set of places that is reached from these without a character."""
        seen = [False] * len(self.program)
        reached = self.closure(points, start, False, seen)
        key = ",".join([str(point) for point in reached])
        known = self.places.get(key)
        if known is not None and not start:
            return known
        matched = self.matches_in(reached)
        ends = self.closure(reached, start, True, [False] * len(self.program))
        place = Place(reached, matched, self.matches_in(ends))
        if not start:
            if len(self.places) >= PLACES_MAX:
                # What was remembered hangs together by `leads`: it goes as a whole.
                self.places.clear()
                self.first.leads.clear()
            self.places[key] = place
        return place

    def matches_in(self, points: list[int]) -> bool:
        for point in points:  # noqa: SIM110  any() takes a generator, which the compiled dialect does without
            if self.program[point].op == MATCH:
                return True
        return False

    def closure(self, points: list[int], start: bool, end: bool, seen: list[bool]) -> list[int]:
        """All points that look at a character, wait for the end, or match, and are reached from these; sorted."""
        found: list[int] = []
        todo = list(points)
        while todo:
            point = todo.pop()
            if seen[point]:
                continue
            seen[point] = True
            instruction = self.program[point]
            op = instruction.op
            if op in (SET, MATCH) or (op == END and not end):
                found.append(point)
            elif op == FORK:
                todo.append(int(instruction.to))
                todo.append(int(instruction.other))
            elif op == JUMP or (op == START and start) or (op == END and end):
                todo.append(int(instruction.to))
        found.sort()
        return found


@final
class Compiler:
    """Makes a program of a pattern, by recursive descent; BadPattern where it is none."""

    def __init__(self, source: str, at: i64, folded: bool) -> None:
        self.source = source
        self.at: i64 = at
        self.folded = folded
        self.depth: i64 = 0
        self.program: list[Instruction] = []
        self.alternatives()
        if self.at < len(source):
            raise BadPattern(f"character {self.at + 1}: ')' without '('")
        self.add(MATCH, 0, 0, None)

    def fail(self, text: str) -> None:
        raise BadPattern(f"character {self.at + 1}: {text}")

    def peek(self) -> str:
        return self.source[self.at] if self.at < len(self.source) else ""

    def add(self, op: i64, to: i64, other: i64, characters: CharacterSet | None) -> i64:
        """Append an instruction; its number."""
        number: i64 = len(self.program)
        if number >= PROGRAM_MAX:
            self.fail(f"a pattern of more than {PROGRAM_MAX} steps")
        self.program.append(Instruction(op, to, other, characters))
        return number

    def alternatives(self) -> None:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            self.fail(f"more than {DEPTH_MAX} groups within each other")
        start: i64 = len(self.program)
        jumps: list[int] = []
        self.sequence()
        while self.peek() == "|":
            self.at += 1
            self.insert_fork(start)
            jumps.append(int(self.add(JUMP, 0, 0, None)))
            start = len(self.program)
            self.program[jumps[-1]].to = start
            self.point_fork(start)
            self.sequence()
        end: i64 = len(self.program)
        for jump in jumps:
            self.program[jump].to = end
        self.depth -= 1

    def insert_fork(self, at: i64) -> None:
        """Put a FORK before the instructions from `at` on; its second way is still open (-1)."""
        if len(self.program) >= PROGRAM_MAX:
            self.fail(f"a pattern of more than {PROGRAM_MAX} steps")
        for instruction in self.program[at:]:
            if instruction.to >= at:
                instruction.to += 1
            if instruction.other >= at:
                instruction.other += 1
        self.program.insert(int(at), Instruction(FORK, at + 1, -1, None))

    def point_fork(self, to: i64) -> None:
        """Close the FORK that is open."""
        for instruction in self.program:
            if instruction.op == FORK and instruction.other == -1:
                instruction.other = to

    def sequence(self) -> None:
        while self.peek() not in ("", "|", ")"):
            start: i64 = len(self.program)
            self.atom()
            self.repeat(start)

    def atom(self) -> None:
        character = self.peek()
        self.at += 1
        if character == "(":
            self.group()
        elif character == "[":
            self.add_set(self.character_class())
        elif character == ".":
            self.add_set(CharacterSet([], "", True))
        elif character == "^":
            self.add(START, len(self.program) + 1, 0, None)
        elif character == "$":
            self.add(END, len(self.program) + 1, 0, None)
        elif character in "*+?":
            self.at -= 1
            self.fail(f"'{character}' repeats nothing")
        elif character == "\\":
            self.add_set(self.escaped())
        else:
            self.add_set(CharacterSet([self.single(character)], "", False))

    def add_set(self, characters: CharacterSet) -> None:
        self.add(SET, len(self.program) + 1, 0, characters)

    def single(self, character: str) -> tuple[str, str]:
        folded = character.lower() if self.folded else character
        return (folded, folded) if len(folded) == 1 else (character, character)

    def group(self) -> None:
        if self.peek() == "?":
            if self.source[self.at : self.at + 2] != "?:":
                self.fail("of the groups with '?' there is only '(?:'; '(?i)' stands at the start")
            self.at += 2
        self.alternatives()
        if self.peek() != ")":
            self.fail("a group without its ')'")
        self.at += 1

    def escaped(self) -> CharacterSet:
        """What stands behind a backslash."""
        character = self.peek()
        if not character:
            self.fail("a backslash at the end")
        self.at += 1
        if character in "dDwWsS":
            return CharacterSet([], character, False)
        return CharacterSet([self.single(plain_escape(character, self.at))], "", False)

    def character_class(self) -> CharacterSet:
        """The class whose '[' was just read."""
        ranges: list[tuple[str, str]] = []
        classes = ""
        negated = self.peek() == "^"
        if negated:
            self.at += 1
        begun = self.at
        while self.peek() != "]" or self.at == begun:
            first = self.class_member()
            if len(first) == 2:
                classes += first[1]
                continue
            last = first
            if self.peek() == "-" and self.source[self.at + 1 : self.at + 2] not in ("", "]"):
                self.at += 1
                last = self.class_member()
                if len(last) == 2 or last < first:
                    self.fail("a range whose end is before its start")
            if self.folded:
                first, last = self.single(first)[0], self.single(last)[0]
            ranges.append((first, last))
        self.at += 1
        return CharacterSet(ranges, classes, negated)

    def class_member(self) -> str:
        """One character of a class, or two for `\\d` and the like."""
        character = self.peek()
        if not character:
            self.fail("a class without its ']'")
        self.at += 1
        if character != "\\":
            return character
        character = self.peek()
        if not character:
            self.fail("a backslash at the end")
        self.at += 1
        return "\\" + character if character in "dDwWsS" else plain_escape(character, self.at)

    def repeat(self, start: i64) -> None:
        """Repeat the instructions from `start` on as what follows says."""
        sign = self.peek()
        if not sign or sign not in "*+?{":
            return
        self.at += 1
        least: i64 = 0
        most: i64 = -1
        if sign == "+":
            least = 1
        elif sign == "?":
            most = 1
        elif sign == "{":
            least = self.count()
            most = least
            if self.peek() == ",":
                self.at += 1
                most = -1 if self.peek() == "}" else self.count()
            if self.peek() != "}" or (most >= 0 and most < least):
                self.fail("repeats are written {m}, {m,} or {m,n}")
            self.at += 1
        if self.peek() == "?":
            self.at += 1  # which of several matches is found makes no difference here
        if self.peek() and self.peek() in "*+?{":
            self.fail(f"'{self.peek()}' repeats nothing")
        self.write_repeats(start, least, most)

    def count(self) -> i64:
        digits = ""
        while self.peek() and self.peek() in DIGITS:
            digits += self.peek()
            self.at += 1
        if not digits or len(digits) > 3 or int(digits) > REPEATS_MAX:
            self.fail(f"a number of repeats is 0 to {REPEATS_MAX}")
        return int(digits)

    def write_repeats(self, start: i64, least: i64, most: i64) -> None:
        body = self.program[start:]
        del self.program[start:]
        for _ in range(least):
            self.copy(body, start)
        if most < 0:
            fork = self.add(FORK, 0, 0, None)
            self.program[fork].to = fork + 1
            self.copy(body, start)
            self.add(JUMP, fork, 0, None)
            self.program[fork].other = len(self.program)
            return
        forks: list[int] = []
        for _ in range(most - least):
            forks.append(int(self.add(FORK, len(self.program) + 1, 0, None)))
            self.copy(body, start)
        for each in forks:
            self.program[each].other = len(self.program)

    def copy(self, body: list[Instruction], start: i64) -> None:
        """Append instructions that were written to stand at `start`."""
        shift: i64 = len(self.program) - start
        for each in body:
            self.add(each.op, each.to + shift, each.other + shift, each.characters)


def plain_escape(character: str, at: i64) -> str:
    """The character that `\\<character>` stands for."""
    if character == "n":
        return "\n"
    if character == "t":
        return "\t"
    if character == "r":
        return "\r"
    if character.isalnum():
        raise BadPattern(f"character {at}: '\\{character}' is not known here")
    return character
