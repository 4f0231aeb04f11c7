"""Every option of the broker, once: its name, unit, default, range and meaning.

The fields of `Options` are the table. The command line, the environment (FOREBAY_<NAME>), the configuration file and
docs/options.md are all made from it, and `Options` itself is what it becomes: parsed once, frozen, handed down.

An option of octets or time says its unit at the end of its name. Octets may be written with KiB, MiB or GiB.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import MISSING, Field, dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Final, TypeVar

from forebay.core.errors import OptionError

KIB: Final = 1024
MIB: Final = 1024 * KIB
GIB: Final = 1024 * MIB
HOUR_S: Final = 3600

CLASSIC: Final = "classic"
QUORUM: Final = "quorum"
STREAM: Final = "stream"

LOWEST: Final = "lowest"
HIGHEST: Final = "highest"
DROP: Final = "drop"
SPILL: Final = "spill"
MOVED: Final = "moved"
ANOTHER: Final = "another"
ROUND_ROBIN: Final = "round_robin"
SHARED_STRATEGIES: Final = (ROUND_ROBIN, "random", "sticky", "least_inflight", "hash_topic", "hash_clientid")
NONE: Final = "none"
OPTIONAL: Final = "optional"
REQUIRED: Final = "required"
CN: Final = "cn"
TLS_1_2: Final = "1.2"
TLS_1_3: Final = "1.3"
SCRAM_SHA_256: Final = "SCRAM-SHA-256"
SCRAM_SHA_512: Final = "SCRAM-SHA-512"

# Kinds of value: how an option is read from text, checked and documented.
TEXT: Final = "text"
INTEGER: Final = "integer"
BOOLEAN: Final = "boolean"
ADDRESS: Final = "HOST:PORT"
FILE: Final = "file"
PATTERN: Final = "pattern"
SERVER: Final = "server"
USERS: Final = "users"
PRIORITIES: Final = "priorities"
NAMES: Final = "names"
TABLE: Final = "table"
TABLES: Final = "tables"

_SCALE: Final = {"": 1, "kib": KIB, "mib": MIB, "gib": GIB}
_NUMBER: Final = re.compile(r"([+-]?\d+)\s*([a-zA-Z]*)")
_NUMBER_DIGITS_MAX: Final = 19  # longer ones are no i64, and int() of a very long text is slow

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class OptionSpec:
    """What the table says of one option, apart from its name and default."""

    kind: str
    doc: str
    unit: str
    least: int
    most: int
    choices: tuple[str, ...]
    flag: bool
    reloadable: bool
    inner: type | None

    def domain(self) -> str:
        """What values it takes, for people."""
        if self.choices:
            return ("a list of " if self.kind == NAMES else "") + " or ".join(self.choices)
        if self.kind == INTEGER:
            return f"{self.least} to {self.most}"
        if self.kind == PRIORITIES:
            return f"MQTT topics, each with a priority from {self.least} to {self.most}"
        return _DOMAINS[self.kind]


_DOMAINS: Final = {
    TEXT: "text, not empty",
    BOOLEAN: "true or false",
    ADDRESS: "HOST:PORT, port 0 for any free one, empty for no listener",
    FILE: "the path of a file, empty for none",
    PATTERN: "a regular expression, empty for nothing",
    SERVER: "HOST:PORT with a port from 1, empty for none",
    USERS: "names, each with a password",
    NAMES: "a list of names",
    TABLE: "keys and values, see below",
    TABLES: "a list of keys and values, see below",
}


def _option(
    default: object,
    kind: str,
    doc: str,
    *,
    unit: str = "",
    least: int = 0,
    most: int = 0,
    choices: tuple[str, ...] = (),
    flag: bool = False,
    reloadable: bool = False,
    inner: type | None = None,
) -> Any:
    """One line of the table."""
    spec = OptionSpec(kind, doc, unit, least, most, choices, flag, reloadable, inner)
    metadata = {"spec": spec}
    if default is MISSING:
        return field(metadata=metadata)
    if isinstance(default, dict | list):
        return field(default_factory=default.copy, metadata=metadata)
    return field(default=default, metadata=metadata)


def _integer(default: int, unit: str, least: int, most: int, doc: str, *, reloadable: bool = False) -> Any:
    return _option(default, INTEGER, doc, unit=unit, least=least, most=most, reloadable=reloadable)


def _boolean(default: bool, doc: str) -> Any:
    return _option(default, BOOLEAN, doc)


@dataclass(frozen=True, slots=True)
class RetentionOptions:
    """What a stream keeps: whole blocks go from its start once one of the limits is passed."""

    max_age_s: int = _integer(0, "s", 0, 10**10, "Records older than this may go; 0 keeps them for ever.")
    max_length_bytes: int = _integer(0, "octets", 0, 2**62, "Octets kept at most; 0 sets no limit.")
    max_length_messages: int = _integer(0, "messages", 0, 2**62, "Messages kept at most; 0 sets no limit.")


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """A queue that is there from the start."""

    name: str = _option(MISSING, TEXT, "The queue's name, as in `$queue/<name>`.")
    topics: list[str] = _option([], NAMES, "MQTT topic filters; what is published to a matching topic lands here.")
    type: str = _option(CLASSIC, TEXT, "What kind of queue.", choices=(CLASSIC, QUORUM, STREAM))
    visibility_timeout_ms: int = _integer(
        0, "ms", 0, 10**10, "How long a consumer may hold a message; 0 takes the broker's `visibility_timeout_ms`."
    )
    retention: RetentionOptions = _option(RetentionOptions(), TABLE, "What a stream keeps.", inner=RetentionOptions)


@dataclass(frozen=True, slots=True)
class VhostOptions:
    """A vhost that is there from the start."""

    name: str = _option(MISSING, TEXT, "The vhost's name.")
    description: str = _option("", TEXT, "What it is for.")
    default_queue_type: str = _option(
        CLASSIC, TEXT, "What a queue is that is declared without a type.", choices=(CLASSIC, QUORUM, STREAM)
    )
    connections_max: int = _integer(-1, "connections", -1, 2**31 - 1, "Connections at one time; -1 sets no limit.")
    queues_max: int = _integer(-1, "queues", -1, 2**31 - 1, "Queues at one time; -1 sets no limit.")


@dataclass(frozen=True, slots=True)
class PermissionOptions:
    """What a user may do in a vhost: regular expressions over the names of queues and exchanges."""

    user: str = _option(MISSING, TEXT, "One of `users`.")
    vhost: str = _option("/", TEXT, "The vhost.")
    configure: str = _option(".*", PATTERN, "What the user may declare and delete.")
    write: str = _option(".*", PATTERN, "What the user may publish to and bind.")
    read: str = _option(".*", PATTERN, "What the user may consume from and bind to.")


@dataclass(frozen=True, slots=True)
class Options:
    """All options of one broker.

    made by  `make_options`, which checks; the constructor does not
    """

    # where
    data: str = _option("./data", TEXT, "Folder of the broker's files; one broker at a time.", flag=True)
    amqp: str = _option("127.0.0.1:5672", ADDRESS, "Where AMQP clients connect.", flag=True)
    mqtt: str = _option("127.0.0.1:1883", ADDRESS, "Where MQTT clients connect.", flag=True)

    mqtt_websocket: str = _option("127.0.0.1:8083", ADDRESS, "Where MQTT clients connect over WebSocket.")
    mqtt_websocket_path: str = _option("/mqtt", TEXT, "Path of the WebSocket listeners.")
    mqtt_websocket_origins: list[str] = _option(
        [], NAMES, "Origins whose pages may connect over WebSocket, beside our own host's; `*` for any."
    )
    amqps: str = _option("", ADDRESS, "Where AMQP clients connect over TLS.")
    mqtts: str = _option("", ADDRESS, "Where MQTT clients connect over TLS.")
    mqtt_websocket_tls: str = _option("", ADDRESS, "Where MQTT clients connect over WebSocket and TLS.")
    proxy_protocol: bool = _boolean(False, "Whether every connection begins with a PROXY header, version 1 or 2.")

    # TLS
    tls_certificate: str = _option("", FILE, "The broker's certificate and its chain, PEM.")
    tls_key: str = _option("", FILE, "Its private key, PEM; without it the key stands in `tls_certificate`.")
    tls_client_ca: str = _option("", FILE, "Certificates that clients' certificates must come from, PEM.")
    tls_client_auth: str = _option(
        NONE, TEXT, "Whether clients show a certificate.", choices=(NONE, OPTIONAL, REQUIRED)
    )
    tls_minimum_version: str = _option(TLS_1_2, TEXT, "The oldest version of TLS spoken.", choices=(TLS_1_2, TLS_1_3))
    tls_identity: str = _option(
        NONE,
        TEXT,
        "Who a client is that shows a certificate and sends no user name: the common name in it, or nobody.",
        choices=(NONE, CN),
    )

    # who
    users: dict[str, str] = _option(
        {"guest": "guest"}, USERS, "Users and their passwords, or the Argon2id hashes of these, `$argon2id$...`."
    )
    loopback_users: list[str] = _option(["guest"], NAMES, "Users who may connect from this machine only.")

    administrators: list[str] = _option(["*"], NAMES, "Which of `users` may administer the broker; `*` for all.")
    permissions: list[PermissionOptions] = _option(
        [], TABLES, "What users may do; one who is not named here may do everything.", inner=PermissionOptions
    )
    vhosts: list[VhostOptions] = _option(
        [], TABLES, 'Vhosts that are there from the start, beside "/".', inner=VhostOptions
    )

    # queues
    queues: list[QueueOptions] = _option([], TABLES, "Queues that are there from the start.", inner=QueueOptions)
    visibility_timeout_ms: int = _integer(
        30_000, "ms", 10, 10**10, "How long a consumer may hold a message before somebody else gets it."
    )
    consumer_timeout_ms: int = _integer(
        1_800_000,
        "ms",
        0,
        10**10,
        "How long an AMQP consumer may hold a message before it is cancelled; 0 for ever.",
    )
    delivery_limit: int = _integer(
        -1, "failures", -1, 2**31 - 1, "Failures after which a message of a classic queue dies; -1 sets no limit."
    )
    default_queue_type: str = _option(
        CLASSIC,
        TEXT,
        "What kind of queue a durable one is that is declared without `x-queue-type`.",
        choices=(CLASSIC, QUORUM, STREAM),
    )
    queue_type_equivalence_relaxed: bool = _boolean(
        False, "Whether a queue may be declared again with another `x-queue-type` than it has."
    )
    auto_commit_interval_ms: int = _integer(
        5_000, "ms", 1, 10**8, "How often the position of an auto-committing stream group is stored."
    )
    ephemeral_expiry_ms: int = _integer(
        300_000, "ms", 0, 10**10, "How long an ephemeral queue outlives its last consumer."
    )
    hold_ttl_max_ms: int = _integer(
        24 * HOUR_S * 1000, "ms", 1000, 10**10, "For how long a reader may ask that records stay, without asking again."
    )

    # messages and clients
    message_octets_max: int = _integer(16 * MIB, "octets", 1, 128 * MIB, "The longest message body accepted.")
    handshake_timeout_ms: int = _integer(10_000, "ms", 10, 10**7, "How long a client may take to log in.")
    connections_max: int = _integer(10_000, "connections", 1, 10**6, "Connections at one time, over all listeners.")
    send_buffer_octets_max: int = _integer(
        16 * MIB, "octets", 64 * KIB, GIB, "Octets that may wait for a slow reader before deliveries to it pause."
    )
    table_depth_max: int = _integer(32, "levels", 1, 128, "How deep an AMQP table may nest.")
    drain_timeout_ms: int = _integer(
        10_000, "ms", 0, 10**7, "How long a client may take to leave, at a stop or when it is let go."
    )

    # MQTT
    mqtt_packet_octets_max: int = _integer(
        17 * MIB, "octets", 1 * KIB, 268_435_455 + 5, "The longest MQTT packet accepted."
    )
    mqtt_topic_levels_max: int = _integer(128, "levels", 1, 1024, "Levels of a topic or topic filter.")
    mqtt_max_qos: int = _integer(2, "QoS", 0, 2, "The highest QoS; subscriptions are granted it at most.")
    mqtt_server_keep_alive_s: int = _integer(
        0, "s", 0, 65_535, "Keep alive that clients have to use; 0 takes the client's own."
    )
    mqtt_topic_alias_max: int = _integer(
        32, "aliases", 0, 65_535, "Topic aliases of a connection, each way; 0 allows none."
    )
    mqtt_auth_methods: list[str] = _option(
        [SCRAM_SHA_256],
        NAMES,
        "Methods of enhanced authentication that are offered.",
        choices=(SCRAM_SHA_256, SCRAM_SHA_512),
    )
    mqtt_redirect: str = _option("", SERVER, "Another server, to which every MQTT client is sent instead of served.")
    mqtt_redirect_code: str = _option(
        ANOTHER,
        TEXT,
        f"What a redirected client is told: use the server for ever (`{MOVED}`) or this time (`{ANOTHER}`).",
        choices=(MOVED, ANOTHER),
    )

    # MQTT: messages on their way to and from a client
    mqtt_receive_max: int = _integer(
        1024, "messages", 1, 65_535, "QoS 1 and 2 messages that a client may publish before they are acknowledged."
    )
    mqtt_max_awaiting_rel: int = _integer(
        1024, "messages", 0, 65_535, "QoS 2 messages of a client that may wait for its PUBREL; 0 sets no limit."
    )
    mqtt_max_inflight: int = _integer(
        32, "messages", 1, 65_535, "QoS 1 and 2 messages that are sent to a client before it acknowledges."
    )
    mqtt_max_mqueue_len: int = _integer(
        1000, "messages", 0, 2**31 - 1, "Messages that wait for a client, gone or busy; 0 sets no limit."
    )
    mqtt_mqueue_store_qos0: bool = _boolean(True, "Whether QoS 0 messages wait, too, for a client that is not there.")
    mqtt_mqueue_priorities: dict[str, int] = _option(
        {}, PRIORITIES, "Topics whose waiting messages are sent in this order, the highest first.", least=1, most=255
    )
    mqtt_mqueue_default_priority: str = _option(
        LOWEST, TEXT, "Where topics without a priority stand among those with one.", choices=(LOWEST, HIGHEST)
    )
    mqtt_mqueue_overflow: str = _option(
        DROP, TEXT, "What becomes of messages beyond `mqtt_max_mqueue_len`.", choices=(DROP, SPILL)
    )
    mqtt_shared_strategy: str = _option(
        ROUND_ROBIN, TEXT, "Which member of a shared subscription gets a message.", choices=SHARED_STRATEGIES
    )

    # MQTT: what is kept for clients
    mqtt_session_expiry_s: int = _integer(
        604_800,
        "s",
        0,
        2**32 - 1,
        "How long the session of a 3.1.1 client without clean session outlives its connection.",
    )
    mqtt_session_expiry_max_s: int = _integer(
        0, "s", 0, 2**32 - 1, "The longest session expiry interval that a client of version 5 gets; 0 sets no limit."
    )
    mqtt_sessions_max: int = _integer(
        0, "sessions", 0, 2**31 - 1, "Sessions at one time, with and without a connection; 0 sets no limit."
    )
    mqtt_max_subscriptions: int = _integer(
        0, "subscriptions", 0, 2**31 - 1, "Subscriptions of a client; 0 sets no limit."
    )
    mqtt_message_expiry_max_s: int = _integer(
        0, "s", 0, 2**32 - 1, "The longest time that a message waits for MQTT subscribers; 0 sets no limit."
    )
    mqtt_retained_max: int = _integer(0, "messages", 0, 2**31 - 1, "Retained messages kept; 0 sets no limit.")
    mqtt_retained_octets_max: int = _integer(
        1 * MIB, "octets", 0, 128 * MIB, "The longest body of a retained message; 0 sets no limit."
    )
    mqtt_delayed_max: int = _integer(0, "messages", 0, 2**31 - 1, "Delayed messages kept; 0 sets no limit.")
    mqtt_sys_interval_s: int = _integer(
        10, "s", 0, 86_400, "Seconds between updates of the broker's figures under `$SYS/broker/`; 0 for none."
    )

    # AMQP
    amqp_frame_octets_max: int = _integer(131_072, "octets", 4096, 16 * MIB, "The longest AMQP frame, offered in tune.")
    amqp_channels_max: int = _integer(2047, "channels", 1, 65_535, "Channels of a connection, offered in tune.")
    amqp_heartbeat_s: int = _integer(60, "s", 0, 65_535, "Seconds between heartbeats, offered in tune; 0 for none.")

    # publishing only once
    deduplication_window_ms: int = _integer(
        600_000, "ms", 1, 10**12, "How long the broker remembers producers and keys whose messages it takes only once."
    )
    deduplication_keys_max: int = _integer(
        1_000_000, "keys", 1, 2**31 - 1, "How many producers and keys it remembers; beyond it the oldest are forgotten."
    )
    transaction_octets_max: int = _integer(
        128 * MIB, "octets", 1 * MIB, GIB, "Messages of an AMQP transaction that may wait for its commit."
    )
    transaction_memory_ms: int = _integer(
        7 * 24 * HOUR_S * 1000, "ms", 1000, 10**12, "How long the broker remembers which batch a sink committed last."
    )
    transactions_max: int = _integer(
        100_000, "queries", 1, 2**31 - 1, "Of how many sinks; beyond it those that were idle for longest are forgotten."
    )
    staging_expiry_ms: int = _integer(
        HOUR_S * 1000, "ms", 1000, 10**12, "How long what a sink has staged waits for its commit."
    )

    # disk and memory
    wal_octets_max: int = _integer(256 * MIB, "octets", 1 * MIB, 16 * GIB, "When a file of the log is full.")
    wal_chunk_octets: int = _integer(
        32 * MIB, "octets", 64 * KIB, GIB, "Disk that is reserved at once, before messages are accepted for it."
    )
    settle_margin_octets: int = _integer(
        1 * MIB, "octets", 64 * KIB, GIB, "Reserve for acknowledgements, so that consumers go on when the disk is full."
    )
    segment_octets_max: int = _integer(64 * MIB, "octets", 1 * MIB, GIB, "The longest segment file of a queue.")
    cache_octets_max: int = _integer(128 * MIB, "octets", 1 * MIB, 1024 * GIB, "Blocks kept in memory for readers.")
    memory_octets_max: int = _integer(
        1 * GIB, "octets", 64 * MIB, 1024 * GIB, "Memory above which publishers are not read any more."
    )


def option_fields(cls: type) -> list[tuple[str, OptionSpec, object]]:
    """Name, spec and default of every option of a table; the default is MISSING where a value must be given."""
    return [(item.name, _spec(item), _default(item)) for item in fields(cls)]


def make_options(values: Mapping[str, object]) -> Options:
    """The options with these values, defaults for the rest.

    values  by name; a text is read as the option's kind, so that values of the environment and of files are alike
    raises  OptionError: names the key, the value, what it may be, and for an unknown key the nearest known one
    """
    options = check_values(values)
    seen: set[str] = set()
    for queue in options.queues:
        if queue.name in seen:
            raise OptionError(f"queues: the name {queue.name!r} is there twice")
        seen.add(queue.name)
    if options.wal_chunk_octets > options.wal_octets_max:
        raise OptionError(
            f"wal_chunk_octets: {options.wal_chunk_octets} is more than wal_octets_max ({options.wal_octets_max})"
        )
    return options


def check_values(values: Mapping[str, object]) -> Options:
    """As `make_options`, without the rules that concern two values together: for values of one place among several."""
    return _build(Options, values, "")


def split_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`; an IPv6 host stands in brackets.

    raises  OptionError
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise OptionError(f"{text!r} is not HOST:PORT (an IPv6 host stands in brackets: [::1]:5672)")
    if not colon or not host or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
        raise OptionError(f"{text!r} is not HOST:PORT with a port from 0 to 65535")
    return host, int(port)


def _build(cls: type[T], values: object, path: str) -> T:
    if not isinstance(values, Mapping):
        raise OptionError(f"{path.rstrip('.') or 'options'}: {_shown(values)} is not a set of keys and values")
    table = {name: (spec, default) for name, spec, default in option_fields(cls)}
    made: dict[str, object] = {}
    for key, value in values.items():
        if key not in table:
            raise OptionError(_unknown(path, str(key), list(table)))
        made[key] = _value(table[key][0], value, f"{path}{key}")
    for name, (spec, default) in table.items():
        if default is MISSING and name not in made:
            raise OptionError(f"{path}{name}: missing; give {spec.domain()}")
    return cls(**made)


def _unknown(path: str, key: str, known: list[str]) -> str:
    near = get_close_matches(key.lower().replace("-", "_"), known, n=1, cutoff=0.5)
    hint = f"did you mean {path}{near[0]}?" if near else f"known are {', '.join(known)}"
    return f"{path}{key}: no such option; {hint}"


def _value(spec: OptionSpec, value: object, path: str) -> object:
    """The value as the option's kind, checked."""
    if spec.kind == INTEGER:
        return _integer_value(spec, value, path)
    if spec.kind == BOOLEAN:
        return _boolean_value(spec, value, path)
    if spec.kind in {TEXT, ADDRESS, FILE, PATTERN, SERVER}:
        return _text_value(spec, value, path)
    if isinstance(value, str):
        value = _from_json(spec, value, path)
    if spec.kind == USERS:
        return _users_value(spec, value, path)
    if spec.kind == PRIORITIES:
        return _priorities_value(spec, value, path)
    if spec.kind == TABLE:
        assert spec.inner is not None
        return _build(spec.inner, value, f"{path}.")
    if not isinstance(value, list):
        raise _bad(spec, value, path)
    if spec.kind == TABLES:
        assert spec.inner is not None
        return [_build(spec.inner, each, f"{path}[{place}].") for place, each in enumerate(value)]
    for each in value:
        if not isinstance(each, str) or not each or (spec.choices and each not in spec.choices):
            raise _bad(spec, value, path)
    return list(value)


def _integer_value(spec: OptionSpec, value: object, path: str) -> int:
    if isinstance(value, str):
        match = _NUMBER.fullmatch(value.strip())
        if match is None or len(match[1]) > _NUMBER_DIGITS_MAX:
            raise _bad(spec, value, path)
        scale = _SCALE.get(match[2].lower()) if spec.unit == "octets" else _SCALE.get(match[2])
        if scale is None or (scale > 1 and spec.unit != "octets"):
            raise _bad(spec, value, path)
        value = int(match[1]) * scale
    if not isinstance(value, int) or isinstance(value, bool) or not spec.least <= value <= spec.most:
        raise _bad(spec, value, path)
    return value


def _boolean_value(spec: OptionSpec, value: object, path: str) -> bool:
    if isinstance(value, str):
        value = {"true": True, "false": False}.get(value.strip().lower(), value)
    if not isinstance(value, bool):
        raise _bad(spec, value, path)
    return value


def _text_value(spec: OptionSpec, value: object, path: str) -> str:
    if isinstance(value, float) and str(value) in spec.choices:
        return str(value)  # a version such as 1.3, which YAML and TOML read as a number
    if not isinstance(value, str) or (spec.choices and value not in spec.choices):
        raise _bad(spec, value, path)
    if spec.kind in {ADDRESS, SERVER}:
        try:
            port = split_address(value)[1] if value else -1
        except OptionError as error:
            raise OptionError(f"{path}: {error}") from None
        if port == 0 and spec.kind == SERVER:
            raise _bad(spec, value, path)
    elif not value and spec.kind not in {FILE, PATTERN}:
        raise _bad(spec, value, path)
    return value


def _users_value(spec: OptionSpec, value: object, path: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise OptionError(f"{path}: must be {spec.domain()}")
    users: dict[str, str] = {}
    for name, password in value.items():
        # The password itself stays out of the message: logs are read by many.
        if not isinstance(name, str) or not name or not isinstance(password, str):
            raise OptionError(f"{path}.{name}: the name must not be empty and the password must be text")
        users[name] = password
    return users


def _priorities_value(spec: OptionSpec, value: object, path: str) -> dict[str, int]:
    if not isinstance(value, Mapping):
        raise _bad(spec, value, path)
    priorities: dict[str, int] = {}
    for topic, priority in value.items():
        # A filter would be taken for a topic that nobody publishes to, and change nothing without a word.
        if not isinstance(topic, str) or not topic or "+" in topic or "#" in topic:
            raise OptionError(f"{path}: {_shown(topic)} is no topic; must be {spec.domain()}")
        priorities[topic] = _integer_value(spec, priority, f"{path}.{topic}")
    return priorities


def _from_json(spec: OptionSpec, text: str, path: str) -> object:
    try:
        return json.loads(text)
    except ValueError as error:
        raise OptionError(f"{path}: not JSON ({error}); must be {spec.domain()}") from None


def _bad(spec: OptionSpec, value: object, path: str) -> OptionError:
    unit = f" {spec.unit}" if spec.unit else ""
    return OptionError(f"{path}: {_shown(value)} is out of range; must be {spec.domain()}{unit}")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def _spec(item: Field[Any]) -> OptionSpec:
    spec = item.metadata["spec"]
    assert isinstance(spec, OptionSpec)
    return spec


def _default(item: Field[Any]) -> object:
    return item.default if item.default_factory is MISSING else item.default_factory()
