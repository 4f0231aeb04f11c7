"""The file of rules for MQTT topics."""

from __future__ import annotations

from forebay.core.errors import OptionError, RequestError
from forebay.directory.topic_acl import AclBook


def load_acl(book: AclBook, path: str) -> None:
    """Read the file of the option `mqtt_acl`. Raises OptionError, and leaves the rules as they were then."""
    if not path:
        book.is_used = False
        return
    try:
        with open(path, encoding="utf-8") as file:
            book.load(file.read())
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"mqtt_acl: {path!r} cannot be read: {error}") from None
    except RequestError as error:
        raise OptionError(f"mqtt_acl: {path!r}: {error.text}") from None
