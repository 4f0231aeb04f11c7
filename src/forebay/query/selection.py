"""The lists of expressions in a query: what it selects, what it groups by, and the order of its rows.

    select   = item { , item }      item = expression [ AS name ]
    group_by = expression { , expression }
    order_by = key { , key }        key = ( name of a column | expression ) [ ASC | DESC ]

An expression is one of the filter language; an item of `select` may also be COUNT(*), or an aggregate function of one.
"""

from __future__ import annotations

from typing import Final, final

from forebay.core.errors import INVALID, RequestError
from forebay.filter.grammar import END, SIGN, TEXT
from forebay.filter.nodes import FilterNode, Path, follow
from forebay.filter.parser import Filter, Parser
from forebay.filter.subject import STEPS_A_LOOK
from forebay.filter.tokens import PATH, WORD, Lexer, Token
from forebay.filter.values import OPAQUE
from forebay.message.shown import plain
from forebay.query.aggregates import AGGREGATES
from forebay.query.subject import STATE_WORDS, QuerySubject

COLUMNS_MAX: Final = 64


@final
class Column:
    """One column of the rows.

    name       key of the rows
    aggregate  one of AGGREGATES; empty: the column is its expression
    node       the expression; None in COUNT(*)
    written    the item without its name, to tell whether two are the same
    """

    def __init__(self, name: str, aggregate: str, node: FilterNode | None) -> None:
        self.aggregate = aggregate
        self.node = node
        inner = "*" if node is None else node.written()
        self.written = f"{aggregate}({inner})" if aggregate else inner
        self.name = name or self.written

    def value(self, subject: QuerySubject) -> object:
        """Return the expression's value for a message, in terms of the filter language; of COUNT(*) True."""
        node = self.node
        if node is None:
            return True
        subject.steps = STEPS_A_LOOK
        return node.evaluate(subject)

    def shown(self, subject: QuerySubject) -> object:
        """Return the expression's value as JSON has it: of a path whatever stands there, objects too."""
        node = self.node
        if isinstance(node, Path):
            start = subject.body() if node.header is None else subject.header(node.header)
            return plain(follow(start, node.steps))
        return shown_value(self.value(subject))


@final
class OrderKey:
    """One key of the order of rows.

    column  place of the column that it is; -1: `node` is evaluated for each message
    """

    def __init__(self, column: int, node: FilterNode | None, descends: bool) -> None:
        self.column = column
        self.node = node
        self.descends = descends


def shown_value(value: object) -> object:
    """Return a value of the filter language as JSON has it."""
    return None if value is OPAQUE else plain(value)


def parse_where(text: str) -> Filter:
    """Parse the condition of a query. Raises RequestError(INVALID)."""
    return Filter(text, Parser(Lexer(text).tokens(), STATE_WORDS).whole())


def parse_select(text: str) -> list[Column]:
    """Parse `select`. Raises RequestError(INVALID)."""
    parser = ListParser("select", text)
    columns: list[Column] = []
    names: set[str] = set()
    while True:
        column = parser.item()
        if column.name in names:
            raise RequestError(INVALID, f"select: two columns have the name {column.name!r}; tell them apart with AS")
        names.add(column.name)
        columns.append(column)
        if not parser.goes_on(len(columns)):
            return columns


def parse_group_by(text: str) -> list[FilterNode]:
    """Parse `group_by`. Raises RequestError(INVALID)."""
    parser = ListParser("group_by", text)
    nodes: list[FilterNode] = []
    while True:
        nodes.append(parser.expression())
        if not parser.goes_on(len(nodes)):
            return nodes


def parse_order_by(text: str, columns: list[Column], is_grouped: bool) -> list[OrderKey]:
    """Parse `order_by`. Raises RequestError(INVALID).

    is_grouped  rows are groups, which can be ordered by their columns alone
    """
    parser = ListParser("order_by", text)
    keys: list[OrderKey] = []
    while True:
        place = parser.named_column(columns)
        node: FilterNode | None = None
        if place < 0:
            item = parser.expression_or_aggregate()
            for at, column in enumerate(columns):
                if column.written == item.written:
                    place = at
            if place < 0 and (is_grouped or item.aggregate):
                raise RequestError(INVALID, f"order_by: {item.written!r} is no column of select")
            node = item.node
        keys.append(OrderKey(place, node, parser.descends()))
        if not parser.goes_on(len(keys)):
            return keys


@final
class ListParser:
    """The words of one list; expressions are the filter language's.

    argument  name of the list, for the texts of errors
    """

    def __init__(self, argument: str, text: str) -> None:
        self.argument = argument
        self.parser = Parser(self.tokens(text), STATE_WORDS)

    def tokens(self, text: str) -> list[Token]:
        try:
            return Lexer(text).tokens()
        except RequestError as error:
            raise self.renamed(error) from None

    def renamed(self, error: RequestError) -> RequestError:
        """Return an error of the filter language with the argument's name."""
        return RequestError(INVALID, f"{self.argument}{error.text.removeprefix('filter')}")

    def refuse(self, token: Token, text: str) -> RequestError:
        shown = ascii(token.written) if token.written else "the end"
        return RequestError(INVALID, f"{self.argument}, position {int(token.at) + 1}, {shown}: {text}")

    def item(self) -> Column:
        """Return an expression or aggregate, with its name if it has one."""
        found = self.expression_or_aggregate()
        if not self.parser.takes_keyword("AS"):
            return found
        token = self.parser.take()
        name = token.written
        if token.kind == TEXT and isinstance(token.value, str):
            name = token.value
        elif token.kind not in (WORD, PATH):
            raise self.refuse(token, "the name of a column is due here")
        return Column(name, found.aggregate, found.node)

    def expression_or_aggregate(self) -> Column:
        parser = self.parser
        token = parser.peek()
        name = token.upper
        following = parser.tokens[int(parser.at) + 1] if token.kind == WORD else token
        is_call = following.kind == SIGN and following.written == "("
        if token.kind != WORD or name not in AGGREGATES or not is_call:
            return Column("", "", self.expression())
        parser.at += 2
        if name == "COUNT" and parser.takes_sign("*"):
            node: FilterNode | None = None
        else:
            node = self.expression()
        if not parser.takes_sign(")"):
            raise self.refuse(parser.peek(), "')' is due here")
        return Column("", name, node)

    def expression(self) -> FilterNode:
        """Return an expression of the filter language: a value or a condition."""
        try:
            return self.parser.condition()
        except RequestError as error:
            raise self.renamed(error) from None

    def named_column(self, columns: list[Column]) -> int:
        """Pass over the name of a column if it stands alone, and return its place; -1 if there is none."""
        parser = self.parser
        token = parser.peek()
        if token.kind not in (WORD, PATH, TEXT):
            return -1
        after = parser.tokens[int(parser.at) + 1]
        is_alone = after.kind == END or after.written == "," or (after.kind == WORD and after.upper in ("ASC", "DESC"))
        name = token.value if token.kind == TEXT else token.written
        for place, column in enumerate(columns):
            if is_alone and column.name == name:
                parser.at += 1
                return place
        return -1

    def descends(self) -> bool:
        """Pass over ASC or DESC; return whether it is DESC."""
        if self.parser.takes_keyword("DESC"):
            return True
        self.parser.takes_keyword("ASC")
        return False

    def goes_on(self, count: int) -> bool:
        """Return whether another item follows the first `count`. Raises RequestError for anything else, or too many."""
        parser = self.parser
        if count > COLUMNS_MAX:
            raise RequestError(INVALID, f"{self.argument}: has more than {COLUMNS_MAX} items")
        if parser.takes_sign(","):
            return True
        token = parser.peek()
        if token.kind != END:
            raise self.refuse(token, "a comma or the end is due here")
        return False
