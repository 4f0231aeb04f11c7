"""Regular expressions whose cost no text can blow up: all that users may write, in filters, policies and permissions.

Python's own engine tries one way after the other and may take years for a pattern such as `(a+)+$`. Here a pattern
becomes a program of few instructions, and all ways through it are followed at once, a character at a time (Thompson's
construction). Sets of places in the program that were met before are remembered together with where each character
leads from them, so that most characters cost one look into a table.

Taken are literals, `.`, classes `[a-z]` `[^a-z]` `[[:alpha:]]`, `\\d \\w \\s` and their opposites, `^ $ \\A \\z`,
`\\b \\B`, groups `( )`, `(?: )` and `(?P<name> )`, `|`, and `* + ? {m} {m,} {m,n}`, which may have a `?` behind them
that changes nothing here. `(?i)` at the start leaves the case of letters aside. `^(?!this)` at the start means: not
where this begins the text. A pattern is looked for anywhere in the text. What is refused is named: back-references,
look-around anywhere else, recursion.
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.filter.program import EDGE, END, FORK, INSIDE, JUMP, MATCH, SET, START, Compiler, Instruction

PROGRAM_MAX: Final = 500  # instructions
NAME_PROGRAM_MAX: Final = 5000  # of a pattern for names, which are short
NAME_CHARACTERS_MAX: Final = 4096  # of a name that is held against a pattern
TEXT_CHARACTERS_MAX: Final = 1 << 16  # that `find` may be given
WORK_MAX: Final = 300_000  # points of the program that one `find` looks at, where it cannot go by what it remembers
PLACES_MAX: Final = 256  # sets that are remembered before all are forgotten

# Knowledge about the place between two characters, for EDGE and INSIDE.
UNKNOWN: Final = 0
IS_EDGE: Final = 1
IS_INSIDE: Final = 2


@final
class StateSet:
    """A set of places in the program between two characters.

    leads    where each character goes from here, as far as it was met
    start    it is the start of the text
    in_word  a character of a word stands before it
    matched  the pattern has matched already
    at_end   the pattern matches if the text ends here
    asks     whether the next character makes an edge of a word is asked
    """

    def __init__(self, points: list[int], start: bool, in_word: bool, matched: bool, at_end: bool, asks: bool) -> None:
        self.points = points
        self.start = start
        self.in_word = in_word
        self.matched = matched
        self.at_end = at_end
        self.asks = asks
        self.leads: dict[str, StateSet] = {}


def is_word(character: str) -> bool:
    """Return whether a character is one of `\\w`."""
    return character.isalnum() or character == "_"


@final
class Machine:
    """One program, and what it remembers."""

    def __init__(self, program: list[Instruction]) -> None:
        self.program = program
        self.places: dict[str, StateSet] = {}
        self.seen: list[int] = [0] * len(program)
        self.look: int = 0  # number of the last `closure`, for `seen`
        self.work: i64 = 0  # points of the program looked at by the last `find`
        self.first = self.place([0], True, False)

    def find(self, text: str, at: i64) -> bool | None:
        """Return whether the program matches anywhere from `at` on, or None if that takes more than WORK_MAX steps."""
        here = self.first
        self.work = 0
        begun = at
        size: i64 = len(text)
        given_up = False
        # Where no points are left, the pattern is tied to the start of the text, and that is over.
        while at < size and here.points and not here.matched:
            character = text[at]
            there = here.leads.get(character)
            if there is None:
                if self.work > WORK_MAX:
                    given_up = True
                    break
                there = self.step(here, character)
            here = there
            at += 1
        self.work += at - begun
        if given_up:
            return None
        return here.matched or (at == size and here.at_end)

    def step(self, here: StateSet, character: str) -> StateSet:
        points = here.points
        in_word = is_word(character)
        if here.asks:
            points = self.closure(points, here.start, False, IS_EDGE if in_word != here.in_word else IS_INSIDE)
        self.work += len(points)
        following: list[int] = [0]  # the match may begin at the next character too
        matched = False
        for point in points:
            instruction = self.program[point]
            if instruction.characters is not None and instruction.characters.has(character):
                following.append(int(instruction.to))
            elif instruction.op == MATCH:
                matched = True
        if matched:
            following = [len(self.program) - 1]
        there = self.place(following, False, in_word)
        if len(here.leads) < PLACES_MAX:
            here.leads[character] = there
        return there

    def place(self, points: list[int], start: bool, in_word: bool) -> StateSet:
        """Return the set of states that can be reached from these without reading a character."""
        reached = self.closure(points, start, False, UNKNOWN)
        key = ("w" if in_word else "-") + ",".join([str(point) for point in reached])
        known = self.places.get(key)
        if known is not None and not start:
            return known
        ends = self.closure(reached, start, True, IS_EDGE if in_word else IS_INSIDE)
        place = StateSet(reached, start, in_word, self.has(reached, MATCH), self.has(ends, MATCH), self.asks(reached))
        if not start:
            if len(self.places) >= PLACES_MAX:
                # The remembered places refer to each other by `leads`: they go as a whole.
                self.places.clear()
                self.first.leads.clear()
            self.places[key] = place
        return place

    def asks(self, points: list[int]) -> bool:
        return self.has(points, EDGE) or self.has(points, INSIDE)

    def has(self, points: list[int], op: i64) -> bool:
        for point in points:  # noqa: SIM110  any() takes a generator, which the compiled dialect does without
            if self.program[point].op == op:
                return True
        return False

    def closure(self, points: list[int], start: bool, end: bool, edge: i64) -> list[int]:
        """All points that look at a character, wait for something, or match, and are reached from these; sorted."""
        found: list[int] = []
        todo = list(points)
        self.look += 1
        look = self.look
        seen = self.seen
        while todo:
            point = todo.pop()
            if seen[point] == look:
                continue
            seen[point] = look
            self.work += 1
            instruction = self.program[point]
            op = instruction.op
            if op == FORK:
                todo.append(int(instruction.to))
                todo.append(int(instruction.other))
            elif op in (SET, MATCH) or (op == END and not end) or (op in (EDGE, INSIDE) and edge == UNKNOWN):
                found.append(point)
            elif (
                op in (JUMP, END)
                or (op == START and start)
                or (op == EDGE and edge == IS_EDGE)
                or (op == INSIDE and edge == IS_INSIDE)
            ):
                todo.append(int(instruction.to))
        found.sort()
        return found


@final
class Pattern:
    """A compiled pattern; `find` may be called any number of times.

    steps_max  instructions that its program may have
    without    programs of what the text may not begin with
    literal    what the text has to have before anything else can match; empty where that may be several things
    work       points of its programs that the last `find` has looked at, and characters
    """

    def __init__(self, source: str, steps_max: i64 = PROGRAM_MAX) -> None:
        self.source = source
        self.folded = False
        at: i64 = 0
        if source.startswith("(?") and source.find(")") > 2 and is_flags(source[2 : source.find(")")]):
            at = source.find(")") + 1
            self.folded = "i" in source[2:at]
        compiler = Compiler(source, at, self.folded, steps_max)
        self.machine = Machine(compiler.program)
        self.without: list[Machine] = []
        for program in compiler.without:
            self.without.append(Machine(program))
        self.literal = literal_of(compiler.program)
        self.work: i64 = 0

    def find(self, text: str) -> bool | None:
        """Return whether the pattern matches anywhere in a text, or None if that takes more than WORK_MAX steps."""
        if self.folded:
            text = text.lower()
        self.work = 0
        for machine in self.without:
            held = machine.find(text, 0)
            self.work += machine.work
            if held is not False:
                return None if held is None else False
        at: i64 = 0
        if self.literal:
            at = text.find(self.literal)
            if at < 0:
                return False
        found = self.machine.find(text, at)
        self.work += self.machine.work
        return found


def is_flags(words: str) -> bool:
    """Return whether these are flags that a pattern may begin with. `s` and `u` are always in force."""
    for character in words:  # noqa: SIM110  as above
        if character not in "isu":
            return False
    return True


def literal_of(program: list[Instruction]) -> str:
    """Return the character that every match begins with, or "" if there is no single one."""
    first = program[0]
    characters = first.characters
    if first.op != SET or characters is None or characters.negated or characters.classes:
        return ""
    if len(characters.ranges) != 1 or characters.ranges[0][0] != characters.ranges[0][1]:
        return ""
    return characters.ranges[0][0]
