"""The source and the target of a link (parts 3.5 and 4.5 of the standard).

source 0x28   target 0x29   coordinator 0x30
delete-on-close 0x2b   delete-on-no-links 0x2c   delete-on-no-messages 0x2d   delete-on-no-links-or-messages 0x2e
"""

from __future__ import annotations

from typing import Final, final

from mypy_extensions import i64

from forebay.wire.amqp10.fields import FieldReader, code_of, symbol_or_none, true_or_none, uint_or_none
from forebay.wire.amqp10.states import state_of
from forebay.wire.amqp10.values import Composite, Described, Symbol, Uint, symbol_array, symbol_map

SOURCE: Final = 0x28
TARGET: Final = 0x29
DELETE_ON_CLOSE: Final = 0x2B
DELETE_ON_NO_LINKS: Final = 0x2C
DELETE_ON_NO_MESSAGES: Final = 0x2D
DELETE_ON_NO_LINKS_OR_MESSAGES: Final = 0x2E
COORDINATOR: Final = 0x30

TERMINUS_NAMES: Final = {
    "amqp:source:list": SOURCE,
    "amqp:target:list": TARGET,
    "amqp:delete-on-close:list": DELETE_ON_CLOSE,
    "amqp:delete-on-no-links:list": DELETE_ON_NO_LINKS,
    "amqp:delete-on-no-messages:list": DELETE_ON_NO_MESSAGES,
    "amqp:delete-on-no-links-or-messages:list": DELETE_ON_NO_LINKS_OR_MESSAGES,
    "amqp:coordinator:list": COORDINATOR,
}

# The part of a terminus that survives the link (section 3.5.5).
DURABLE_NONE: Final = 0
DURABLE_CONFIGURATION: Final = 1
DURABLE_UNSETTLED_STATE: Final = 2

# The event that starts the expiry timer of a terminus (section 3.5.6).
LINK_DETACH: Final = "link-detach"
SESSION_END: Final = "session-end"
CONNECTION_CLOSE: Final = "connection-close"
NEVER: Final = "never"

MOVE: Final = "move"
COPY: Final = "copy"


@final
class LinkSource(Composite):
    """The end of a link that messages come from.

    address               name of the node; None for a dynamic node to be created, or if there is no node
    durable               what survives the link, DURABLE_NONE to DURABLE_UNSETTLED_STATE
    timeout               seconds for which the source is kept after the event `expiry_policy`
    dynamic_properties    requested properties of a dynamic node, by name
    distribution_mode     MOVE or COPY, None if the node decides
    filter                filters by key, in general each a `Described`
    default_outcome       outcome of deliveries that are settled without one
    outcomes              descriptors of the supported outcomes, as symbols
    """

    def __init__(self, address: str | None = None) -> None:
        super().__init__(SOURCE)
        self.address = address
        self.durable: i64 = DURABLE_NONE
        self.expiry_policy = SESSION_END
        self.timeout: i64 = 0
        self.dynamic = False
        self.dynamic_properties: dict[str, object] | None = None
        self.distribution_mode: str | None = None
        self.filter: dict[str, object] | None = None
        self.default_outcome: object = None
        self.outcomes: list[str] = []
        self.capabilities: list[str] = []

    def fields(self) -> list[object]:
        return [
            self.address,
            uint_or_none(self.durable) if self.durable else None,
            Symbol(self.expiry_policy) if self.expiry_policy != SESSION_END else None,
            Uint(int(self.timeout)) if self.timeout else None,
            true_or_none(self.dynamic),
            symbol_map(self.dynamic_properties),
            symbol_or_none(self.distribution_mode),
            symbol_map(self.filter),
            self.default_outcome,
            symbol_array(self.outcomes),
            symbol_array(self.capabilities),
        ]


@final
class LinkTarget(Composite):
    """The end of a link that messages go to: see `LinkSource`. Without an address each message names its own."""

    def __init__(self, address: str | None = None) -> None:
        super().__init__(TARGET)
        self.address = address
        self.durable: i64 = DURABLE_NONE
        self.expiry_policy = SESSION_END
        self.timeout: i64 = 0
        self.dynamic = False
        self.dynamic_properties: dict[str, object] | None = None
        self.capabilities: list[str] = []

    def fields(self) -> list[object]:
        return [
            self.address,
            uint_or_none(self.durable) if self.durable else None,
            Symbol(self.expiry_policy) if self.expiry_policy != SESSION_END else None,
            Uint(int(self.timeout)) if self.timeout else None,
            true_or_none(self.dynamic),
            symbol_map(self.dynamic_properties),
            symbol_array(self.capabilities),
        ]


@final
class Coordinator(Composite):
    """The target of a link that declares and discharges transactions."""

    def __init__(self, capabilities: list[str]) -> None:
        super().__init__(COORDINATOR)
        self.capabilities = capabilities

    def fields(self) -> list[object]:
        return [symbol_array(self.capabilities)]


@final
class LifetimePolicy(Composite):
    """The rule that deletes a dynamic node: DELETE_ON_CLOSE to DELETE_ON_NO_LINKS_OR_MESSAGES."""

    def __init__(self, code: i64) -> None:
        super().__init__(code)

    def fields(self) -> list[object]:
        return []


def lifetime_of(value: object) -> i64:
    """Return the code of a lifetime policy from a dynamic node's properties, or 0 for any other value."""
    if not isinstance(value, Described):
        return 0
    code = i64(code_of(value, TERMINUS_NAMES) & 0xFF)
    return code if DELETE_ON_CLOSE <= code <= DELETE_ON_NO_LINKS_OR_MESSAGES else 0


def source_of(fields: FieldReader, index: i64) -> LinkSource | None:
    """Return the field at `index` as a source, or None if it is absent."""
    value = fields.value(index)
    if value is None:
        return None
    if not isinstance(value, Described) or code_of(value, TERMINUS_NAMES) != SOURCE:
        raise fields.wrong("source", "source", value)
    read = FieldReader("source", value.value, 11)
    made = LinkSource(read.string(0, "address"))
    made.durable = read.uint(1, "durable", DURABLE_NONE)
    made.expiry_policy = read.symbol(2, "expiry-policy") or SESSION_END
    made.timeout = read.uint(3, "timeout", 0)
    made.dynamic = read.boolean(4, "dynamic")
    made.dynamic_properties = read.symbol_map(5, "dynamic-node-properties")
    made.distribution_mode = read.symbol(6, "distribution-mode")
    made.filter = read.symbol_map(7, "filter")
    made.default_outcome = state_of(read.value(8))
    made.outcomes = read.symbols(9, "outcomes")
    made.capabilities = read.symbols(10, "capabilities")
    return made


def target_of(fields: FieldReader, index: i64) -> LinkTarget | Coordinator | None:
    """Return the field at `index` as a target, or None if it is absent."""
    value = fields.value(index)
    if value is None:
        return None
    code = code_of(value, TERMINUS_NAMES) if isinstance(value, Described) else -1
    if not isinstance(value, Described) or code not in (TARGET, COORDINATOR):
        raise fields.wrong("target", "target", value)
    if code == COORDINATOR:
        return Coordinator(FieldReader("coordinator", value.value, 1).symbols(0, "capabilities"))
    read = FieldReader("target", value.value, 7)
    made = LinkTarget(read.string(0, "address"))
    made.durable = read.uint(1, "durable", DURABLE_NONE)
    made.expiry_policy = read.symbol(2, "expiry-policy") or SESSION_END
    made.timeout = read.uint(3, "timeout", 0)
    made.dynamic = read.boolean(4, "dynamic")
    made.dynamic_properties = read.symbol_map(5, "dynamic-node-properties")
    made.capabilities = read.symbols(6, "capabilities")
    return made
