"""Regular expressions that take no more than their share of time."""

from __future__ import annotations

from random import Random

import pytest

from forebay.filter.pattern import PLACES_MAX, BadPattern, Pattern


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
        (r"\1", "'\\1' is not known here"),
        (r"[\q]", "'\\q' is not known here"),
        ("(?=a)", "only '(?:'"),
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
        assert len(pattern.places) <= PLACES_MAX
