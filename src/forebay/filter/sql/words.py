"""The words of a selector: what its text is cut into before it is understood."""

from __future__ import annotations

from typing import Final, NoReturn, final

from forebay.core.errors import INVALID, RequestError
from forebay.filter.grammar import END, NUMBER, SIGN, TEXT, Lexeme
from forebay.filter.values import INTEGER_MOST

SELECTOR_CHARACTERS_MAX: Final = 4096
TOKENS_MAX: Final = 200
SHOWN_CHARACTERS_MAX: Final = 40
NUMBER_CHARACTERS_MAX: Final = 64
DIGITS: Final = "0123456789"
INFINITE: Final = float("inf")

NAME: Final = 11  # which may be a keyword
DELIMITED: Final = 12  # a name between brackets, which is none; its value is the name

SIGNS: Final = ("<>", "!=", "<=", ">=", "=", "<", ">", "+", "-", "*", "/", "%", "(", ")", ",")


def refuse(at: int, word: str, text: str) -> NoReturn:
    """Refuse a selector, by the position, counted from 1, and the word that is wrong there."""
    shown = ascii(word[:SHOWN_CHARACTERS_MAX]) if word else "the end"
    raise RequestError(INVALID, f"selector, position {at + 1}, {shown}: {text}")


@final
class SelectorLexer:
    """Cuts a selector into words.

    is_jms  the text is a JMS selector: no brackets and no text in double quotes, but `1L` and `1.5D`
    """

    def __init__(self, text: str, is_jms: bool) -> None:
        if len(text) > SELECTOR_CHARACTERS_MAX:
            rest = text[SELECTOR_CHARACTERS_MAX:]
            refuse(SELECTOR_CHARACTERS_MAX, rest, f"over {SELECTOR_CHARACTERS_MAX} characters")
        self.text = text
        self.is_jms = is_jms
        self.at = 0

    def tokens(self) -> list[Lexeme]:
        """Return all words, END last."""
        found: list[Lexeme] = []
        while True:
            while self.peek().isspace():
                self.at += 1
            token = self.token()
            found.append(token)
            if token.kind == END:
                return found
            if len(found) > TOKENS_MAX:
                refuse(token.at, token.written, f"more than {TOKENS_MAX} words")

    def peek(self, ahead: int = 0) -> str:
        return self.text[self.at + ahead] if self.at + ahead < len(self.text) else ""

    def token(self) -> Lexeme:
        start = self.at
        character = self.peek()
        if not character:
            return Lexeme(END, start, "", None)
        if is_digit(character) or (character == "." and is_digit(self.peek(1))):
            return self.number(start)
        if character == "'" or (character == '"' and not self.is_jms):
            value = self.quoted(character)
            if not value:
                refuse(start, self.text[start : self.at], "nothing equals an empty text: ask IS NULL")
            return Lexeme(TEXT, start, self.text[start : self.at], value)
        if character == "[" and not self.is_jms:
            return self.delimited(start)
        if is_name_start(character):
            while is_name_part(self.peek()):
                self.at += 1
            return Lexeme(NAME, start, self.text[start : self.at], None)
        for sign in SIGNS:
            if self.text.startswith(sign, start) and not (sign == "%" and self.is_jms):
                self.at += len(sign)
                return Lexeme(SIGN, start, sign, None)
        refuse(start, character, "no word of a selector begins so")

    def number(self, start: int) -> Lexeme:
        if self.text.startswith(("0x", "0X"), start):
            refuse(start, self.text[start : start + 2], "numbers and octets in hexadecimal digits are not known here")
        self.skip_digits()
        is_whole = True
        if self.peek() == ".":
            is_whole = False
            self.at += 1
            self.skip_digits()
        if self.peek() and self.peek() in "eE":
            is_whole = False
            self.at += 2 if self.peek(1) and self.peek(1) in "+-" else 1
            if not is_digit(self.peek()):
                refuse(start, self.text[start : self.at], "no number")
            self.skip_digits()
        written = self.text[start : self.at]
        if self.is_jms and self.peek() and self.peek() in "lLfFdD":
            is_whole = is_whole and self.peek() in "lL"
            self.at += 1
        if is_name_part(self.peek()):
            refuse(start, self.text[start : self.at + 1], "no number")
        if len(written) > NUMBER_CHARACTERS_MAX:
            refuse(start, written, f"a number of more than {NUMBER_CHARACTERS_MAX} characters")
        value: object = int(written) if is_whole else float(written)
        if value == INFINITE or (isinstance(value, int) and value > INTEGER_MOST):
            refuse(start, written, "a number beyond all that can be held")
        return Lexeme(NUMBER, start, self.text[start : self.at], value)

    def skip_digits(self) -> None:
        while is_digit(self.peek()):
            self.at += 1

    def quoted(self, quote: str) -> str:
        """Return a text in quotes, where a doubled quote stands for one."""
        start = self.at
        parts: list[str] = []
        while True:
            end = self.text.find(quote, self.at + 1)
            if end < 0:
                refuse(start, self.text[start:], "a text without its closing quote")
            parts.append(self.text[self.at + 1 : end])
            self.at = end + 1
            if self.peek() != quote:
                return quote.join(parts)

    def delimited(self, start: int) -> Lexeme:
        end = self.text.find("]", start)
        if end <= start + 1:
            refuse(start, self.text[start:], "a name in brackets is empty, or without its closing bracket")
        self.at = end + 1
        return Lexeme(DELIMITED, start, self.text[start : self.at], self.text[start + 1 : end])


def is_digit(character: str) -> bool:
    """Return whether a character is one of 0 to 9."""
    return character != "" and character in DIGITS


def is_name_start(character: str) -> bool:
    """Return whether a name may begin with this character."""
    return character.isidentifier() or character == "$"


def is_name_part(character: str) -> bool:
    """Return whether a name may go on with this character; a dot parts the section from the field."""
    return character != "" and (character.isalnum() or character in "_$.")
