"""Programs of regular expressions: what a pattern becomes before it is looked for; see `filter/pattern.py`."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

DEPTH_MAX: Final = 32
REPEATS_MAX: Final = 255
DIGITS: Final = "0123456789"
HEX_DIGITS: Final = "0123456789abcdefABCDEF"
CHARACTER_LAST: Final = 0x10FFFF

# Instructions. FORK and JUMP go on to `to` (FORK also to `other`, if not); the others look at a character or the place.
SET: Final = 1
FORK: Final = 2
JUMP: Final = 3
START: Final = 4
END: Final = 5
MATCH: Final = 6
EDGE: Final = 7  # of a word
INSIDE: Final = 8  # of a word, or of what is between two

POSIX: Final = {
    "alpha": ("AZ", "az"),
    "digit": ("09",),
    "alnum": ("AZ", "az", "09"),
    "upper": ("AZ",),
    "lower": ("az",),
    "space": ("\t\r", "  "),
    "blank": ("\t\t", "  "),
    "punct": ("!/", ":@", "[`", "{~"),
    "xdigit": ("09", "AF", "af"),
    "word": ("AZ", "az", "09", "__"),
}


class BadPattern(ValueError):
    """The text is no regular expression of this kind; the error says where and why."""


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

    def leave_for(self, end: i64, lazy: bool) -> None:
        """Set the second way of a FORK. It is tried before the first if the repeat is lazy."""
        self.other = end
        if lazy:
            self.other = self.to
            self.to = end


def in_class(name: str, character: str) -> bool:
    """Return whether a character is of the class `\\<name>`."""
    lower = name.lower()
    if lower == "d":
        found = character.isdecimal()
    elif lower == "s":
        found = character.isspace()
    else:
        found = character.isalnum() or character == "_"
    return found == (name == lower)


@final
class Compiler:
    """Makes a program of a pattern, by recursive descent; BadPattern where it is none."""

    def __init__(self, source: str, at: i64, folded: bool, steps_max: i64) -> None:
        self.source = source
        self.at: i64 = at
        self.folded = folded
        self.steps_max: i64 = steps_max
        self.depth: i64 = 0
        self.program: list[Instruction] = []
        self.without: list[list[Instruction]] = []
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
        if number >= self.steps_max:
            self.fail(f"a pattern of more than {self.steps_max} steps")
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
            if self.depth == 1 and self.without:
                self.fail("behind '(?!' there may be '|' within groups only")
            fork = start
            self.insert_fork(fork)
            jumps.append(int(self.add(JUMP, 0, 0, None)))
            start = len(self.program)
            self.program[fork].other = start
            self.sequence()
        end: i64 = len(self.program)
        for jump in jumps:
            self.program[jump].to = end
        self.depth -= 1

    def insert_fork(self, at: i64) -> None:
        """Put a FORK before the instructions from `at` on; its second way is still open (-1)."""
        if i64(len(self.program)) >= self.steps_max:
            self.fail(f"a pattern of more than {self.steps_max} steps")
        for instruction in self.program[at:]:
            if instruction.to >= at:
                instruction.to += 1
            if instruction.other >= at:
                instruction.other += 1
        self.program.insert(int(at), Instruction(FORK, at + 1, -1, None))

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
            self.escape()
        else:
            self.add_set(CharacterSet([self.single(character)], "", False))

    def add_set(self, characters: CharacterSet) -> None:
        self.add(SET, len(self.program) + 1, 0, characters)

    def single(self, character: str) -> tuple[str, str]:
        folded = character.lower() if self.folded else character
        return (folded, folded) if len(folded) == 1 else (character, character)

    def group(self) -> None:
        if self.peek() == "?" and self.opening():
            return
        self.close_group()

    def close_group(self) -> None:
        """Take the content of a group, and its end."""
        self.alternatives()
        if self.peek() != ")":
            self.fail("a group without its ')'")
        self.at += 1

    def opening(self) -> bool:
        """Take what stands between '(' and the content of a group; whether the group has been dealt with."""
        rest = self.source[self.at : self.at + 3]
        if rest.startswith("?:"):
            self.at += 2
        elif rest.startswith("?!") and self.depth == 1 and len(self.program) == 1 and self.program[0].op == START:
            self.at += 2
            self.exclude()
            return True
        elif rest[:2] in ("?=", "?!") or rest in ("?<=", "?<!"):
            self.fail("look-around is not known here, but for '^(?!' at the start")
        elif rest.startswith(("?P=", "?(")):
            self.fail("a back-reference is not known here")
        elif rest.startswith("?<") or rest == "?P<":
            end = self.source.find(">", self.at)
            if end < 0:
                self.fail("a group's name without its '>'")
            self.at = end + 1
        else:
            self.fail("of the groups with '?' there are '(?:' and '(?P<name>'; '(?i)' stands at the start")
        return False

    def exclude(self) -> None:
        """Compile a negative look-ahead at the start of the pattern."""
        program = self.program
        self.program = [Instruction(START, 1, 0, None)]
        self.close_group()
        if self.peek() and self.peek() in "*+?{":
            self.fail(f"'{self.peek()}' repeats nothing")
        self.add(MATCH, 0, 0, None)
        self.without.append(self.program)
        self.program = program

    def escape(self) -> None:
        """Take what stands behind a backslash."""
        character = self.peek()
        if not character:
            self.fail("a backslash at the end")
        self.at += 1
        if character in "dDwWsS":
            self.add_set(CharacterSet([], character, False))
        elif character in "AzZbB":
            op: i64 = START if character == "A" else EDGE if character == "b" else INSIDE if character == "B" else END
            self.add(op, len(self.program) + 1, 0, None)
        else:
            self.add_set(CharacterSet([self.single(self.plain_escape(character))], "", False))

    def character_class(self) -> CharacterSet:
        """Parse a character class, whose '[' was just read."""
        ranges: list[tuple[str, str]] = []
        classes = ""
        negated = self.peek() == "^"
        if negated:
            self.at += 1
        begun = self.at
        while self.peek() != "]" or self.at == begun:
            if self.source.startswith("[:", self.at):
                self.posix(ranges)
                continue
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

    def posix(self, ranges: list[tuple[str, str]]) -> None:
        """`[:alpha:]` and its like, within a class."""
        end = self.source.find(":]", self.at)
        name = self.source[self.at + 2 : end] if end >= 0 else ""
        if name not in POSIX:
            self.fail(f"'[:{name}' is no class; known are {', '.join(POSIX)}")
        for both in POSIX[name]:
            ranges.append((both[0], both[1]))
        if self.folded and name in ("upper", "lower"):
            ranges.append(("a", "z"))
        self.at = end + 2

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
        return "\\" + character if character in "dDwWsS" else self.plain_escape(character)

    def plain_escape(self, character: str) -> str:
        """Return the character that the escape `\\<character>`, which was just read, stands for."""
        place = "ntrfv".find(character)
        if place >= 0:
            return "\n\t\r\f\v"[place]
        if character == "x":
            return self.by_number()
        if character in "123456789gk":
            self.at -= 2
            self.fail(f"'\\{character}' is a back-reference, which is not known here")
        if character.isalnum():
            self.at -= 2
            self.fail(f"'\\{character}' is not known here")
        return character

    def by_number(self) -> str:
        """Parse the number of `\\x41` or `\\x{41}`, and return its character."""
        if self.peek() == "{":
            end: i64 = self.source.find("}", self.at)
            digits = self.source[self.at + 1 : end] if end >= 0 else ""
            self.at = end + 1
        else:
            digits = self.source[self.at : self.at + 2]
            self.at += 2
            if len(digits) < 2:
                digits = ""
        good = 0 < len(digits) <= 6
        for digit in digits:
            good = good and digit in HEX_DIGITS
        if not good or int(digits, 16) > CHARACTER_LAST:
            self.fail("'\\x' is followed by two hexadecimal digits, or by up to six in { }")
        return chr(int(digits, 16))

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
        lazy = self.peek() == "?"  # of several matches the shortest: it makes a difference to `replace` alone
        if lazy:
            self.at += 1
        if self.peek() and self.peek() in "*+?{":
            self.fail(f"'{self.peek()}' repeats nothing")
        self.write_repeats(start, least, most, lazy)

    def count(self) -> i64:
        digits = ""
        while self.peek() and self.peek() in DIGITS:
            digits += self.peek()
            self.at += 1
        if not digits or len(digits) > 3 or int(digits) > REPEATS_MAX:
            self.fail(f"a number of repeats is 0 to {REPEATS_MAX}")
        return int(digits)

    def write_repeats(self, start: i64, least: i64, most: i64, lazy: bool) -> None:
        body = self.program[start:]
        del self.program[start:]
        for _ in range(least):
            self.copy(body, start)
        if most < 0:
            fork = self.add(FORK, 0, 0, None)
            self.program[fork].to = fork + 1
            self.copy(body, start)
            self.add(JUMP, fork, 0, None)
            self.program[fork].leave_for(len(self.program), lazy)
            return
        forks: list[int] = []
        for _ in range(most - least):
            forks.append(int(self.add(FORK, len(self.program) + 1, 0, None)))
            self.copy(body, start)
        for each in forks:
            self.program[each].leave_for(len(self.program), lazy)

    def copy(self, body: list[Instruction], start: i64) -> None:
        """Append instructions that were written to stand at `start`."""
        shift: i64 = len(self.program) - start
        for each in body:
            self.add(each.op, each.to + shift, each.other + shift, each.characters)
