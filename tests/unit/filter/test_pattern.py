"""Regular expressions that take no more than their share of time."""

from __future__ import annotations

from random import Random

import pytest

from forebay.filter.pattern import NAME_PROGRAM_MAX, PLACES_MAX, Pattern
from forebay.filter.program import BadPattern


@pytest.mark.parametrize(
    ("pattern", "found", "not_found"),
    [
        ("abc", ["abc", "xabcx"], ["ab", ""]),
        ("^abc$", ["abc"], ["xabc", "abcx", "abc\n"]),
        ("", ["", "x"], []),
        ("a|b|", ["", "x"], []),
        ("^(a|bc|)$", ["", "a", "bc"], ["b", "abc"]),
        ("^(?:ab)+$", ["ab", "abab"], ["", "aba"]),
        ("^a*?b$", ["b", "aab"], ["ac"]),
        ("^a{2}$", ["aa"], ["a", "aaa"]),
        ("^a{2,}$", ["aa", "aaaa"], ["a"]),
        ("^a{1,2}$", ["a", "aa"], ["", "aaa"]),
        ("^[a-c]+$", ["abc"], ["d", "-"]),
        ("^[^a-c]+$", ["d-"], ["da"]),
        ("^[]a]+$", ["]a"], ["b"]),
        ("^[a-]+$", ["a-"], ["b"]),
        (r"^[\d.]+$", ["1.2"], ["a"]),
        (r"^\d\D\w\W\s\S$", ["1aa- b"], ["aaa- b"]),
        (r"^\.\\\n$", [".\\\n"], ["a\\\n"]),
        ("(?i)^straSSE[A-C]$", ["Strassea", "STRASSEB"], ["strassed"]),
        ("a.c", ["a\nc", "äabc"], ["ac"]),
        ("^(a+)+$", ["aaaa"], ["aaab"]),
        ("(a$|^b)", ["xa", "bx"], ["xb", "ax"]),
        (r"\bab\b", ["ab", "x ab", "ab.", "(ab)"], ["abc", "xab", "ab_"]),
        (r"a\B", ["ab", "xab"], ["a", "a b"]),
        (r"^\b|x$", ["a", "x"], ["", " a"]),
        (r"\Aab\z|^c\Z", ["ab", "c"], ["ab ", "xc", "cc"]),
        ("^[[:alpha:]_]+[[:digit:]]$", ["a_B1"], ["1", "a_"]),
        ("(?i)^[[:upper:]]+$", ["aB"], ["1"]),
        (r"^\x41\x{e9}$", ["Aé"], ["Ae"]),
        ("^(?P<kind>a|b)(?<n>[0-9])$", ["a1"], ["c1"]),
        ("(?s)a.b", ["a\nb"], ["ab"]),
        (r"^(?!amq\.).*", ["orders", "amqp", ""], ["amq.topic"]),
        (r"^(?!(amq\.|federation:)).+$", ["a"], ["amq.x", "federation:1", ""]),
        ("^(?!a)(?!b)[a-z]$", ["c"], ["a", "b"]),
        ("(?i)^(?!AMQ)", ["b"], ["amq", "AMQ.x"]),
    ],
)
def test_what_a_pattern_finds(pattern: str, found: list[str], not_found: list[str]) -> None:
    compiled = Pattern(pattern)
    for _ in range(2):  # the second time from what it remembers
        assert [text for text in found if not compiled.find(text)] == []
        assert [text for text in not_found if compiled.find(text)] == []


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(a", "character 3: a group without its ')'"),
        ("a)", "character 2: ')' without '('"),
        ("[a", "character 3: a class without its ']'"),
        ("[b-a]", "character 5: a range"),
        ("*a", "character 1: '*' repeats nothing"),
        ("a**", "character 3: '*' repeats nothing"),
        ("a{", "a number of repeats"),
        ("a{1", "{m}, {m,} or {m,n}"),
        ("a{2,1}", "{m}, {m,} or {m,n}"),
        ("a{999}", "0 to 255"),
        ("a\\", "a backslash at the end"),
        (r"(a)\1", "character 4: '\\1' is a back-reference, which is not known here"),
        ("(?P<a>b)(?P=a)", "a back-reference is not known here"),
        ("(a)?(?(1)b|c)", "a back-reference is not known here"),
        (r"[\q]", "'\\q' is not known here"),
        ("(?=a)", "look-around is not known here"),
        ("a(?!b)", "look-around is not known here"),
        ("(?!b)", "look-around is not known here"),
        ("^(?<=b)", "look-around is not known here"),
        ("^(a(?!b))", "look-around is not known here"),
        ("^(?!b)a|c", "behind '(?!' there may be '|' within groups only"),
        ("^(?!b)*", "'*' repeats nothing"),
        ("^(?!b", "a group without its ')'"),
        ("(?#a)", "of the groups with '?'"),
        ("(?m)a", "of the groups with '?'"),
        ("(?P<a", "a group's name without its '>'"),
        ("[[:abc:]]", "'[:abc' is no class"),
        (r"\x4", "two hexadecimal digits"),
        (r"\x{110000}", "two hexadecimal digits"),
        (r"\p{L}", "'\\p' is not known here"),
        ("(" * 33 + ")" * 33, "within each other"),
        ("(a{200}){200}", "a pattern of more than"),
        ("a" * 501, "a pattern of more than"),
    ],
)
def test_a_pattern_that_is_none_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(BadPattern) as caught:
        Pattern(pattern)
    assert said in str(caught.value)


def coin_tosses(count: int) -> str:
    """A text of a and b without a pattern in it."""
    chance = Random(0)
    return "".join(chance.choice("ab") for _ in range(count))


def test_what_costs_others_years_is_answered() -> None:
    text = "a" * 5000 + "!"
    for pattern in ("^(a+)+$", "^(a|a)*$", "^(a*)*b$", "(x+x+)+y", "^(a?){50}a{50}$"):
        assert not Pattern(pattern).find(text)


def test_a_search_that_takes_too_much_is_given_up() -> None:
    # Each character opens or closes one of some 200 ways to match, so that hardly a set of places comes twice.
    text = coin_tosses(65_536)
    pattern = Pattern("a.{200}c$")
    assert pattern.find(text) is None
    assert pattern.find(text[:300]) is False
    assert pattern.find("a" * 201 + "c") is True


def test_what_is_remembered_has_a_limit() -> None:
    # "The tenth character before the last is an a" needs a set of places for each of 2 ** 10 histories.
    pattern = Pattern("a.{9}$")
    text = coin_tosses(5000)
    for end in range(4000, 5000, 20):
        assert pattern.find(text[end - 500 : end]) == (text[end - 10] == "a")
        assert len(pattern.machine.places) <= PLACES_MAX


def test_what_cannot_match_any_more_is_not_looked_through() -> None:
    for source in ("^abc.*d", "x[0-9]+y"):
        pattern = Pattern(source)
        assert pattern.find("z" * 60_000) is False
        assert pattern.work < 50


def test_a_long_pattern_is_compiled_in_steps_in_proportion() -> None:
    source = "^(" + "|".join(f"queue{number}" for number in range(500)) + ")$"
    pattern = Pattern(source, NAME_PROGRAM_MAX)
    assert pattern.find("queue499") is True
    assert pattern.find("queue500") is False
    assert pattern.work < 20 * len(pattern.machine.program)
