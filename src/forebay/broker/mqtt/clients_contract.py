"""The calls by which the connection of an MQTT client uses its session: a part of a vhost's contract."""

from __future__ import annotations

from abc import ABC, abstractmethod

from mypy_extensions import i64

from forebay.broker.mqtt.client_session import ClientSession, Owner, Subscription, Will
from forebay.broker.mqtt.retained import RetainedMessage, RetainedSearch


class ClientsContract(ABC):
    """MQTT clients and what is retained for them, as the connections of clients see them."""

    @abstractmethod
    def attach(
        self, client_id: bytes, connection: i64, clean: bool, expiry_s: i64, will: Will | None, owner: Owner
    ) -> ClientSession:
        """Take up or make the session of a client identifier for a connection: see `Sessions.attach`."""

    @abstractmethod
    def detach(self, client: ClientSession, connection: i64) -> None:
        """Note that the connection of an MQTT session is gone."""

    @abstractmethod
    def check_subscription(self, client: ClientSession, wanted: Subscription, session_id: i64, octets: i64) -> None:
        """Refuse with RequestError(TOO_MANY) if there is no memory for a subscription and its consumer's `octets`."""

    @abstractmethod
    def subscribe(self, client: ClientSession, wanted: Subscription) -> bool:
        """Add or replace a subscription of an MQTT session, and return whether it is new."""

    @abstractmethod
    def unsubscribe(self, client: ClientSession, filter: bytes) -> bool:
        """End a subscription of an MQTT session, and return whether there was one."""

    @abstractmethod
    def search_retained(self, filter: bytes) -> RetainedSearch:
        """Return the search for retained topics that a filter matches, to be run."""

    @abstractmethod
    def retained_numbers(self, filter: bytes) -> list[int]:
        """Return the numbers, for `retained_message`, of retained topics that a filter matches."""

    @abstractmethod
    def retained_message(self, number: i64) -> RetainedMessage | None:
        """Return a retained message, None if it is there no longer or has expired."""

    @abstractmethod
    def give_retained(self, client: ClientSession, qos: i64, identifier: i64, message: RetainedMessage) -> None:
        """Deliver a retained message to an MQTT session."""
