"""The words of a filter: what its text is cut into before it is understood."""

from __future__ import annotations

from typing import Final, NoReturn, final

from mypy_extensions import i64

from forebay.core.errors import INVALID, RequestError
from forebay.filter.grammar import END, NUMBER, SIGN, TEXT, Lexeme
from forebay.filter.nodes import PathStep, is_plain
from forebay.filter.values import whole

FILTER_CHARACTERS_MAX: Final = 8192
SHOWN_CHARACTERS_MAX: Final = 40
DIGITS: Final = "0123456789"
INFINITE: Final = float("inf")
NUMBER_CHARACTERS_MAX: Final = 64
INDEX_DIGITS_MAX: Final = 9
STEPS_MAX: Final = 32

PATH: Final = 11
WORD: Final = 12

SIGNS: Final = ("==", "!=", "<>", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ",")


@final
class Token(Lexeme):
    """One word.

    upper   a WORD in capital letters
    header, steps  of a PATH: the name of the header, None for the body, and where it goes from there
    """

    def __init__(self, kind: i64, at: i64, written: str) -> None:
        super().__init__(kind, at, written, None)
        self.upper = written.upper() if kind == WORD else written
        self.header: str | None = None
        self.steps: list[PathStep] = []


def refuse(at: i64, word: str, text: str) -> NoReturn:
    """RequestError that names the place, counted from 1, and the word that is wrong there."""
    shown = ascii(word[:SHOWN_CHARACTERS_MAX]) if word else "the end"
    raise RequestError(INVALID, f"filter, position {at + 1}, {shown}: {text}")


@final
class Lexer:
    """Cuts a filter into words."""

    def __init__(self, text: str) -> None:
        if len(text) > FILTER_CHARACTERS_MAX:
            refuse(FILTER_CHARACTERS_MAX, text[FILTER_CHARACTERS_MAX:], f"over {FILTER_CHARACTERS_MAX} characters")
        self.text = text
        self.at: i64 = 0

    def tokens(self) -> list[Token]:
        """All words, END last."""
        found: list[Token] = []
        operand = True  # whether a value may stand here; if not, `/` divides
        while True:
            while self.peek().isspace():
                self.at += 1
            token = self.token(operand)
            found.append(token)
            if token.kind == END:
                return found
            operand = token.kind == SIGN and token.written != ")"
            if token.kind == WORD:
                operand = token.upper in OPERATORS

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def token(self, operand: bool) -> Token:
        start = self.at
        character = self.peek()
        if not character:
            return Token(END, start, "")
        if character in DIGITS:
            return self.number(start)
        if character in "'\"":
            token = Token(TEXT, start, "")
            token.value = self.quoted() or None
        elif character == "[" or (character == "/" and operand):
            token = Token(PATH, start, "")
            token.steps = self.bracketed_path(start) if character == "[" else self.steps(start)
        elif character.isidentifier():
            return self.word(start)
        else:
            return self.sign(start)
        token.written = self.text[start : self.at]
        return token

    def number(self, start: i64) -> Token:
        self.skip_digits()
        plain = True
        if self.peek() == ".":
            plain = False
            self.at += 1
            self.skip_digits()
        if self.peek() and self.peek() in "eE":
            plain = False
            self.at += 1
            if self.peek() and self.peek() in "+-":
                self.at += 1
            self.skip_digits()
        written = self.text[start : self.at]
        token = Token(NUMBER, start, written)
        if len(written) > NUMBER_CHARACTERS_MAX:
            refuse(start, written, f"a number of more than {NUMBER_CHARACTERS_MAX} characters")
        if written[-1] not in DIGITS or self.peek().isidentifier():
            refuse(start, written + self.peek(), "no number")
        token.value = whole(int(written)) if plain else float(written)
        if token.value == INFINITE:
            refuse(start, written, "a number beyond all that can be held")
        return token

    def skip_digits(self) -> None:
        while self.peek() and self.peek() in DIGITS:
            self.at += 1

    def quoted(self) -> str:
        """Read a text in quotes, in which a doubled quote stands for one."""
        start = self.at
        quote = self.peek()
        parts: list[str] = []
        while True:
            end: i64 = self.text.find(quote, self.at + 1)
            if end < 0:
                refuse(start, self.text[start:], "a text without its closing quote")
            parts.append(self.text[self.at + 1 : end])
            self.at = end + 1
            if self.peek() != quote:
                return quote.join(parts)

    def word(self, start: i64) -> Token:
        while self.peek() and (self.peek().isalnum() or self.peek() == "_"):
            self.at += 1
        written = self.text[start : self.at]
        if written == "header" and self.peek() == ".":
            self.at += 1
            token = Token(PATH, start, "")
            token.header = self.name(start)
            token.steps = self.steps(start)
            token.written = self.text[start : self.at]
            return token
        return Token(WORD, start, written)

    def sign(self, start: i64) -> Token:
        for sign in SIGNS:
            if self.text.startswith(sign, start):
                self.at += len(sign)
                return Token(SIGN, start, sign)
        refuse(start, self.peek(), "no word of a filter begins so")

    def name(self, start: i64) -> str:
        """Read the name of a field, with or without quotes."""
        if self.peek() and self.peek() in "'\"":
            return self.quoted()
        begun = self.at
        while self.peek() and is_plain(self.peek()):
            self.at += 1
        if self.at == begun:
            refuse(start, self.text[start : self.at + 1], "a path with a name missing")
        return self.text[begun : self.at]

    def steps(self, start: i64) -> list[PathStep]:
        """`/name` and `[0]`, as many as follow."""
        found: list[PathStep] = []
        while self.peek() and self.peek() in "/[":
            if self.peek() == "[":
                found.append(self.index(start))
            else:
                self.at += 1
                found.append(PathStep(self.name(start), 0))
        return self.checked(start, found)

    def checked(self, start: i64, steps: list[PathStep]) -> list[PathStep]:
        if len(steps) > STEPS_MAX:
            refuse(start, self.text[start : self.at], f"a path of more than {STEPS_MAX} steps")
        return steps

    def index(self, start: i64) -> PathStep:
        """`[0]`."""
        self.at += 1
        begun = self.at
        self.skip_digits()
        digits = self.text[begun : self.at]
        if not digits or len(digits) > INDEX_DIGITS_MAX or self.peek() != "]":
            refuse(start, self.text[start : self.at + 1], "'[' after a name wants an index and ']'")
        self.at += 1
        return PathStep(None, int(digits))

    def bracketed_path(self, start: i64) -> list[PathStep]:
        """`[/name with space/other]`."""
        self.at += 1
        found: list[PathStep] = []
        while self.peek() == "/":
            self.at += 1
            begun = self.at
            while self.peek() and self.peek() not in "/[]":
                self.at += 1
            if self.at == begun:
                refuse(start, self.text[start : self.at + 1], "a path with a name missing")
            found.append(PathStep(self.text[begun : self.at], 0))
            while self.peek() == "[":
                found.append(self.index(start))
        if self.peek() != "]" or not found:
            refuse(start, self.text[start : self.at + 1], "'[' here begins a path in brackets, as in [/a b/c]")
        self.at += 1
        return self.checked(start, found)


# Words behind which a value stands.
OPERATORS: Final = ("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "WITH", "MOD", "IS")
