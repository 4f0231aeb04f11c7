"""The common part of the links by which clients publish, consume, and manage the broker."""

from __future__ import annotations

from abc import abstractmethod

from mypy_extensions import i64

from forebay.core.errors import ForebayError
from forebay.queue.leases.lease import Delivery
from forebay.session.amqp10.windows import SERIAL_MASK
from forebay.session.shared.unsettled import DeliveryHolder
from forebay.wire.amqp10.performatives import Flow, Transfer


class LinkEndpoint(DeliveryHolder):
    """The broker's end of one link of a session.

    name            its name; with the direction it is unique in the session
    handle          its number, in both directions
    is_sender       the client sends by it
    is_attached     neither side has detached it
    is_detaching    the broker has detached it, and the client has not said that it knows
    delivery_count  deliveries of the sender so far, a serial number of 32 bits
    entity          path of the entity of Azure Service Bus that it leads to; "" for any other link
    """

    def __init__(self, name: str, handle: i64, is_sender: bool) -> None:
        super().__init__()
        self.name = name
        self.handle: i64 = handle
        self.is_sender = is_sender
        self.is_attached = True
        self.is_detaching = False
        self.delivery_count: i64 = 0
        self.entity = ""

    def count_deliveries(self, count: i64) -> None:
        """Count deliveries of the sender."""
        self.delivery_count = (self.delivery_count + count) & SERIAL_MASK

    @abstractmethod
    def begin(self) -> None:
        """Write what follows the broker's `attach`, such as the first credit."""

    @abstractmethod
    def on_transfer(self, transfer: Transfer, data: bytes, at: i64, end: i64) -> None:
        """Take a transfer, whose payload is data[at:end]. Raises Later, Undecided, and nothing is done."""

    @abstractmethod
    def on_flow(self, flow: Flow) -> None:
        """Take the client's view of the link's credit."""

    @abstractmethod
    def deliver(self, delivery: Delivery) -> None:
        """Send records to the client."""

    def answer_renewal(self) -> None:
        """Answer the client's new token, which was right."""
        raise AssertionError("only requests to the broker ask for it")

    def end_acquisition(self, transaction: bytes) -> None:
        """Send no more deliveries under a transaction, as it has ended."""
        raise AssertionError("only links by which clients consume acquire under a transaction")

    @abstractmethod
    def end_turn(self) -> None:
        """Answer what the client has asked for in this turn."""

    @abstractmethod
    def release(self, is_closed: bool) -> None:
        """End the link on the broker's side, and give back what it holds.

        is_closed  what the link stands for ends with it, such as a durable subscription
        """

    @abstractmethod
    def describe(self) -> dict[str, object]:
        """Return the link for people."""


class LinkError(ForebayError):
    """The client has used a link in a way that ends it.

    reason  of `core.errors`, or a condition
    """

    def __init__(self, link: LinkEndpoint, reason: str, text: str) -> None:
        super().__init__(text)
        self.link = link
        self.reason = reason
        self.text = text
