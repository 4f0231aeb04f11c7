"""A password as RabbitMQ keeps it: where one is given as it is, the broker takes a tenth of a second for a hash."""

from __future__ import annotations

import base64
import hashlib

SALT = b"salt"


def password_hash(password: str) -> str:
    """The value of `password_hash` in a body of `PUT /api/users/NAME`."""
    return base64.b64encode(SALT + hashlib.sha256(SALT + password.encode()).digest()).decode()
