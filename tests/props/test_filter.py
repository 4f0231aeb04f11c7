"""Filters: any text is understood or refused, what is written is read back, and a naive reader says the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product

from hypothesis import example, given
from hypothesis import strategies as st

from forebay.core.errors import INVALID, RequestError
from forebay.filter.parser import Filter, parse
from forebay.filter.pattern import Pattern
from forebay.filter.program import BadPattern
from forebay.filter.replace import Replacer
from tests.unit.filter.messages import Message, message

Value = object
Evaluate = Callable[[dict[str, Value]], Value]
WORDS = [
    *("/a", "/b/c[0]", "header.x", "priority", "'it''s'", '"q"', "1", "2.5", "-3", "(", ")", ",", "[/x"),
    *("=", "==", "!=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "MOD", "AND", "OR", "NOT", "IS", "NULL"),
    *("NAN", "TRUE", "IN", "LIKE", "BEGINS", "ENDS", "WITH", "BETWEEN", "LENGTH(", "IF(", "COALESCE(", "ARRAY_SUM("),
    *("REGEXP_REPLACE(", "CRC64(", "TOPIC_NAME()", "BOOKMARK(", "'a*'"),
]
SIGNS = {
    "=": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}

bodies = st.dictionaries(
    st.sampled_from("abcd"),
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-5, 5),
        st.sampled_from([0.5, 2.0, -1.5]),
        st.sampled_from(["", "x", "xy", "2", "-1.5", "y"]),
        st.lists(st.one_of(st.none(), st.integers(-3, 3), st.sampled_from(["", "x", "2"])), max_size=3),
    ),
)


def understood(text: str) -> Filter | None:
    """The filter that a text is; None where it is refused as it should be."""
    try:
        return parse(text)
    except RequestError as error:
        if (error.reason, error.text[:17]) == (INVALID, "filter, position "):
            return None
        raise


@given(st.text() | st.lists(st.sampled_from(WORDS)).map(" ".join) | st.lists(st.sampled_from(WORDS)).map("".join))
@example("(" * 5000)
@example("-" * 5000 + "1")
@example("NOT " * 2000)
@example("IF(" * 2000)
def test_any_text_is_a_filter_or_is_refused(text: str) -> None:
    filter = understood(text)
    if filter is None:
        return
    again = parse(filter.written())
    assert again.written() == filter.written()
    other = message({"a": 1, "b": {"c": ["x"]}}, {"x": 5}, priority=3)
    assert filter.matches(other) == again.matches(other)


@given(st.text(), st.binary())
def test_any_body_is_looked_at(name: str, body: bytes) -> None:
    quoted = "'" + name.replace("'", "''") + "'"
    assert parse(f"/{quoted} IS NULL OR /{quoted} IS NOT NULL").matches(Message(body))


# ---- a naive reader: each strategy gives a filter's text together with a function that says what it is

Part = tuple[str, Evaluate]


def paths() -> st.SearchStrategy[Part]:
    return st.sampled_from("abcd").map(lambda name: (f"/{name}", lambda body: cleaned(body.get(name))))


def cleaned(value: Value) -> Value:
    if isinstance(value, list):
        return [each or None if isinstance(each, str) else each for each in value]
    return None if value == "" and isinstance(value, str) else value


def literals() -> st.SearchStrategy[Part]:
    numbers = st.integers(0, 5).map(lambda number: (str(number), lambda body: number))
    texts = st.sampled_from(["x", "xy", "2"]).map(lambda text: (f"'{text}'", lambda body: text))
    return numbers | texts


def as_number(value: Value) -> int | float | None:
    if isinstance(value, list):
        value = value[0] if value else None
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return (
            float(value)
            if re.fullmatch(r"-?\d+\.\d+", value)
            else int(value)
            if re.fullmatch(r"-?\d+", value)
            else None
        )
    return value if isinstance(value, int | float) else None


def computed(sign: str, left: Part, right: Part) -> Part:
    def evaluate(body: dict[str, Value]) -> Value:
        one, other = as_number(left[1](body)), as_number(right[1](body))
        if one is None or other is None:
            return None
        if sign == "+":
            return one + other
        if sign == "-":
            return one - other
        if sign == "*":
            return one * other
        if other == 0:
            return None
        if isinstance(one, int) and isinstance(other, int):
            return int(one / other)  # towards zero; exact for numbers this small
        return one / other

    return f"({left[0]} {sign} {right[0]})", evaluate


values = st.recursive(
    paths() | literals(), lambda inner: st.builds(computed, st.sampled_from("+-*/"), inner, inner), max_leaves=4
)


def single(sign: str, left: Value, right: Value) -> bool | None:
    if left is None or right is None or isinstance(left, bool) != isinstance(right, bool):
        return None
    if isinstance(left, str) != isinstance(right, str):
        numbers = as_number(left), as_number(right)
        if None not in numbers:
            left, right = numbers
        else:  # any text that is no number is above all numbers
            left, right = int(isinstance(left, str)), int(isinstance(right, str))
    return bool(SIGNS[sign](left, right))


def any_of(results: list[bool | None]) -> bool | None:
    return True if True in results else None if None in results else False


def listed(value: Value) -> list[Value]:
    return value if isinstance(value, list) else [value]


def compared(sign: str, left: Part, right: Part) -> Part:
    def evaluate(body: dict[str, Value]) -> Value:
        pairs = product(listed(left[1](body)), listed(right[1](body)))
        return any_of([single(sign, one, other) for one, other in pairs])

    return f"{left[0]} {sign} {right[0]}", evaluate


def contained(value: Part, items: list[Part]) -> Part:
    def evaluate(body: dict[str, Value]) -> Value:
        return any_of(
            [single("=", one, item[1](body)) for one in listed(value[1](body)) for item in items],
        )

    return f"{value[0]} IN ({', '.join(item[0] for item in items)})", evaluate


def null(value: Part, negated: bool) -> Part:
    return f"{value[0]} IS {'NOT ' * negated}NULL", lambda body: (value[1](body) is None) != negated


def begins(value: Part, prefix: str) -> Part:
    def evaluate(body: dict[str, Value]) -> Value:
        found: list[bool | None] = []
        for each in listed(value[1](body)):
            shown = str(each).lower() if isinstance(each, bool) else str(each)
            found.append(None if each is None else shown.startswith(prefix))
        return any_of(found)

    return f"{value[0]} BEGINS WITH '{prefix}'", evaluate


def truth(value: Value) -> bool | None:
    return value if isinstance(value, bool) else None


def joined(word: str, parts: list[Part]) -> Part:
    def evaluate(body: dict[str, Value]) -> Value:
        results = [truth(part[1](body)) for part in parts]
        if word == "OR":
            return any_of(results)
        negated = any_of([None if each is None else not each for each in results])
        return None if negated is None else not negated

    return f" {word} ".join(f"({part[0]})" for part in parts), evaluate


def denied(part: Part) -> Part:
    def evaluate(body: dict[str, Value]) -> Value:
        value = truth(part[1](body))
        return None if value is None else not value

    return f"NOT ({part[0]})", evaluate


simple = (
    st.builds(compared, st.sampled_from(list(SIGNS)), values, values)
    | st.builds(contained, values, st.lists(literals(), min_size=1, max_size=3))
    | st.builds(null, values, st.booleans())
    | st.builds(begins, paths(), st.sampled_from(["x", "2", "-", "t"]))
    | paths()
)
conditions = st.recursive(
    simple,
    lambda inner: (
        st.builds(joined, st.sampled_from(["AND", "OR"]), st.lists(inner, min_size=2, max_size=3))
        | st.builds(denied, inner)
    ),
    max_leaves=6,
)


@given(conditions, bodies)
def test_a_filter_holds_where_a_naive_reader_says_so(condition: Part, body: dict[str, Value]) -> None:
    text, evaluate = condition
    filter = parse(text)
    assert filter.matches(message(body)) == (evaluate(body) is True)
    again = parse(filter.written())
    assert again.written() == filter.written()
    assert again.matches(message(body)) == (evaluate(body) is True)


# ---- patterns

atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\d", "^", "$", r"\b", "(?:)", "c"])
patterns = st.recursive(
    atoms,
    lambda inner: (
        st.tuples(inner, inner).map("".join)
        | st.tuples(inner, inner).map(lambda two: f"(?:{two[0]}|{two[1]})")
        | st.tuples(inner, st.sampled_from(["*", "+", "?", "{0}", "{2}", "{1,2}", "{1,}", "*?"])).map(
            lambda two: f"(?:{two[0]}){two[1]}"
        )
    ),
    max_leaves=8,
)


@given(patterns, st.lists(st.text("abc1", max_size=12), min_size=1, max_size=4))
def test_a_pattern_finds_what_python_finds(pattern: str, texts: list[str]) -> None:
    compiled = Pattern(pattern)
    for text in texts:
        # `\Z` is what `$` means here: the very end, and not before a last line feed.
        assert compiled.find(text) == (re.search(pattern.replace("$", r"\Z"), text, re.DOTALL) is not None)


@given(st.text("ab()[]{}*+?|^$\\-,.12d:i") | st.text(), st.text())
def test_any_text_is_a_pattern_or_is_refused(pattern: str, text: str) -> None:
    try:
        compiled = Pattern(pattern)
    except BadPattern:
        return
    assert compiled.find(text) in {True, False, None}


# Without empty matches that are repeated: there the engines differ, as engines do.
PIECES = ["a", "b", "[ab]", "[^a]", ".", "ab", "(?:ab|a)", "(?:a|ab)", "(?:a+|b)", r"\b", "^", "$"]
REPEATS = ["", "*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{1,2}?"]


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(PIECES), st.sampled_from(REPEATS)), min_size=1, max_size=3),
        min_size=1,
        max_size=2,
    ),
    st.text("abc ", max_size=8),
    st.sampled_from(["", "-", "xyz"]),
)
def test_replacements_are_those_of_python(choices: list[list[tuple[str, str]]], text: str, new: str) -> None:
    pattern = "|".join(
        "".join(piece if piece in ("^", "$", r"\b") else piece + repeat for piece, repeat in choice)
        for choice in choices
    )
    expected = re.sub(pattern.replace("$", r"\Z"), new, text, flags=re.DOTALL)
    assert Replacer(Pattern(pattern)).replaced(text, new) == expected
