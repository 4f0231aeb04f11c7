"""Requests of HTTP/1.1 as probes and scrapers send them, read and answered without a library.

Whatever is out of the ordinary (a body, a cross-origin request, a head that is malformed or long) is not read here: the
parser of the web framework decides on it.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from typing import Final

from forebay.admin.http.browser_headers import HEADERS

HEAD_OCTETS_MAX: Final = 8192
KEEP_ALIVE_S: Final = 75  # that a connection may be idle: longer than people's tools wait between two looks
HEAD_END: Final = b"\r\n\r\n"
LINE_END: Final = b"\r\n"
REQUEST_LINE: Final = re.compile(rb"(GET|HEAD) (/[!-~]*) HTTP/1\.([01])")
FIELD: Final = re.compile(rb"([!#$%&'*+\-.^_`|~0-9A-Za-z]+):[ \t]*([\t -~\x80-\xff]*)")
# Fields that ask for more than is done here.
SPECIAL: Final = frozenset((b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"origin"))
PHRASES: Final = {
    200: "OK",
    401: "Unauthorized",
    429: "Too Many Requests",
    500: "Internal Server Error",
    503: "Service Unavailable",
}


@dataclass(frozen=True, slots=True)
class EarlyRequest:
    """A request that has come whole.

    fields     names in lower case, and values
    is_last    the client wants the connection to be closed behind the answer
    """

    method: str
    path: str
    fields: tuple[tuple[bytes, bytes], ...]
    is_last: bool

    def field(self, name: bytes) -> str:
        """Return the value of a field that may be there once; empty if it is not."""
        return next((value.decode("latin-1") for key, value in self.fields if key == name), "")


@dataclass(frozen=True, slots=True)
class EarlyAnswer:
    """An answer: status, content type, body, and fields beside those of every answer."""

    status: int
    content_type: str
    body: bytes
    fields: dict[str, str]


def read_request(head: bytes) -> EarlyRequest | None:
    """Return the request of a whole head, without its end; None if it is out of the ordinary."""
    line, *rest = head.split(LINE_END)
    asked = REQUEST_LINE.fullmatch(line)
    if asked is None:
        return None
    fields: list[tuple[bytes, bytes]] = []
    for each in rest:
        field = FIELD.fullmatch(each)
        if field is None or field[1].lower() in SPECIAL:
            return None
        fields.append((field[1].lower(), field[2].rstrip(b" \t")))
    names = [name for name, _ in fields]
    if len(set(names)) < len(names):
        return None
    wish = dict(fields).get(b"connection", b"").lower()
    if wish not in (b"", b"close", b"keep-alive"):
        return None
    path = asked[2].decode().partition("?")[0]
    return EarlyRequest(asked[1].decode(), path, tuple(fields), asked[3] == b"0" or wish == b"close")


def encode_answer(answer: EarlyAnswer, request: EarlyRequest | None, is_last: bool) -> bytes:
    """Return the bytes of an answer; the request is None if it was not read."""
    date = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    lines = [f"HTTP/1.1 {answer.status} {PHRASES[answer.status]}", f"date: {date}"]
    lines += [f"content-type: {answer.content_type}", f"content-length: {len(answer.body)}"]
    lines += [f"{name.lower()}: {value}" for name, value in {**HEADERS, **answer.fields}.items()]
    if is_last:
        lines.append("connection: close")
    head = "\r\n".join(lines).encode("latin-1") + HEAD_END
    return head if request is not None and request.method == "HEAD" else head + answer.body
