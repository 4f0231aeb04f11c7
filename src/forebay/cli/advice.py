"""Adds a second line to an error, which says what to do next.

Advice that needs a connection, such as the closest name, is a note of the error (`BaseException.add_note`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Final

from forebay.core.errors import CorruptFile, DiskFull, ForebayError, OutcomeUnknown, Unreachable

if TYPE_CHECKING:
    from forebay.client.control import ControlClient

# The text of an error, and the remedy; \1 and \2 stand for the parts in brackets.
UNREACHABLE: Final = (
    (
        r"WRONG_VERSION_NUMBER|record layer",
        "the port has no TLS: omit --tls, or use the port of amqps or mqtts",
    ),
    (
        r"certificate verify failed|CERTIFICATE_VERIFY",
        "--ca-file FILE names the authority that signed the certificate, which must be valid for --server's host",
    ),
    (r"not known|name resolution|No address", "check the host in --server (FOREBAY_SERVER)"),
    (
        r"timed out|No route|unreachable",
        "check for a firewall; on the broker's machine `forebay doctor` names its ports",
    ),
    (r"", "`forebay serve` starts one here; --server HOST:PORT (FOREBAY_SERVER) names another one"),
)
REFUSED: Final = (
    (
        r"Login was refused",
        "check --user and --password (FOREBAY_USER, FOREBAY_PASSWORD); guest may log in from the broker's machine only",
    ),
    (
        r"user '(.*)' lacks the tag (\w+)",
        r"log in by --user as a user with this tag, or give it to this user: forebay user tags \1 \2",
    ),
    (
        r"access to vhost '(.*)' refused for user '(.*)'",
        r"an administrator can let it in: forebay permission set \2 '.*' '.*' '.*' --vhost \1",
    ),
    (
        r"user '(.*)' may not enter vhost '(.*)'",
        r"an administrator can let it in: forebay permission set \1 '.*' '.*' '.*' --vhost \2",
    ),
    (r"refused for user '(.*)'", r"`forebay permission list --of \1` shows what it may do"),
    (
        r"inequivalent arg .* for (queue|exchange) '(.*)' in",
        r"`forebay \1 list` shows how it was declared; to declare it otherwise, delete \2 first",
    ),
    (r"unsupported queue type", "the types are classic, quorum and stream"),
    (r"^\S* ?(filter|where), position", "docs/reference/filters.md describes the language, with examples"),
)
OTHERS: Final = (
    (r"is not HOST:PORT", "such as localhost:5672; several with commas"),
    (r"data directory \S+ is in use by", "stop that broker first, or name another folder with --data"),
    (r"cannot listen on .*in use", "another program has the port: use a free one, or 0 for any"),
    (r"cannot listen on .*[Pp]ermission", "ports below 1024 are for root: use a higher one"),
    (r"is no data folder of a broker", "`forebay status` names the folder of a running broker"),
)
LOGIN: Final = "Login was refused"
NEW_PASSWORD: Final = "--password is that of the connection; give the new user's password by --new-password"
# The object not found, the operation that lists all, the field that has the name, and the command that lists them.
NAMES: Final = (
    (r"no queue '(.*)' in vhost '(.*)'", "queue.list", "queue", "queue list"),
    (r"no exchange '(.*)' in vhost '(.*)'", "exchange.list", "exchange", "exchange list"),
    (r"vhost:? '?([^']*?)'? (?:does not exist|not found)", "vhost.list", "vhost", "vhost list"),
    (r"user: '(.*)' does not exist", "user.list", "name", "user list"),
    (r"no policy '(.*)'", "policy.list", "policy", "policy list"),
    (r"no session '(.*)' in vhost '(.*)'", "session.list", "client_id", "session list"),
    (r"no group '(.*)' on queue", "group.list", "key", "group list"),
    (r"no trace '(.*)'", "trace.list", "name", "trace list"),
)
NEAR: Final = 0.6  # similarity from which a name is suggested; 1 is equality


def advice(error: ForebayError, words: Sequence[str]) -> list[str]:
    """Return the lines with remedies to print after an error. `words` are the arguments of the command line."""
    notes: list[str] = getattr(error, "__notes__", [])
    if notes:
        return notes
    text = str(error)
    if isinstance(error, Unreachable):
        return found(UNREACHABLE, text)
    if isinstance(error, OutcomeUnknown):
        return ["it may be done: check before you repeat it; `forebay status` shows the broker's state"]
    if isinstance(error, CorruptFile):
        return ["`forebay log verify DIR` names all damage; `forebay log repair DIR` repairs what it can"]
    if isinstance(error, DiskFull):
        return ["make room on the disk of the data folder; nothing that was confirmed is lost"]
    if LOGIN in text and words[:1] == ["user"] and any(word.startswith("--password") for word in words):
        return [NEW_PASSWORD]
    return found(REFUSED, text) or found(OTHERS, text)


def found(table: Iterable[tuple[str, str]], text: str) -> list[str]:
    for pattern, way in table:
        match = re.search(pattern, text)
        if match is not None:
            return [match.expand(way)]
    return []


def note_nearest(error: ForebayError, connect: Callable[[], ControlClient], vhost: str | None) -> None:
    """Add a note to an error about an unknown name: the closest existing name, and the command that lists all."""
    for pattern, operation, field, command in NAMES:
        match = re.search(pattern, str(error))
        if match is None:
            continue
        place = vhost if vhost and operation not in {"vhost.list", "user.list"} else None
        try:
            with connect() as client:
                names = [str(item.get(field)) for item in client.items(operation, vhost=place)]
        except ForebayError:
            names = []  # a user who may not list the names gets no suggestion
        near = get_close_matches(match[1], names, 1, NEAR)
        mean = f"did you mean '{near[0]}'? " if near else ""
        of_vhost = f" --vhost {place}" if place and place != "/" else ""
        error.add_note(f"{mean}`forebay {command}{of_vhost}` shows all")
        return
