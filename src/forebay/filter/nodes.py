"""The tree of a filter: what it consists of, what each part makes of a message, and how it is written.

Every node has its parts in public fields, so that others may walk the tree and say the same in a language of their own.
`kind` is what a node can be: a condition, a value, or either (what a path leads to may be true or false).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Final, final

from mypy_extensions import i64

from forebay.filter.functions import call
from forebay.filter.pattern import TEXT_CHARACTERS_MAX, Pattern
from forebay.filter.replace import Replacer
from forebay.filter.subject import FUNCTION_SHIFT, Subject
from forebay.filter.values import (
    AT_LEAST,
    AT_MOST,
    EQUAL,
    arithmetic,
    compare,
    compare_single,
    condition_of,
    elements,
    first,
    negate,
    normal,
    number,
    text,
)

CONDITION: Final = 1
VALUE: Final = 2
EITHER: Final = 3

COMPARISONS: Final = ("", "=", "!=", "<", "<=", ">", ">=")  # by EQUAL, UNEQUAL, …
PLAIN: Final = "_-.@:$"  # beside letters and digits: what a name may have without quotes

# How tightly each kind of node binds, for brackets where they are needed.
OR_LEVEL: Final = 1
AND_LEVEL: Final = 2
NOT_LEVEL: Final = 3
COMPARISON_LEVEL: Final = 4
SUM_LEVEL: Final = 5
PRODUCT_LEVEL: Final = 6
SIGN_LEVEL: Final = 7
TOP_LEVEL: Final = 8


class FilterNode(ABC):
    """One part of a filter.

    depth  nodes on the longest way down from here, this one included
    """

    def __init__(self, kind: i64, level: i64, parts: list[FilterNode]) -> None:
        self.kind: i64 = kind
        self.level: i64 = level
        self.parts = parts
        self.depth: i64 = 1
        for part in parts:
            self.depth = max(self.depth, part.depth + 1)

    @abstractmethod
    def evaluate(self, subject: Subject) -> object:
        """Return the value of this part of a filter for a message; see `values` for its types."""

    @abstractmethod
    def written(self) -> str:
        """Return a text that parses to this node again."""

    def bracketed(self, part: FilterNode, level: i64) -> str:
        """Return the text of a part, in brackets if it binds less tightly than `level`."""
        return part.written() if part.level >= level else f"({part.written()})"


@final
class Literal(FilterNode):
    """A number, a text, TRUE, FALSE or NULL."""

    def __init__(self, value: object) -> None:
        super().__init__(EITHER if isinstance(value, bool) else VALUE, TOP_LEVEL, [])
        self.value = value

    def evaluate(self, subject: Subject) -> object:
        return self.value

    def written(self) -> str:
        value = self.value
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        return quoted(value) if isinstance(value, str) else str(value)


@final
class MessageProperty(FilterNode):
    """A property that the broker knows of the message: one of `subject.PROPERTIES`."""

    def __init__(self, name: str) -> None:
        super().__init__(VALUE, TOP_LEVEL, [])
        self.name = name

    def evaluate(self, subject: Subject) -> object:
        return normal(subject.property(self.name))

    def written(self) -> str:
        return self.name


@final
class PathStep:
    """One step down a path: to the field `name` of an object, or where that is None to element `index` of a list."""

    def __init__(self, name: str | None, index: i64) -> None:
        self.name = name
        self.index: i64 = index

    def written(self) -> str:
        return f"[{self.index}]" if self.name is None else f"/{name_written(self.name)}"


@final
class Path(FilterNode):
    """A value within the body, or within the header of this name."""

    def __init__(self, header: str | None, steps: list[PathStep]) -> None:
        super().__init__(EITHER, TOP_LEVEL, [])
        self.header = header
        self.steps = steps

    def evaluate(self, subject: Subject) -> object:
        start = subject.body() if self.header is None else subject.header(self.header)
        return normal(follow(start, self.steps))

    def written(self) -> str:
        start = "" if self.header is None else f"header.{name_written(self.header)}"
        return start + "".join([step.written() for step in self.steps])


def follow(value: object, steps: list[PathStep]) -> object:
    """Return the value at the end of a path of steps. A field of a list is the list of that field of its elements."""
    values: list[object] = [value]
    spread = False
    for step in steps:
        found: list[object] = []
        for each in values:
            if step.name is None:
                if isinstance(each, list) and step.index < len(each):
                    found.append(each[step.index])
            elif isinstance(each, dict):
                if step.name in each:
                    found.append(each[step.name])
            elif isinstance(each, list):
                spread = True
                for element in each:
                    if isinstance(element, dict) and step.name in element:
                        found.append(element[step.name])
        if not found:
            return None
        values = found
    if not spread:
        return values[0]
    flat: list[object] = []
    for each in values:
        flat += elements(each)
    return flat


@final
class Not(FilterNode):
    """NOT."""

    def __init__(self, part: FilterNode) -> None:
        super().__init__(CONDITION, NOT_LEVEL, [part])

    def evaluate(self, subject: Subject) -> object:
        return negate(self.parts[0].evaluate(subject))

    def written(self) -> str:
        return f"NOT {self.bracketed(self.parts[0], NOT_LEVEL)}"


@final
class And(FilterNode):
    """AND of two or more conditions."""

    def __init__(self, parts: list[FilterNode]) -> None:
        super().__init__(CONDITION, AND_LEVEL, parts)

    def evaluate(self, subject: Subject) -> object:
        held: object = True
        for part in self.parts:
            value = condition_of(part.evaluate(subject))
            if value is False:
                return False
            if value is None:
                held = None
        return held

    def written(self) -> str:
        return " AND ".join([self.bracketed(part, NOT_LEVEL) for part in self.parts])


@final
class Or(FilterNode):
    """OR of two or more conditions."""

    def __init__(self, parts: list[FilterNode]) -> None:
        super().__init__(CONDITION, OR_LEVEL, parts)

    def evaluate(self, subject: Subject) -> object:
        held: object = False
        for part in self.parts:
            value = condition_of(part.evaluate(subject))
            if value is True:
                return True
            if value is None:
                held = None
        return held

    def written(self) -> str:
        return " OR ".join([self.bracketed(part, AND_LEVEL) for part in self.parts])


@final
class Comparison(FilterNode):
    """`=` and the like: of any element on the left with any on the right."""

    def __init__(self, comparison: i64, left: FilterNode, right: FilterNode) -> None:
        super().__init__(CONDITION, COMPARISON_LEVEL, [left, right])
        self.comparison: i64 = comparison

    def evaluate(self, subject: Subject) -> object:
        return compare(self.comparison, self.parts[0].evaluate(subject), self.parts[1].evaluate(subject))

    def written(self) -> str:
        left, right = self.parts
        sign = COMPARISONS[self.comparison]
        return f"{self.bracketed(left, SUM_LEVEL)} {sign} {self.bracketed(right, SUM_LEVEL)}"


@final
class Between(FilterNode):
    """BETWEEN, both ends included, of any element."""

    def __init__(self, value: FilterNode, low: FilterNode, high: FilterNode) -> None:
        super().__init__(CONDITION, COMPARISON_LEVEL, [value, low, high])

    def evaluate(self, subject: Subject) -> object:
        low = first(self.parts[1].evaluate(subject))
        high = first(self.parts[2].evaluate(subject))
        return any_of([between(each, low, high) for each in elements(self.parts[0].evaluate(subject))])

    def written(self) -> str:
        value, low, high = [self.bracketed(part, SUM_LEVEL) for part in self.parts]
        return f"{value} BETWEEN {low} AND {high}"


def between(value: object, low: object, high: object) -> object:
    above = compare_single(AT_LEAST, value, low)
    below = compare_single(AT_MOST, value, high)
    if above is False or below is False:
        return False
    return None if above is None or below is None else True


@final
class In(FilterNode):
    """IN a list of values, of any element."""

    def __init__(self, value: FilterNode, items: list[FilterNode]) -> None:
        super().__init__(CONDITION, COMPARISON_LEVEL, [value, *items])

    def evaluate(self, subject: Subject) -> object:
        value = self.parts[0].evaluate(subject)
        unknown = False
        for item in self.parts[1:]:
            held = compare(EQUAL, value, first(item.evaluate(subject)))
            if held is True:
                return True
            if held is None:
                unknown = True
        return None if unknown else False

    def written(self) -> str:
        items = ", ".join([item.written() for item in self.parts[1:]])
        return f"{self.bracketed(self.parts[0], SUM_LEVEL)} IN ({items})"


@final
class Like(FilterNode):
    """LIKE a regular expression, which is looked for anywhere in any element."""

    def __init__(self, value: FilterNode, pattern: Pattern) -> None:
        super().__init__(CONDITION, COMPARISON_LEVEL, [value])
        self.pattern = pattern

    def evaluate(self, subject: Subject) -> object:
        results: list[object] = []
        for each in elements(self.parts[0].evaluate(subject)):
            words = text(each)
            if words is None or len(words) > TEXT_CHARACTERS_MAX or not subject.may_go_on():
                results.append(None)
            else:
                results.append(self.pattern.find(words))
                subject.steps -= self.pattern.work
        return any_of(results)

    def written(self) -> str:
        return f"{self.bracketed(self.parts[0], SUM_LEVEL)} LIKE {quoted(self.pattern.source)}"


@final
class Affix(FilterNode):
    """BEGINS WITH or ENDS WITH, of any element."""

    def __init__(self, at_end: bool, value: FilterNode, affix: FilterNode) -> None:
        super().__init__(CONDITION, COMPARISON_LEVEL, [value, affix])
        self.at_end = at_end

    def evaluate(self, subject: Subject) -> object:
        affix = text(first(self.parts[1].evaluate(subject)))
        results: list[object] = []
        for each in elements(self.parts[0].evaluate(subject)):
            words = text(each)
            if words is None or affix is None:
                results.append(None)
            else:
                results.append(words.endswith(affix) if self.at_end else words.startswith(affix))
        return any_of(results)

    def written(self) -> str:
        value, affix = [self.bracketed(part, SUM_LEVEL) for part in self.parts]
        return f"{value} {'ENDS' if self.at_end else 'BEGINS'} WITH {affix}"


@final
class IsNull(FilterNode):
    """IS NULL: nobody knows a value, or it is an empty text."""

    def __init__(self, value: FilterNode) -> None:
        super().__init__(CONDITION, COMPARISON_LEVEL, [value])

    def evaluate(self, subject: Subject) -> object:
        return self.parts[0].evaluate(subject) is None

    def written(self) -> str:
        return f"{self.bracketed(self.parts[0], SUM_LEVEL)} IS NULL"


@final
class IsNan(FilterNode):
    """IS NAN: a value that is there, and no number."""

    def __init__(self, value: FilterNode) -> None:
        super().__init__(CONDITION, COMPARISON_LEVEL, [value])

    def evaluate(self, subject: Subject) -> object:
        value = first(self.parts[0].evaluate(subject))
        if value is None:
            return None
        read = number(value)
        return read is None or read != read  # noqa: PLR0124  NaN alone differs from itself

    def written(self) -> str:
        return f"{self.bracketed(self.parts[0], SUM_LEVEL)} IS NAN"


@final
class Arithmetic(FilterNode):
    """`+ - * / %` of two values, each the first of its list."""

    def __init__(self, sign: str, left: FilterNode, right: FilterNode) -> None:
        super().__init__(VALUE, SUM_LEVEL if sign in "+-" else PRODUCT_LEVEL, [left, right])
        self.sign = sign

    def evaluate(self, subject: Subject) -> object:
        left = first(self.parts[0].evaluate(subject))
        return arithmetic(self.sign, left, first(self.parts[1].evaluate(subject)))

    def written(self) -> str:
        # A right operand of the same precedence gets brackets: a - (b - c).
        left, right = self.parts
        return f"{self.bracketed(left, self.level)} {self.sign} {self.bracketed(right, self.level + 1)}"


@final
class Negative(FilterNode):
    """A value with its sign turned."""

    def __init__(self, value: FilterNode) -> None:
        super().__init__(VALUE, SIGN_LEVEL, [value])

    def evaluate(self, subject: Subject) -> object:
        return arithmetic("-", 0, first(self.parts[0].evaluate(subject)))

    def written(self) -> str:
        return f"-{self.bracketed(self.parts[0], TOP_LEVEL)}"


@final
class Call(FilterNode):
    """A function of values; see `functions`."""

    def __init__(self, name: str, kind: i64, arguments: list[FilterNode]) -> None:
        super().__init__(kind, TOP_LEVEL, arguments)
        self.name = name

    def evaluate(self, subject: Subject) -> object:
        name = self.name
        if name == "IF":
            held = self.parts[0].evaluate(subject) is True
            return self.parts[1 if held else 2].evaluate(subject)
        if name == "COALESCE":
            for part in self.parts:
                value = part.evaluate(subject)
                if value is not None:
                    return value
            return None
        values: list[object] = []
        for part in self.parts:
            value = part.evaluate(subject)
            if isinstance(value, str):
                subject.steps -= len(value) >> (0 if name == "CRC64" else FUNCTION_SHIFT)
            values.append(value)
        return call(name, values) if subject.may_go_on() else None

    def written(self) -> str:
        return f"{self.name}({', '.join([part.written() for part in self.parts])})"


@final
class RegexpReplace(FilterNode):
    """REGEXP_REPLACE: a text with every match of a regular expression replaced."""

    def __init__(self, value: FilterNode, pattern: Pattern, new: FilterNode) -> None:
        super().__init__(VALUE, TOP_LEVEL, [value, new])
        self.replacer = Replacer(pattern)

    def evaluate(self, subject: Subject) -> object:
        words = text(first(self.parts[0].evaluate(subject)))
        new = first(self.parts[1].evaluate(subject))
        by = "" if new is None else text(new)  # an empty text is NULL, and matches are mostly to be removed
        if words is None or by is None or not subject.may_go_on():
            return None
        made = self.replacer.replaced(words, by)
        subject.steps -= self.replacer.work
        if made is None:
            return None
        subject.steps -= len(made) >> FUNCTION_SHIFT
        return made or None

    def written(self) -> str:
        value, new = self.parts
        return f"REGEXP_REPLACE({value.written()}, {quoted(self.replacer.pattern.source)}, {new.written()})"


def any_of(results: list[object]) -> object:
    """OR of what came of each element."""
    held: object = False
    for each in results:
        if each is True:
            return True
        if each is None:
            held = None
    return held


def is_plain(character: str) -> bool:
    """Return whether a name may have this character without quotes."""
    return character.isalnum() or character in PLAIN


def name_written(name: str) -> str:
    for character in name:
        if not is_plain(character):
            return quoted(name)
    return name or "''"


def quoted(words: str) -> str:
    """Return a text as a quoted literal of the language."""
    return "'" + words.replace("'", "''") + "'"
