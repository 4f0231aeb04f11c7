"""The headers exchange: a message goes where the pairs that a binding asks for are among its headers."""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.core.errors import PRECONDITION, RequestError
from forebay.routing.exchange import HEADERS, Binding, Exchange, frozen, text, type_name

MATCH: Final = "x-match"
WITH_X: Final = "-with-x"
SIGNATURES_MAX: Final = 10_000  # of one exchange


@final
class HeaderPattern:
    """The pairs that a binding of a headers exchange asks for, in the order of their names.

    values  frozen values; "" where the mere presence of the header is asked for (no value freezes to "")
    """

    def __init__(self, arguments: dict[str, object]) -> None:
        kind = arguments.get(MATCH, "all")
        if not isinstance(kind, str):
            raise RequestError(
                PRECONDITION, f"Invalid x-match field type {type_name(kind)} (value {kind!r}); expected longstr"
            )
        if kind not in ("all", "any", "all-with-x", "any-with-x"):
            raise RequestError(
                PRECONDITION,
                f'Invalid x-match field value <<"{kind}">>; expected all, any, all-with-x, or any-with-x',
            )
        self.all = kind.startswith("all")
        with_x = kind.endswith(WITH_X)
        self.names: list[str] = []
        self.values: list[str] = []
        for name in sorted(arguments):
            if name == MATCH or (not with_x and name.startswith("x-")):
                continue
            value = arguments[name]
            self.names.append(name)
            self.values.append("" if value is None else frozen(value))

    def signature(self) -> str:
        """Return a text of the names and whether each value matters. Bindings that differ in values only share it."""
        parts: list[str] = []
        for index in range(len(self.names)):
            mark = "=" if self.values[index] else "?"
            parts.append(mark + repr(self.names[index]))
        return "".join(parts)


@final
class Signature:
    """All "all" bindings that ask for the same names: found by the values that the message has for them."""

    def __init__(self, key: str, pattern: HeaderPattern) -> None:
        self.key = key
        self.names = pattern.names
        self.present_only: list[bool] = []
        for value in pattern.values:
            self.present_only.append(not value)
        self.anchor = ""
        self.by_values: dict[str, dict[int, Binding]] = {}

    def project(self, headers: dict[str, str]) -> str | None:
        """Return a message's values for the pattern's names as one text, or None if it lacks one of them."""
        parts: list[str] = []
        for index in range(len(self.names)):
            value = headers.get(self.names[index])
            if value is None:
                return None
            parts.append("" if self.present_only[index] else value)
        return "\0".join(parts)


@final
class HeadersExchange(Exchange):
    """Routes to destinations whose arguments the message's headers fit: all of them, or any (`x-match`).

    "any" bindings are looked up by each of the message's pairs. "all" bindings with the same names form a signature,
    within which one lookup finds those that match; a signature is tried only for messages that have its anchor, the
    one of its names with the fewest signatures so far. So cost grows with the sets of names that are used together,
    not with the number of bindings.

    spent  steps of the last `route`: names of signatures compared, and bindings found
    """

    def __init__(
        self, name: bytes, durable: bool, auto_delete: bool, internal: bool, arguments: dict[str, object]
    ) -> None:
        super().__init__(name, HEADERS, durable, auto_delete, internal, arguments)
        self.by_content = True
        self.spent: i64 = 0
        self.always: dict[int, Binding] = {}  # "all" of nothing; by sequence, as the others
        self.any_pairs: dict[str, dict[str, dict[int, Binding]]] = {}  # name -> frozen value or "" -> bindings
        self.signatures: dict[str, Signature] = {}
        self.anchors: dict[str, dict[str, Signature]] = {}  # name -> signature key -> signature

    def check_bind(self, routing_key: bytes, arguments: dict[str, object]) -> None:
        frozen(arguments)
        pattern = HeaderPattern(arguments)
        if not pattern.all or not pattern.names or len(self.signatures) < SIGNATURES_MAX:
            return
        if pattern.signature() not in self.signatures:
            raise RequestError(
                PRECONDITION,
                f"exchange '{text(self.name)}' has bindings for {SIGNATURES_MAX} different sets of header "
                "names, which is the limit",
            )

    def connect(self, binding: Binding) -> None:
        pattern = HeaderPattern(binding.arguments)
        if not pattern.all:
            for index in range(len(pattern.names)):
                values = self.any_pairs.setdefault(pattern.names[index], {})
                values.setdefault(pattern.values[index], {})[binding.sequence] = binding
        elif not pattern.names:
            self.always[binding.sequence] = binding
        else:
            signature = self.signature_of(pattern)
            signature.by_values.setdefault("\0".join(pattern.values), {})[binding.sequence] = binding

    def signature_of(self, pattern: HeaderPattern) -> Signature:
        """Return the signature of an "all" pattern, which is added if it is new."""
        key = pattern.signature()
        signature = self.signatures.get(key)
        if signature is not None:
            return signature
        signature = self.signatures[key] = Signature(key, pattern)
        anchor = pattern.names[0]
        fewest = len(self.signatures)
        for name in pattern.names:
            load = len(self.anchors[name]) if name in self.anchors else 0
            if load < fewest:
                fewest = load
                anchor = name
        signature.anchor = anchor
        self.anchors.setdefault(anchor, {})[key] = signature
        return signature

    def disconnect(self, binding: Binding) -> None:
        pattern = HeaderPattern(binding.arguments)
        if not pattern.all:
            for index in range(len(pattern.names)):
                name = pattern.names[index]
                values = self.any_pairs[name]
                del values[pattern.values[index]][binding.sequence]
                if not values[pattern.values[index]]:
                    del values[pattern.values[index]]
                if not values:
                    del self.any_pairs[name]
        elif not pattern.names:
            del self.always[binding.sequence]
        else:
            self.leave_signature(binding, pattern)

    def leave_signature(self, binding: Binding, pattern: HeaderPattern) -> None:
        """Forget an "all" binding, and its signature if it was the last."""
        signature = self.signatures[pattern.signature()]
        values = "\0".join(pattern.values)
        found = signature.by_values[values]
        del found[binding.sequence]
        if found:
            return
        del signature.by_values[values]
        if signature.by_values:
            return
        del self.signatures[signature.key]
        beside = self.anchors[signature.anchor]
        del beside[signature.key]
        if not beside:
            del self.anchors[signature.anchor]

    def route(self, routing_key: bytes, headers: list[tuple[str, object]]) -> list[int]:
        found: dict[int, Binding] = dict(self.always)
        values: dict[str, str] = {}
        self.spent = 0
        for name, value in headers:
            if name not in values:
                values[name] = frozen(value)
        for name, value_text in values.items():
            pairs = self.any_pairs.get(name)
            if pairs is not None:
                merge(found, pairs.get(value_text))
                merge(found, pairs.get(""))
            anchored = self.anchors.get(name)
            if anchored is not None:
                for signature in anchored.values():
                    self.spent += 1 + len(signature.names)
                    projected = signature.project(values)
                    if projected is not None:
                        merge(found, signature.by_values.get(projected))
        self.spent += len(found)
        if not found:
            return []
        seen: dict[int, None] = {}
        for sequence in sorted(found):
            seen[found[sequence].destination] = None
        return list(seen)


def merge(found: dict[int, Binding], more: dict[int, Binding] | None) -> None:
    """Add what a lookup came back with."""
    if more is not None:
        found.update(more)
