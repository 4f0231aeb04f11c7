"""The passwords of users, and the hashes that the broker keeps of them."""

from __future__ import annotations

import base64
import hashlib
from typing import Final

PASSWORDS: Final = ("secret", "hidden")
SALT: Final = b"salt"


def hash_of(password: str) -> str:
    """A hash that costs no time, as RabbitMQ's users bring it."""
    digest = hashlib.sha256(SALT + password.encode()).digest()
    return "$rabbitmq-sha256$" + base64.b64encode(SALT + digest).decode()


def is_of(value: object, password: str) -> bool:
    """Whether that is the password of a user of this value, its tags and the hash of its password."""
    return isinstance(value, tuple) and value[1] == hash_of(password)
