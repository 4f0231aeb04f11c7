"""Filters: from their text to a checked tree.

    condition   = conjunction { OR conjunction }
    conjunction = negation { AND negation }
    negation    = NOT negation | comparison
    comparison  = sum [ ( = | == | != | <> | < | <= | > | >= ) sum
                      | [NOT] BETWEEN sum AND sum | [NOT] IN ( value, … ) | [NOT] LIKE 'pattern'
                      | [NOT] BEGINS WITH sum | [NOT] ENDS WITH sum | IS [NOT] NULL | IS [NOT] NAN ]
    sum         = product { (+ | -) product }
    product     = sign { (* | / | % | MOD) sign }
    sign        = - sign | operand
    operand     = number | 'text' | TRUE | FALSE | NULL | /path | header.name | property | FUNCTION(…) | ( condition )

Words of the language are written in any case, properties in small letters.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import Final, NoReturn, final

from mypy_extensions import i64

from forebay.filter.functions import FUNCTIONS, PROPERTY_FUNCTIONS
from forebay.filter.grammar import END, NUMBER, SIGN, TEXT, Grammar, Lexeme
from forebay.filter.nodes import (
    CONDITION,
    EITHER,
    VALUE,
    Affix,
    Arithmetic,
    Between,
    Call,
    Comparison,
    FilterNode,
    In,
    IsNan,
    IsNull,
    Like,
    Literal,
    MessageProperty,
    Negative,
    Not,
    Path,
    RegexpReplace,
)
from forebay.filter.pattern import Pattern
from forebay.filter.program import BadPattern
from forebay.filter.subject import PROPERTIES, STEPS_A_LOOK, Subject
from forebay.filter.times import unknown_directive
from forebay.filter.tokens import PATH, WORD, Lexer, Token, refuse
from forebay.filter.values import AT_LEAST, AT_MOST, EQUAL, GREATER, LESS, UNEQUAL

DEPTH_MAX: Final = 64
ITEMS_MAX: Final = 1000  # of IN
COMPARISONS: Final = {
    "=": EQUAL,
    "==": EQUAL,
    "!=": UNEQUAL,
    "<>": UNEQUAL,
    "<": LESS,
    "<=": AT_MOST,
    ">": GREATER,
    ">=": AT_LEAST,
}
KINDS: Final = {"condition": CONDITION, "value": VALUE, "either": EITHER}
RESERVED: Final = ("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "BEGINS", "ENDS", "WITH", "IS", "MOD", "NAN")


@final
class Filter:
    """A checked filter.

    text       as it was given
    root       its tree
    properties      names of those that it asks for
    asks_body  it asks for something in the body
    size       nodes of its tree: a measure of what it costs
    """

    def __init__(self, text: str, root: FilterNode) -> None:
        self.text = text
        self.root = root
        self.properties: set[str] = set()
        self.asks_body = False
        self.size: i64 = 0
        self.gather(root)

    def gather(self, node: FilterNode) -> None:
        self.size += 1
        if isinstance(node, MessageProperty):
            self.properties.add(node.name)
        elif isinstance(node, Path) and node.header is None:
            self.asks_body = True
        for part in node.parts:
            self.gather(part)

    def matches(self, subject: Subject) -> bool:
        """Return whether the condition holds for a message. A condition that is unknown does not."""
        subject.steps = STEPS_A_LOOK
        return self.root.evaluate(subject) is True

    def value(self, subject: Subject) -> object:
        """Return the value of an expression (`parse_value`) for a message."""
        subject.steps = STEPS_A_LOOK
        return self.root.evaluate(subject)

    def written(self) -> str:
        """Return the filter as normalized text: its own spaces and brackets are gone."""
        return self.root.written()


def parse(text: str) -> Filter:
    """Parse a filter. Raises RequestError(INVALID), which names the wrong word and its position."""
    return Filter(text, Parser(Lexer(text).tokens()).whole())


def parse_value(text: str) -> Filter:
    """Parse an expression, which has a value. Raises RequestError(INVALID), as `parse`."""
    return Filter(text, Parser(Lexer(text).tokens()).whole_value())


@final
class Parser(Grammar):
    """Recursive descent over the words of one filter."""

    def __init__(self, tokens: list[Token], words: dict[str, str] | None = None) -> None:
        super().__init__(DEPTH_MAX)
        self.tokens = tokens
        self.words = words  # names of further properties that the subjects have

    def whole(self) -> FilterNode:
        root = self.condition()
        token = self.peek()
        if token.kind != END:
            refuse(token.at, token.written, "the filter is complete before it; AND or OR may follow")
        return self.needs_condition(root, self.tokens[0])

    def whole_value(self) -> FilterNode:
        """Return the tree of a text that is one value, and no condition."""
        root = self.condition()
        token = self.peek()
        if token.kind != END:
            refuse(token.at, token.written, "the expression is complete before it")
        return self.needs_value(root, self.tokens[0])

    # ---- words

    def peek(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.tokens[self.at]
        if token.kind != END:
            self.at += 1
        return token

    def next_is(self, keyword: str) -> bool:
        token = self.peek()
        return token.kind == WORD and token.upper == keyword

    def refuse(self, word: Lexeme, text: str) -> NoReturn:
        refuse(word.at, word.written, text)

    # ---- conditions

    def compared(self, node: FilterNode, token: Token) -> FilterNode:
        """Return a value for a comparison. Refuse NULL, as no comparison with it holds."""
        if isinstance(node, Literal) and node.value is None:
            refuse(token.at, token.written, "nothing is equal to NULL or an empty text; ask IS NULL")
        return self.needs_value(node, token)

    def comparison(self) -> FilterNode:
        start = self.peek()
        left = self.sum()
        token = self.peek()
        if token.kind == SIGN and token.written in COMPARISONS:
            self.at += 1
            self.compared(left, start)
            right_token = self.peek()
            right = self.compared(self.sum(), right_token)
            return Comparison(COMPARISONS[token.written], left, right)
        if token.kind != WORD:
            return left
        if self.takes_keyword("IS"):
            return self.is_test(self.needs_value(left, start))
        negated = self.takes_keyword("NOT")
        word = self.peek()
        if word.kind != WORD or word.upper not in ("BETWEEN", "IN", "LIKE", "BEGINS", "ENDS"):
            if negated:
                refuse(word.at, word.written, "after NOT here: BETWEEN, IN, LIKE, BEGINS WITH or ENDS WITH")
            return left
        self.at += 1
        node = self.test(word.upper, self.compared(left, start))
        return Not(node) if negated else node

    def is_test(self, value: FilterNode) -> FilterNode:
        negated = self.takes_keyword("NOT")
        token = self.take()
        node: FilterNode
        if token.kind == WORD and token.upper == "NULL":
            node = IsNull(value)
        elif token.kind == WORD and token.upper == "NAN":
            node = IsNan(value)
        else:
            refuse(token.at, token.written, "IS is followed by [NOT] NULL or [NOT] NAN")
        return Not(node) if negated else node

    def test(self, word: str, value: FilterNode) -> FilterNode:
        """The test that begins with BETWEEN, IN, LIKE, BEGINS or ENDS."""
        token = self.peek()
        if word == "BETWEEN":
            low = self.compared(self.sum(), token)
            self.expect_keyword("AND")
            token = self.peek()
            return Between(value, low, self.compared(self.sum(), token))
        if word == "IN":
            return In(value, self.items())
        if word == "LIKE":
            return Like(value, self.pattern("LIKE is followed by a pattern in quotes"))
        self.expect_keyword("WITH")
        token = self.peek()
        return Affix(word == "ENDS", value, self.compared(self.sum(), token))

    def items(self) -> list[FilterNode]:
        self.expect_sign("(")
        found: list[FilterNode] = []
        while True:
            token = self.peek()
            found.append(self.compared(self.sum(), token))
            if len(found) > ITEMS_MAX:
                refuse(token.at, token.written, f"more than {ITEMS_MAX} values for IN")
            if not self.takes_sign(","):
                break
        self.expect_sign(")")
        return found

    def pattern(self, wanted: str) -> Pattern:
        """Parse a regular expression. Refuse anything else with the text `wanted`."""
        token = self.take()
        if token.kind != TEXT or not isinstance(token.value, str):
            refuse(token.at, token.written, wanted)
        try:
            return Pattern(token.value)
        except BadPattern as error:
            refuse(token.at, token.written, f"the pattern's {error}")

    # ---- values

    def product(self) -> FilterNode:
        token = self.peek()
        node = self.signed()
        while True:
            next = self.peek()
            sign = next.written if next.kind == SIGN and next.written in ("*", "/", "%") else ""
            if next.kind == WORD and next.upper == "MOD":
                sign = "%"
            if not sign:
                return node
            self.at += 1
            self.needs_value(node, token)
            token = self.peek()
            node = self.checked(Arithmetic(sign, node, self.needs_value(self.signed(), token)), token)

    def signed(self) -> FilterNode:
        if not self.takes_sign("-"):
            return self.operand()
        self.enter()
        token = self.peek()
        node = Negative(self.needs_value(self.signed(), token))
        self.depth -= 1
        return self.checked(node, token)

    def operand(self) -> FilterNode:
        token = self.take()
        if token.kind in (NUMBER, TEXT):
            return Literal(token.value)
        if token.kind == PATH:
            return Path(token.header, token.steps)
        if token.kind == SIGN and token.written == "(":
            return self.in_brackets()
        if token.kind == WORD:
            return self.word(token)
        refuse(token.at, token.written, "a value is due here")

    def word(self, token: Token) -> FilterNode:
        """Parse a property, a function, TRUE, FALSE or NULL."""
        upper = token.upper
        if self.peek().kind == SIGN and self.peek().written == "(" and upper in FUNCTIONS:
            return self.regexp_replace() if upper == "REGEXP_REPLACE" else self.function(token)
        if self.peek().kind == SIGN and self.peek().written == "(" and upper in PROPERTY_FUNCTIONS:
            self.expect_sign("(")
            if not self.takes_sign(")"):
                refuse(token.at, token.written, f"{upper} takes no values")
            return MessageProperty(PROPERTY_FUNCTIONS[upper])
        if token.written in PROPERTIES or (self.words is not None and token.written in self.words):
            return MessageProperty(token.written)
        if upper == "TRUE":
            return Literal(True)
        if upper == "FALSE":
            return Literal(False)
        if upper == "NULL":
            return Literal(None)
        if upper in RESERVED:
            refuse(token.at, token.written, "a value is due here")
        if self.peek().kind == SIGN and self.peek().written == "(":
            refuse(token.at, token.written, f"no function; known are {', '.join([*FUNCTIONS, *PROPERTY_FUNCTIONS])}")
        near = get_close_matches(token.written, PROPERTIES, 1)
        meant = f"did you mean {near[0]}?" if near else f"known are {', '.join(PROPERTIES)}."
        refuse(token.at, token.written, f"nothing that is known of a message; {meant} Texts stand in quotes")

    def regexp_replace(self) -> FilterNode:
        """Parse the values of REGEXP_REPLACE. Its pattern is compiled here, so it has to be a literal."""
        self.expect_sign("(")
        self.enter()
        start = self.peek()
        value = self.needs_value(self.condition(), start)
        self.expect_sign(",")
        pattern = self.pattern("the second value of REGEXP_REPLACE is a pattern in quotes")
        self.expect_sign(",")
        start = self.peek()
        new = self.needs_value(self.condition(), start)
        self.depth -= 1
        self.expect_sign(")")
        return self.checked(RegexpReplace(value, pattern, new), start)

    def function(self, token: Token) -> FilterNode:
        name = token.upper
        signature = FUNCTIONS[name]
        self.expect_sign("(")
        self.enter()
        arguments: list[FilterNode] = []
        while True:
            start = self.peek()
            node = self.condition()
            if len(arguments) < signature.conditions:
                self.needs_condition(node, start)
            else:
                self.needs_value(node, start)
            arguments.append(node)
            if len(arguments) > signature.most or not self.takes_sign(","):
                break
        self.depth -= 1
        if not signature.least <= len(arguments) <= signature.most:
            wanted = f"{signature.least}"
            if signature.most > signature.least:
                wanted += f" to {signature.most}"
            refuse(token.at, token.written, f"{name} takes {wanted} values")
        self.expect_sign(")")
        if name in ("STRFTIME", "STRPTIME"):
            check_form(token, name, arguments)
        return self.checked(Call(name, KINDS[signature.gives], arguments), token)


def check_form(token: Token, name: str, arguments: list[FilterNode]) -> None:
    """Refuse a form of times that is written in the filter and has an unknown directive: it would always be NULL."""
    form = arguments[0 if name == "STRFTIME" else 1]
    if isinstance(form, Literal) and isinstance(form.value, str):
        unknown = unknown_directive(form.value, name == "STRPTIME")
        if unknown:
            refuse(token.at, token.written, f"'{unknown}' is nothing that {name} knows")
