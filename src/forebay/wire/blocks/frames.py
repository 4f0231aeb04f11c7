"""The block protocol: how Spark, the command line and tools read queues as raw blocks.

Both directions of a connection begin with eight octets:

     0  4  "FBLK"
     4  1  version, 2
     5  3  zeros

A server that does not support the client's version answers with its own, and closes. A client that reads from a
follower with a grant sends 1 as the first of the three zeros. Frames follow, little-endian:

     0  4  octets n of the payload, u32
     4  1  kind: REQUEST 1, REPLY 2, ERROR 3, BLOCKS 4, STAGE 5, PICKED 6
     5  3  zeros
     8  n  payload

The payload of REQUEST, REPLY and ERROR is one JSON object in UTF-8. The payload of BLOCKS:

     0  8  i64  next offset to fetch: all records of the range below it are in this frame
     8  8  i64  current first offset of the queue: records of the range below it no longer exist
    16     whole blocks (log/block.py) in order of their offsets, each as it is stored, checksum included

PICKED is like BLOCKS, but a block contains only records that match a filter. The offsets in such a block are
meaningless. The offsets of its n records follow the block, as n i64.

Blocks start at multiples of 8 in the frame. Blocks are never cut, so the first may begin before the range, and the
last may end after it. A frame without blocks means that the queue holds no record of the range.

The payload of STAGE, which only clients send: rows that wait for the commit of their transaction
(broker/publish/staging.py):

     0  4  octets n of the object, u32
     4  n  {"query": q, "batch": b, "part": p}, a JSON object in UTF-8
           zeros up to a multiple of 8
           one whole block. Its exchange and routing-key columns route each row, as in a basic.publish. Its formats
           are AMQP091 or MQTT. Its offsets and timestamps are ignored

The server answers requests one at a time, in their order:

    {"op": "auth", "user": u, "password": p}        -> REPLY {"user": identity}. Must be the first request. "vhost": v
                                                       selects the vhost whose queues are meant, "/" if absent. An
                                                       empty "vhost" selects none, which is enough for "control"
    {"op": "describe", "queue": q}                  -> REPLY {"queue", "id", "kind", "start", "end", "octets"}
    {"op": "queues", "pattern": p, "from": name}    -> REPLY {"queues": [description, ...], "next": name or null}: the
                                                       queues that the user may read, ordered by name, starting at
                                                       `from`. `pattern`, a regular expression as in filters
                                                       (docs/reference/filters.md), must match the whole name.
                                                       Both are optional. If the list continues, `next` is the
                                                       `from` of the next request
    {"op": "ends", "queues": {q: after, ...}, "wait_ms": w}
                                                    -> REPLY {"queues": {q: {"id", "start", "end", "octets"}, ...}} once
                                                       the end of one of them is above its `after`, or after `wait_ms`
    {"op": "hold", "queue": q, "group": g, "offset": o, "ttl_ms": t}
                                                    -> REPLY {"offset", "start"}: the queue retains its records from
                                                       `offset` on, which is `o` or the queue's start, until `t`
                                                       is over, the group is released, or it sends another hold
    {"op": "release", "queue": q, "group": g}       -> REPLY {}
    {"op": "deliveries", "queue": q, "first": a, "end": b}
                                                    -> REPLY {"deliveries": [[offset, count], ...], "next": n}: how
                                                       often the unsettled records of the range were delivered to
                                                       the queue's consumers without a group. A record that is
                                                       absent was never delivered. The answer covers the range
                                                       below `next`
    {"op": "offset_at", "queue": q, "timestamp_us": t}   -> REPLY {"offset": first offset at or after t, else the end}
    {"op": "fetch", "queue": q, "first": a, "end": b, "octets_max": m}   -> BLOCKS
    {"op": "fetch", ..., "filter": f}               -> PICKED. A frame without blocks may have a next offset to fetch
    {"op": "fetch", ..., "columns": [c, ...]}       -> BLOCKS or PICKED with parts of blocks
                                                       (log/columns/parts.py): the head of each block, and the named
                                                       columns out of timestamp, format, exchange, routing_key,
                                                       properties, annotations and body
    {"op": "grant", "queue": q, "first": a, "end": b}
                                                    -> REPLY {"id", "start", "end", "octets", "token": t, "nodes":
                                                       [{"node": n, "servers": {listener: address, ...}}, ...]}: the
                                                       nodes of the cluster that serve blocks of the range to a
                                                       client with the token, in order of preference. Empty if only
                                                       this node has the blocks
    {"op": "read", "token": t}                      -> REPLY {}. Sent to a follower instead of "auth". The follower
                                                       then answers "fetch" for the grant's queue and range, as far
                                                       as it has the blocks
    {"op": "control", "do": operation, …}           -> REPLY of the operation. docs/reference/control.md lists the
                                                       operations and their arguments, which are further fields of
                                                       the request. For administrators only
    a STAGE frame                                   -> REPLY {"rows", "again"}. `again` means that the batch is
                                                       committed already, and that the rows were dropped
    {"op": "commit", "query": q, "batch": b, "parts": {part: rows, …}}   -> REPLY {"rows", "unroutable", "again"} once
                                                       all rows of these parts are published and on disk. Other rows
                                                       staged for this or an earlier batch are dropped. `again`
                                                       means that this or a later batch was committed before
    {"op": "abort", "query": q, "batch": b}         -> REPLY {}, or ERROR precondition if the batch is committed
    {"op": "transaction", "query": q}               -> REPLY {"batch": the last one committed, or -1}

`start` and `end` bound the records that this protocol can read, including records that only a hold retains. They
include only records on disk, except in an ephemeral queue. A fetch returns at least one block if there is one, and
otherwise at most `octets_max` (FETCH_OCTETS_MAX if absent). The client sends the next fetch once it has read the first
24 octets of the answer, so that the connection never idles and the broker never holds more than two answers. The server
refuses more than FETCHES_MAX fetches at a time.
The answer to a failed request is an ERROR {"error": "request" | "protocol" | "storage", "reason", "text"}. After
"protocol", and after a failed login, the server closes the connection.
"""

from __future__ import annotations

import json
from typing import Final, final

from librt.strings import BytesWriter, read_i32_le, read_i64_le, write_i32_le, write_i64_le
from mypy_extensions import i32, i64

from forebay.core.errors import INVALID, MALFORMED, TOO_LARGE, UNSUPPORTED_VERSION, PeerError, RequestError
from forebay.core.stored.columns import COLUMNS

MAGIC: Final = b"FBLK"
VERSION: Final = 2
PREFACE: Final = b"FBLK\x02\0\0\0"
GRANTED_PREFACE: Final = b"FBLK\x02\x01\0\0"  # from a client that reads from a follower with a grant
PREFACE_OCTETS: Final = 8

REQUEST: Final = 1
REPLY: Final = 2
ERROR: Final = 3
BLOCKS: Final = 4
STAGE: Final = 5
PICKED: Final = 6

FRAME_HEAD_OCTETS: Final = 8
BLOCKS_HEAD_OCTETS: Final = 16
REQUEST_OCTETS_MAX: Final = 1 << 16
CONTROL_OCTETS_MAX: Final = 1 << 20  # limit for a request after login; before it, REQUEST_OCTETS_MAX
REPLY_OCTETS_MAX: Final = 1 << 22
BLOCKS_OCTETS_MAX: Final = (1 << 28) + BLOCKS_HEAD_OCTETS  # a frame with one block of the maximum length
FETCH_OCTETS_MAX: Final = 8 << 20
FETCHES_MAX: Final = 4
WAIT_MS_MAX: Final = 30_000
ENDS_QUEUES_MAX: Final = 10_000  # queues in one ENDS request
STAGE_HEAD_OCTETS: Final = 4
STAGE_OBJECT_OCTETS_MAX: Final = 1 << 13
STAGE_BLOCK_OCTETS_MAX: Final = 64 << 20
STAGE_OCTETS_MAX: Final = STAGE_HEAD_OCTETS + STAGE_OBJECT_OCTETS_MAX + STAGE_BLOCK_OCTETS_MAX

AUTH: Final = "auth"
DESCRIBE: Final = "describe"
OFFSET_AT: Final = "offset_at"
FETCH: Final = "fetch"
GRANT: Final = "grant"
READ: Final = "read"
QUEUES: Final = "queues"
ENDS: Final = "ends"
HOLD: Final = "hold"
RELEASE: Final = "release"
DELIVERIES: Final = "deliveries"
CONTROL: Final = "control"
COMMIT: Final = "commit"
ABORT: Final = "abort"
TRANSACTION: Final = "transaction"
WHOLE_BLOCKS: Final = -1  # `columns` of a fetch without a column list
FIELDS: Final = {
    AUTH: ["op", "user", "password", "vhost"],
    DESCRIBE: ["op", "queue"],
    OFFSET_AT: ["op", "queue", "timestamp_us"],
    FETCH: ["op", "queue", "first", "end", "octets_max", "filter", "columns"],
    GRANT: ["op", "queue", "first", "end"],
    READ: ["op", "token"],
    QUEUES: ["op", "pattern", "from"],
    ENDS: ["op", "queues", "wait_ms"],
    HOLD: ["op", "queue", "group", "offset", "ttl_ms"],
    RELEASE: ["op", "queue", "group"],
    DELIVERIES: ["op", "queue", "first", "end"],
    CONTROL: ["op", "do"],
    COMMIT: ["op", "query", "batch", "parts"],
    ABORT: ["op", "query", "batch"],
    TRANSACTION: ["op", "query"],
}

INTEGER_MAX: Final = (1 << 63) - 1
TEXT_CHARACTERS_MAX: Final = 1024
FILTER_CHARACTERS_MAX: Final = 1 << 14  # a bound for the field; the filter parser has its own limits
NAME_OCTETS_MAX: Final = 255  # for names of queries, parts and groups, and for tokens
SHOWN_CHARACTERS_MAX: Final = 80


@final
class BlocksFrame:
    """A frame as received.

    octets  length of the whole frame in bytes, head included
    """

    def __init__(self, kind: int, payload: bytes, octets: int) -> None:
        self.kind = kind
        self.payload = payload
        self.octets = octets


@final
class Request:
    """A client's request. Fields that its `op` does not have are empty.

    columns        for FETCH: the requested columns (core/stored/columns.py) as a bit set, or WHOLE_BLOCKS
    from_name      for QUEUES: name at which the list continues
    after          for ENDS: by queue, the end that the client knows already
    do, arguments  for CONTROL: the operation, and its arguments as received
    parts          for COMMIT: the number of rows of each part
    token          for READ: the token of the grant
    """

    def __init__(self, op: str) -> None:
        self.op = op
        self.user = ""
        self.password = ""
        self.vhost = "/"
        self.queue = ""
        self.timestamp_us = 0
        self.first = 0
        self.end = 0
        self.octets_max: int = FETCH_OCTETS_MAX
        self.filter = ""
        self.columns: int = WHOLE_BLOCKS
        self.pattern = ""
        self.from_name = ""
        self.after: dict[str, int] = {}
        self.wait_ms = 0
        self.group = ""
        self.offset = 0
        self.ttl_ms = 0
        self.do = ""
        self.arguments: dict[str, object] = {}
        self.query = ""
        self.batch = 0
        self.parts: dict[str, int] = {}
        self.token = ""


def decode_preface(data: bytes) -> int:
    """Return the length in bytes of the preface at the start of `data`, or 0 if it is incomplete.

    Raises PeerError if `data` begins with anything else, or names another version.
    """
    for at in range(min(len(data), len(MAGIC))):
        if data[at] != MAGIC[at]:
            raise PeerError(MALFORMED, f"octet {at} of the connection is {data[at]}: it does not begin with 'FBLK'")
    if len(data) < PREFACE_OCTETS:
        return 0
    if data[4] != VERSION:
        raise PeerError(UNSUPPORTED_VERSION, f"version {data[4]} of the block protocol, only {VERSION} is known here")
    if data[:PREFACE_OCTETS] != PREFACE:
        raise PeerError(MALFORMED, "octets 5 to 7 of a connection are not zero")
    return PREFACE_OCTETS


def frame_octets(data: bytes, at: i64, payload_octets_max: i64) -> i64:
    """Return the length in bytes of the frame at `at`, head included, or 0 if its head is incomplete.

    Raises PeerError if the head is invalid, or the payload is longer than `payload_octets_max`.
    """
    if len(data) - at < FRAME_HEAD_OCTETS:
        return 0
    octets = i64(read_i32_le(data, at))
    kind = i64(data[at + 4])
    if kind < REQUEST or kind > PICKED:
        raise PeerError(MALFORMED, f"frame of kind {kind}")
    if data[at + 5] or data[at + 6] or data[at + 7]:
        raise PeerError(MALFORMED, "octets 5 to 7 of a frame are not zero")
    if octets < 0 or octets > payload_octets_max:
        raise PeerError(TOO_LARGE, f"frame of {octets & 0xFFFFFFFF} octets, at most {payload_octets_max} are taken")
    return FRAME_HEAD_OCTETS + octets


def decode_frame(data: bytes, at: i64, payload_octets_max: i64) -> BlocksFrame | None:
    """Return the frame at `at`, or None if it is incomplete. Raises PeerError if its head is invalid."""
    octets = frame_octets(data, at, payload_octets_max)
    if octets == 0 or len(data) - at < octets:
        return None
    return BlocksFrame(data[at + 4], data[at + FRAME_HEAD_OCTETS : at + octets], int(octets))


def encode_head(kind: int, octets: int) -> bytes:
    """Return the head of a frame with a payload of `octets` bytes."""
    assert 0 <= octets <= BLOCKS_OCTETS_MAX
    out = BytesWriter()
    write_i32_le(out, i32(octets))
    write_i32_le(out, i32(kind))
    return out.getvalue()


def encode_json(kind: int, values: dict[str, object]) -> bytes:
    """Return a frame whose payload is the JSON object `values`."""
    payload = json.dumps(values, separators=(",", ":")).encode()
    return encode_head(kind, len(payload)) + payload


def encode_error(error: str, reason: str, text: str) -> bytes:
    """Return an ERROR frame."""
    return encode_json(ERROR, {"error": error, "reason": reason, "text": text})


def encode_blocks_head(next: int, start: int, octets: int, kind: int = BLOCKS) -> bytes:
    """Return the first 24 bytes of a BLOCKS or PICKED frame. Blocks of `octets` bytes must follow.

    next   offset at which the client continues to fetch
    start  first offset of the queue
    """
    out = BytesWriter()
    out.write(encode_head(kind, BLOCKS_HEAD_OCTETS + octets))
    write_i64_le(out, i64(next))
    write_i64_le(out, i64(start))
    return out.getvalue()


def decode_blocks_head(payload: bytes) -> tuple[int, int]:
    """Return the offset at which to continue to fetch, and the queue's first offset, from a BLOCKS payload."""
    if len(payload) < BLOCKS_HEAD_OCTETS:
        raise PeerError(MALFORMED, f"BLOCKS frame of only {len(payload)} octets")
    next = read_i64_le(payload, 0)
    start = read_i64_le(payload, 8)
    if next < 0 or start < 0:
        raise PeerError(MALFORMED, f"BLOCKS frame with next offset {next} and first offset {start}")
    return int(next), int(start)


def decode_json(payload: bytes) -> dict[str, object]:
    """Return the JSON object in a payload. Raises PeerError if the payload is anything else."""
    try:
        values = json.loads(payload)
    except (ValueError, RecursionError) as error:
        raise PeerError(MALFORMED, f"payload is no JSON: {error}") from None
    if not isinstance(values, dict):
        raise PeerError(MALFORMED, "payload is JSON, but no object")
    return values


def decode_request(payload: bytes) -> Request:
    """Return the request in the payload of a REQUEST frame.

    Raises PeerError if the payload is not a JSON object, and RequestError that names a wrong field.
    """
    values = decode_json(payload)
    op = values.get("op")
    if not isinstance(op, str) or op not in FIELDS:
        raise RequestError(INVALID, f"op: {shown(op)} is no request; known are {', '.join(FIELDS)}")
    if op == CONTROL:
        return decode_control(values)
    for name in values:
        if name not in FIELDS[op]:
            raise RequestError(INVALID, f"{op}: {shown(name)} is no field; known are {', '.join(FIELDS[op])}")
    request = Request(op)
    if op == FETCH:
        request.queue = text_field(values, op, "queue")
        request.first = integer_field(values, op, "first", 0)
        request.end = integer_field(values, op, "end", 0)
        if "octets_max" in values:
            request.octets_max = integer_field(values, op, "octets_max", 1)
        if "filter" in values:
            request.filter = text_field(values, op, "filter", FILTER_CHARACTERS_MAX)
        if "columns" in values:
            request.columns = columns_field(values)
    elif op in (QUEUES, ENDS, HOLD, RELEASE, DELIVERIES, GRANT, READ):
        decode_reader(values, request)
    elif op == DESCRIBE:
        request.queue = text_field(values, op, "queue")
    elif op == OFFSET_AT:
        request.queue = text_field(values, op, "queue")
        request.timestamp_us = integer_field(values, op, "timestamp_us", -INTEGER_MAX)
    elif op in (COMMIT, ABORT, TRANSACTION):
        request.query = name_field(values, op, "query")
        if op != TRANSACTION:
            request.batch = integer_field(values, op, "batch", 0)
        if op == COMMIT:
            request.parts = parts_field(values)
    else:
        request.user = text_field(values, op, "user")
        request.password = text_field(values, op, "password")
        if "vhost" in values:
            request.vhost = text_field(values, op, "vhost")
    return request


def decode_reader(values: dict[str, object], request: Request) -> None:
    """Set the fields of a QUEUES, ENDS, READ, DELIVERIES, GRANT, HOLD or RELEASE request from its JSON object."""
    op = request.op
    if op == QUEUES:
        if "pattern" in values:
            request.pattern = text_field(values, op, "pattern")
        if "from" in values:
            request.from_name = text_field(values, op, "from")
    elif op == ENDS:
        request.after = after_field(values)
        if "wait_ms" in values:
            request.wait_ms = min(integer_field(values, op, "wait_ms", 0), WAIT_MS_MAX)
    elif op == READ:
        request.token = name_field(values, op, "token")
    elif op in (DELIVERIES, GRANT):
        request.queue = text_field(values, op, "queue")
        request.first = integer_field(values, op, "first", 0)
        request.end = integer_field(values, op, "end", 0)
    else:
        request.queue = text_field(values, op, "queue")
        request.group = name_field(values, op, "group")
        if op == HOLD:
            request.offset = integer_field(values, op, "offset", 0)
            request.ttl_ms = integer_field(values, op, "ttl_ms", 1)


def after_field(values: dict[str, object]) -> dict[str, int]:
    """Return the field `queues` of an ENDS request: by queue, the end that the client knows already."""
    given = values.get("queues")
    if not isinstance(given, dict) or len(given) > ENDS_QUEUES_MAX:
        raise RequestError(
            INVALID, f"{ENDS}: queues is {shown(given)}, not an object of at most {ENDS_QUEUES_MAX} queues"
        )
    after: dict[str, int] = {}
    for name in given:
        if not isinstance(name, str) or not is_unicode(name):
            raise RequestError(INVALID, f"{ENDS}: {shown(name)} is no name of a queue")
        after[name] = integer_field(given, ENDS, name, 0)
    return after


def decode_control(values: dict[str, object]) -> Request:
    """Return a CONTROL request. Its arguments are not checked, because only the operation knows them."""
    request = Request(CONTROL)
    request.do = text_field(values, CONTROL, "do")
    for name, value in values.items():
        if name not in FIELDS[CONTROL]:
            request.arguments[name] = value
    return request


def text_field(values: dict[str, object], op: str, name: str, most: int = TEXT_CHARACTERS_MAX) -> str:
    """Return a required text field. Raises RequestError if it is not text of at most `most` characters."""
    value = values.get(name)
    if not isinstance(value, str) or len(value) > most or not is_unicode(value):
        raise RequestError(INVALID, f"{op}: {name} is {shown(value)}, not text of at most {most} characters")
    return value


def name_field(values: dict[str, object], op: str, name: str) -> str:
    """Return a required field that is a name of the client's choice or a token: text of 1 to NAME_OCTETS_MAX bytes."""
    value = text_field(values, op, name)
    if not 0 < len(value.encode()) <= NAME_OCTETS_MAX:
        raise RequestError(INVALID, f"{op}: {name} is {shown(value)}, not text of 1 to {NAME_OCTETS_MAX} octets")
    return value


def columns_field(values: dict[str, object]) -> int:
    """Return the columns of a FETCH request as a bit set."""
    given = values.get("columns")
    if not isinstance(given, list):
        raise RequestError(INVALID, f"{FETCH}: columns is {shown(given)}, not a list of columns")
    columns = 0
    for name in given:
        if not isinstance(name, str) or name not in COLUMNS:
            known = ", ".join(COLUMNS)
            raise RequestError(INVALID, f"{FETCH}: {shown(name)} is no column; known are {known}")
        columns |= COLUMNS[name]
    return columns


def parts_field(values: dict[str, object]) -> dict[str, int]:
    """Return the parts of a COMMIT request, each with its number of rows."""
    given = values.get("parts")
    if not isinstance(given, dict):
        raise RequestError(INVALID, f"{COMMIT}: parts is {shown(given)}, not an object of parts and their rows")
    parts: dict[str, int] = {}
    for name, rows in given.items():
        if not isinstance(name, str) or not is_unicode(name) or not is_whole(rows, 1):
            raise RequestError(INVALID, f"{COMMIT}: parts: {shown(name)} has {shown(rows)} rows, which cannot be")
        parts[name] = rows
    return parts


def is_whole(value: object, least: int) -> bool:
    """Return whether a value from JSON is an integer of 64 bits that is at least `least`."""
    # True and False are integers to Python, not to the protocol.
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= INTEGER_MAX


def integer_field(values: dict[str, object], op: str, name: str, least: int) -> int:
    """Return a required integer field of 64 bits. Raises RequestError if it is anything else, or below `least`."""
    value = values.get(name)
    # The order matters: after the isinstance check mypyc has converted True to 1, and `is_whole` would accept it.
    if not is_whole(value, least) or not isinstance(value, int):
        raise RequestError(INVALID, f"{op}: {name} is {shown(value)}, not a whole number from {least} to {INTEGER_MAX}")
    return value


def is_unicode(text: str) -> bool:
    """Return whether a text can be encoded in UTF-8. JSON can contain lone surrogates, which UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def shown(value: object) -> str:
    """Return a value that a peer sent as a short text for an error message."""
    if value is None:
        return "absent"
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"  # ascii() may exceed the recursion limit
    return ascii(value)[:SHOWN_CHARACTERS_MAX]
