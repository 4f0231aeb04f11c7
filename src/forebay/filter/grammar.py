"""The grammar that the filter language and the selectors share: AND, OR, NOT, sums, and how deep a condition may go.

condition   = conjunction { OR conjunction }
conjunction = negation { AND negation }
negation    = NOT negation | comparison
sum         = product { (+ | -) product }
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Final, NoReturn

from mypy_extensions import i64, mypyc_attr

from forebay.filter.nodes import CONDITION, VALUE, And, Arithmetic, FilterNode, Not, Or

# Kinds of words that every language has; the numbers from 11 on are a language's own.
NUMBER: Final = 1
TEXT: Final = 2
SIGN: Final = 3
END: Final = 4


class Lexeme:
    """One word of a condition's text.

    at       index of its first character in the text
    written  as it stands there
    value    of a NUMBER or TEXT, and of what else the language says
    """

    def __init__(self, kind: i64, at: i64, written: str, value: object) -> None:
        self.kind: i64 = kind
        self.at: i64 = at
        self.written = written
        self.value = value


@mypyc_attr(allow_interpreted_subclasses=True)  # filter/sql is not compiled
class Grammar:
    """Recursive descent over the words of one condition.

    depth      parts within each other at this word
    depth_max  of them that the language allows
    """

    def __init__(self, depth_max: i64) -> None:
        self.at: i64 = 0
        self.depth: i64 = 0
        self.depth_max: i64 = depth_max

    # ---- what the language decides

    @abstractmethod
    def peek(self) -> Lexeme:
        """Return the next word."""

    @abstractmethod
    def next_is(self, keyword: str) -> bool:
        """Return whether the next word is this keyword."""

    @abstractmethod
    def refuse(self, word: Lexeme, text: str) -> NoReturn:
        """Refuse the condition, by the position of a word and what is wrong with it."""

    @abstractmethod
    def comparison(self) -> FilterNode:
        """Return a comparison or another test, or a value alone."""

    @abstractmethod
    def product(self) -> FilterNode:
        """Return what stands between the signs of a sum."""

    # ---- words

    def takes_keyword(self, keyword: str) -> bool:
        """Pass over a keyword if it is next."""
        if not self.next_is(keyword):
            return False
        self.at += 1
        return True

    def takes_sign(self, sign: str) -> bool:
        """Pass over a sign if it is next."""
        word = self.peek()
        if word.kind != SIGN or word.written != sign:
            return False
        self.at += 1
        return True

    def expect_keyword(self, keyword: str) -> None:
        """Pass over a keyword, which is due here."""
        if not self.takes_keyword(keyword):
            self.refuse(self.peek(), f"{keyword} is due here")

    def expect_sign(self, sign: str) -> None:
        """Pass over a sign, which is due here."""
        if not self.takes_sign(sign):
            self.refuse(self.peek(), f"'{sign}' is due here")

    # ---- checks

    def needs_condition(self, node: FilterNode, word: Lexeme) -> FilterNode:
        """Return a part that begins with `word`, unless it is a value."""
        if node.kind == VALUE:
            self.refuse(word, "a condition is due here, this is a value")
        return self.checked(node, word)

    def needs_value(self, node: FilterNode, word: Lexeme) -> FilterNode:
        """Return a part that begins with `word`, unless it is a condition."""
        if node.kind == CONDITION:
            self.refuse(word, "a value is due here, this is a condition")
        return self.checked(node, word)

    def checked(self, node: FilterNode, word: Lexeme) -> FilterNode:
        """Return a part that begins with `word`, unless it goes too deep."""
        if node.depth > self.depth_max:
            self.refuse(word, f"more than {self.depth_max} parts within each other")
        return node

    def enter(self) -> None:
        """Go one part deeper."""
        self.depth += 1
        if self.depth > self.depth_max:
            self.refuse(self.peek(), f"more than {self.depth_max} parts within each other")

    # ---- conditions

    def condition(self) -> FilterNode:
        """Return what OR joins."""
        word = self.peek()
        node = self.conjunction()
        if not self.next_is("OR"):
            return node
        parts = [self.needs_condition(node, word)]
        while self.takes_keyword("OR"):
            word = self.peek()
            parts.append(self.needs_condition(self.conjunction(), word))
        return self.checked(Or(parts), word)

    def conjunction(self) -> FilterNode:
        """Return what AND joins."""
        word = self.peek()
        node = self.negation()
        if not self.next_is("AND"):
            return node
        parts = [self.needs_condition(node, word)]
        while self.takes_keyword("AND"):
            word = self.peek()
            parts.append(self.needs_condition(self.negation(), word))
        return self.checked(And(parts), word)

    def negation(self) -> FilterNode:
        """Return what may have NOT before it."""
        if not self.takes_keyword("NOT"):
            return self.comparison()
        self.enter()
        word = self.peek()
        node = Not(self.needs_condition(self.negation(), word))
        self.depth -= 1
        return self.checked(node, word)

    def in_brackets(self) -> FilterNode:
        """Return the condition or value whose opening bracket has been taken."""
        self.enter()
        node = self.condition()
        self.depth -= 1
        self.expect_sign(")")
        return node

    # ---- values

    def sum(self) -> FilterNode:
        """Return what plus and minus join."""
        word = self.peek()
        node = self.product()
        while True:
            sign = self.peek()
            if sign.kind != SIGN or sign.written not in ("+", "-"):
                return node
            self.at += 1
            self.needs_value(node, word)
            word = self.peek()
            node = self.checked(Arithmetic(sign.written, node, self.needs_value(self.product(), word)), word)
