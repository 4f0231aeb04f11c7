"""Replacing every match of a regular expression, at a cost that no text can blow up.

All ways through a pattern's program are followed at once, a character at a time, as in `filter/pattern.py`. Here each
way also carries the place where its match begins, and the ways are kept in the order in which Python's engine would
try them, so that the same matches are found as with `re.sub`.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.filter.pattern import TEXT_CHARACTERS_MAX, WORK_MAX, Pattern, is_word
from forebay.filter.program import EDGE, END, FORK, INSIDE, JUMP, MATCH, SET, START, Instruction

RESULT_CHARACTERS_MAX: Final = 1 << 20
NOWHERE: Final = -1


@final
class Replacer:
    """Finds and replaces the matches of one pattern.

    work    points of the program that the last `replaced` has looked at, and characters
    start   index of the first character of the match found last; NOWHERE if there is none
    end     index behind its last character
    points  places in the program to go on from at the next character, the preferred first
    starts  for each of the points, index at which its match begins
    """

    def __init__(self, pattern: Pattern) -> None:
        self.pattern = pattern
        self.program: list[Instruction] = pattern.machine.program
        self.seen: list[int] = [0] * len(self.program)
        self.look: int = 0
        self.work: i64 = 0
        self.start: i64 = NOWHERE
        self.end: i64 = NOWHERE
        self.points: list[int] = []
        self.starts: list[int] = []

    def replaced(self, text: str, new: str) -> str | None:
        """Return a text with every match replaced by `new`, or None if any of them takes too much."""
        self.work = 0
        if len(text) > TEXT_CHARACTERS_MAX:
            return None
        found = self.pattern.find(text)
        self.work = self.pattern.work
        if found is not True:
            return text if found is False else None
        out: list[str] = []
        size: i64 = 0
        at: i64 = 0
        taken: i64 = 0  # characters of the text that have gone into the result, or were replaced
        full: i64 = NOWHERE  # an empty match at this place was replaced already
        while at <= len(text):
            if not self.search(text, at, full):
                return None
            if self.start == NOWHERE:
                break
            out.append(text[taken : self.start])
            out.append(new)
            size += self.start - taken + len(new)
            if size > RESULT_CHARACTERS_MAX:
                return None
            taken = self.end
            full = self.end if self.start == self.end else NOWHERE
            at = self.end
        out.append(text[taken:])
        return "".join(out) if size + len(text) - taken <= RESULT_CHARACTERS_MAX else None

    def search(self, text: str, at: i64, full: i64) -> bool:
        """Find the first match from `at` on that is not empty at `full`. Returns False if that takes too much work."""
        self.start = NOWHERE
        size: i64 = len(text)
        folded = self.pattern.folded
        points: list[int] = []
        starts: list[int] = []
        while True:
            self.points = []
            self.starts = []
            self.look += 1
            matched = False
            for index, point in enumerate(points):
                if self.follow(text, at, point, starts[index], full):
                    matched = True
                    break
            if not matched and self.start == NOWHERE:
                self.follow(text, at, 0, at, full)
            if self.work > WORK_MAX:
                return False
            if at >= size or (not self.points and self.start != NOWHERE):
                return True
            character = folded_character(text[at]) if folded else text[at]
            points = []
            starts = []
            for index, point in enumerate(self.points):
                instruction = self.program[point]
                if instruction.characters is not None and instruction.characters.has(character):
                    points.append(int(instruction.to))
                    starts.append(self.starts[index])
            self.work += 1 + len(self.points)
            at += 1

    def follow(self, text: str, at: i64, point: i64, start: i64, full: i64) -> bool:
        """Add all places that look at the next character and are reached from `point`, as far as they are preferred to
        a match. Returns whether there is a match that ends here; it is noted."""
        todo: list[int] = [int(point)]
        while todo:
            here = todo.pop()
            if self.seen[here] == self.look:
                continue
            self.seen[here] = self.look
            self.work += 1
            instruction = self.program[here]
            op = instruction.op
            if op == SET:
                self.points.append(here)
                self.starts.append(int(start))
            elif op == FORK:
                todo.append(int(instruction.other))
                todo.append(int(instruction.to))
            elif op == MATCH:
                if start == at and at == full:
                    continue
                self.start = start
                self.end = at
                return True
            elif op == JUMP or holds(op, text, at):
                todo.append(int(instruction.to))
        return False


def holds(op: i64, text: str, at: i64) -> bool:
    """Return whether START, END, EDGE or INSIDE is true of this place in a text."""
    if op == START:
        return at == 0
    if op == END:
        return at == len(text)
    assert op in (EDGE, INSIDE), op
    before = at > 0 and is_word(text[at - 1])
    behind = at < len(text) and is_word(text[at])
    return (before != behind) == (op == EDGE)


def folded_character(character: str) -> str:
    """Return a character in small letters, or the character itself where these would be several."""
    lower = character.lower()
    return lower if len(lower) == 1 else character
