"""Selectors of JMS, and the SQL filters of AMQP: from their text to a filter of the broker's own language.

    condition   = conjunction { OR conjunction }
    conjunction = negation { AND negation }
    negation    = NOT negation | comparison
    comparison  = sum [ ( = | <> | != | < | <= | > | >= ) sum
                      | [NOT] BETWEEN sum AND sum | [NOT] IN ( sum, … )
                      | [NOT] LIKE 'pattern' [ESCAPE 'c'] | IS [NOT] NULL ]
    sum         = product { (+ | -) product }
    product     = sign { (* | / | %) sign }
    sign        = (- | +) sign | operand
    operand     = number | 'text' | TRUE | FALSE | name | ( condition )

A JMS selector has BETWEEN, and keywords in any case. An SQL filter has `%`, names with a section before the dot, names
in brackets, and keywords in capital letters. Both have LIKE with `%` and `_`, of the whole text.
"""

from __future__ import annotations

from typing import Final, NoReturn, final

from forebay.filter.grammar import END, NUMBER, SIGN, TEXT, Grammar, Lexeme
from forebay.filter.nodes import (
    Arithmetic,
    Between,
    Comparison,
    FilterNode,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Path,
)
from forebay.filter.pattern import Pattern
from forebay.filter.program import BadPattern
from forebay.filter.sql.names import jms_name, sql_name
from forebay.filter.sql.words import DELIMITED, NAME, SelectorLexer, refuse
from forebay.filter.tokens import FILTER_CHARACTERS_MAX
from forebay.filter.values import AT_LEAST, AT_MOST, EQUAL, GREATER, LESS, UNEQUAL

DEPTH_MAX: Final = 24  # well below that of the filter language, which counts brackets as well
COMPARISONS: Final = {
    "=": EQUAL,
    "<>": UNEQUAL,
    "!=": UNEQUAL,
    "<": LESS,
    "<=": AT_MOST,
    ">": GREATER,
    ">=": AT_LEAST,
}
KEYWORDS: Final = ("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE")


def parse_jms(text: str) -> str:
    """Return the filter that a JMS selector stands for; refuse a selector by position."""
    return SelectorParser(text, True).translate()


def parse_sql(text: str) -> str:
    """Return the filter that an SQL filter stands for; refuse an SQL filter by position."""
    return SelectorParser(text, False).translate()


def like_pattern(words: str, escape: str) -> str:
    """Return the regular expression of a LIKE pattern. Raises BadPattern if `escape` escapes nothing."""
    made = ["\\A"]
    at = 0
    while at < len(words):
        character = words[at]
        at += 1
        if character == escape:
            character = words[at : at + 1]
            if not character or (character not in ("%", "_", escape)):
                raise BadPattern(f"character {at}: the escape character has no '%' or '_' behind it")
            at += 1
            made.append(literal_character(character))
        elif character == "%":
            if made[-1] != ".*":
                made.append(".*")
        else:
            made.append("." if character == "_" else literal_character(character))
    made.append("\\z")
    return "".join(made)


def literal_character(character: str) -> str:
    """Return the regular expression of one character."""
    return character if character.isalnum() or character.isspace() or not character.isascii() else "\\" + character


@final
class SelectorParser(Grammar):
    """Recursive descent over the words of one selector."""

    def __init__(self, text: str, is_jms: bool) -> None:
        super().__init__(DEPTH_MAX)
        self.tokens = SelectorLexer(text, is_jms).tokens()
        self.is_jms = is_jms

    def translate(self) -> str:
        """Return the selector in the filter language."""
        first = self.peek()
        root = self.condition()
        token = self.peek()
        if token.kind != END:
            refuse(token.at, token.written, "the selector is complete before it; AND or OR may follow")
        written = self.needs_condition(root, first).written()
        if len(written) > FILTER_CHARACTERS_MAX:
            refuse(first.at, first.written, f"as a filter it has over {FILTER_CHARACTERS_MAX} characters")
        return written

    # ---- words

    def peek(self) -> Lexeme:
        return self.tokens[self.at]

    def take(self) -> Lexeme:
        token = self.tokens[self.at]
        if token.kind != END:
            self.at += 1
        return token

    def keyword(self) -> str:
        """Return the keyword that is next, "" if it is none."""
        token = self.peek()
        if token.kind != NAME:
            return ""
        word = token.written.upper() if self.is_jms else token.written
        return word if word in KEYWORDS else ""

    def next_is(self, keyword: str) -> bool:
        return self.keyword() == keyword

    def refuse(self, word: Lexeme, text: str) -> NoReturn:
        refuse(word.at, word.written, text)

    # ---- conditions

    def comparison(self) -> FilterNode:
        start = self.peek()
        left = self.sum()
        token = self.peek()
        if token.kind == SIGN and token.written in COMPARISONS:
            self.at += 1
            right = self.value()
            return self.checked(Comparison(COMPARISONS[token.written], self.needs_value(left, start), right), start)
        if self.takes_keyword("IS"):
            negated = self.takes_keyword("NOT")
            if not self.takes_keyword("NULL"):
                refuse(self.peek().at, self.peek().written, "IS is followed by [NOT] NULL")
            node: FilterNode = IsNull(self.needs_value(left, start))
            return self.checked(Not(node) if negated else node, start)
        negated = self.takes_keyword("NOT")
        word = self.keyword()
        if word not in ("BETWEEN", "IN", "LIKE") or (word == "BETWEEN" and not self.is_jms):
            if negated:
                refuse(self.peek().at, self.peek().written, "NOT here is followed by IN, LIKE, or in JMS by BETWEEN")
            return left
        self.at += 1
        node = self.test(word, self.needs_value(left, start))
        return self.checked(Not(node) if negated else node, start)

    def test(self, word: str, value: FilterNode) -> FilterNode:
        """Return the test that begins with BETWEEN, IN or LIKE."""
        if word == "BETWEEN":
            low = self.value()
            self.expect_keyword("AND")
            return Between(value, low, self.value())
        if word == "LIKE":
            return Like(value, self.pattern())
        self.expect_sign("(")
        items = [self.value()]
        while self.takes_sign(","):
            items.append(self.value())
        self.expect_sign(")")
        return In(value, items)

    def pattern(self) -> Pattern:
        """Return the pattern behind LIKE, which is of the whole text."""
        token = self.take()
        if token.kind != TEXT or not isinstance(token.value, str):
            refuse(token.at, token.written, "LIKE is followed by a pattern in quotes")
        escape = ""
        if self.takes_keyword("ESCAPE"):
            behind = self.take()
            if behind.kind != TEXT or not isinstance(behind.value, str) or len(behind.value) != 1:
                refuse(behind.at, behind.written, "ESCAPE is followed by one character in quotes")
            escape = behind.value
        try:
            return Pattern(like_pattern(token.value, escape))
        except BadPattern as error:
            refuse(token.at, token.written, f"the pattern's {error}")

    # ---- values

    def value(self) -> FilterNode:
        token = self.peek()
        return self.needs_value(self.sum(), token)

    def product(self) -> FilterNode:
        token = self.peek()
        node = self.signed()
        while self.peek().kind == SIGN and self.peek().written in ("*", "/", "%"):
            sign = self.take().written
            self.needs_value(node, token)
            token = self.peek()
            node = self.checked(Arithmetic(sign, node, self.needs_value(self.signed(), token)), token)
        return node

    def signed(self) -> FilterNode:
        is_negative = self.takes_sign("-")
        if not is_negative and not self.takes_sign("+"):
            return self.operand()
        self.enter()
        token = self.peek()
        node = self.needs_value(self.signed(), token)
        self.depth -= 1
        return self.checked(Negative(node), token) if is_negative else node

    def operand(self) -> FilterNode:
        token = self.peek()
        word = self.keyword()
        self.take()
        if token.kind in (NUMBER, TEXT):
            return Literal(token.value)
        if token.kind == SIGN and token.written == "(":
            return self.in_brackets()
        if word in ("TRUE", "FALSE"):
            return Literal(word == "TRUE")
        if word or token.kind not in (NAME, DELIMITED):
            refuse(token.at, token.written, "a value is due here")
        if self.peek().kind == SIGN and self.peek().written == "(":
            refuse(token.at, token.written, "functions are not known here")
        name = token.value if token.kind == DELIMITED else token.written
        assert isinstance(name, str)
        if token.kind == DELIMITED:
            return Path(name, [])
        return jms_name(name, token.at) if self.is_jms else sql_name(name, token.at)
