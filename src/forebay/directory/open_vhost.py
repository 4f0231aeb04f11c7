"""The directory calls these methods of a vhost that this process has open."""

from __future__ import annotations

from abc import ABC, abstractmethod

from forebay.message.address import Addresses


class OpenVhost(ABC):
    """A vhost that is open in this process, as its directory sees it."""

    @abstractmethod
    def end_sessions_of(self, user: str) -> None:
        """End the MQTT sessions of a user, as those of nobody who comes under this name from here on."""

    @abstractmethod
    def user_deleted(self, user: str) -> None:
        """End the MQTT sessions of a user who is gone, and have the server end its connections."""

    @abstractmethod
    def addresses(self) -> Addresses:
        """Return what using an address of the vhost does."""
