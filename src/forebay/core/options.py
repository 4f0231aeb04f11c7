"""Every option of the broker, once: its name, unit, default, range and meaning.

The fields of `PlaceOptions`, `AccessOptions` and `Options`, in this order, are the table. The command line, the
environment (FOREBAY_<NAME>), the configuration file and docs/reference/options.md are all made from it, and `Options`
itself is what it becomes: parsed once, frozen, handed down.

An option of octets or time says its unit at the end of its name. `option_table.py` says what kinds of value there are,
`option_groups.py` what an entry of a list of tables holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forebay.core import option_names as words
from forebay.core.option_access import AccessOptions
from forebay.core.option_cluster import ClusterOptions, cluster_problems
from forebay.core.option_groups import (
    CLASSIC,
    QUORUM,
    STREAM,
    BindingOptions,
    ExchangeOptions,
    QueueOptions,
    WebhookOptions,
)
from forebay.core.option_table import (
    FILE,
    GIB,
    HOUR_S,
    KIB,
    MIB,
    NAMES,
    PRIORITIES,
    SERVER,
    TABLE,
    TABLES,
    TEXT,
    BadOptions,
    Problem,
    boolean,
    build,
    integer,
    option,
    wrong,
)


@dataclass(frozen=True, slots=True)
class Options(AccessOptions):
    """All options of one broker.

    made by  `make_options`, which checks; the constructor does not
    """

    # queues
    queues: list[QueueOptions] = option(
        [], TABLES, 'Queues that the broker declares in "/" at its start.', inner=QueueOptions, reloadable=True
    )
    exchanges: list[ExchangeOptions] = option(
        [], TABLES, "Exchanges that the broker declares at its start.", inner=ExchangeOptions, reloadable=True
    )
    bindings: list[BindingOptions] = option(
        [],
        TABLES,
        "Bindings that the broker declares at its start, between exchanges and queues that exist.",
        inner=BindingOptions,
        reloadable=True,
    )
    visibility_timeout_ms: int = integer(
        30_000,
        "ms",
        10,
        10**10,
        "Time for which an MQTT client may hold a queue's message unsettled; then it is delivered again. AMQP "
        "consumers have `consumer_timeout_ms`.",
        reloadable=True,
    )
    consumer_timeout_ms: int = integer(
        1_800_000,
        "ms",
        0,
        10**10,
        "Time for which an AMQP consumer may hold a message unsettled; then the consumer is cancelled. 0 sets "
        "no limit.",
        reloadable=True,
    )
    delivery_limit: int = integer(
        -1,
        "failures",
        -1,
        2**31 - 1,
        "A message of a classic queue dies after more failures than this; -1 sets no limit.",
        reloadable=True,
    )
    default_queue_type: str = option(
        CLASSIC,
        TEXT,
        "Type of a durable queue that is declared without `x-queue-type`.",
        choices=(CLASSIC, QUORUM, STREAM),
    )
    queue_type_equivalence_relaxed: bool = boolean(
        False,
        "A queue may be declared again with another `x-queue-type` than it has; it keeps its type.",
        reloadable=True,
    )
    auto_commit_interval_ms: int = integer(
        5_000,
        "ms",
        1,
        10**8,
        "Interval at which the position of an auto-committing stream group is stored.",
        reloadable=True,
    )
    address_queues: str = option(
        words.DURABLE,
        TEXT,
        "The first publish or subscribe to a `$queue/<name>` that does not exist makes a durable queue, an "
        "ephemeral one in memory, or is refused.",
        choices=words.ADDRESS_QUEUES,
        reloadable=True,
    )
    address_queues_max: int = integer(
        10_000, "queues", 0, 10**6, "Queues of a vhost that may be made this way; 0 sets no limit.", reloadable=True
    )
    ephemeral_expiry_ms: int = integer(
        300_000, "ms", 0, 10**10, "Time for which an ephemeral queue outlives its last consumer.", reloadable=True
    )
    hold_ttl_max_ms: int = integer(
        24 * HOUR_S * 1000,
        "ms",
        1000,
        10**10,
        "The longest time for which a reader may hold records without renewing the hold.",
        reloadable=True,
    )

    # messages and clients
    message_octets_max: int = integer(
        16 * MIB, "octets", 1, 128 * MIB, "The longest message body accepted.", reloadable=True
    )
    handshake_timeout_ms: int = integer(10_000, "ms", 10, 10**7, "Time for a client to log in.", reloadable=True)
    login_octets_max: int = integer(
        64 * KIB, "octets", 4 * KIB, 16 * MIB, "The longest packet or frame from a client that has not logged in yet."
    )
    connections_max: int = integer(
        10_000, "connections", 1, 10**6, "Connections at one time, over all AMQP and MQTT listeners.", reloadable=True
    )
    send_buffer_octets_max: int = integer(
        16 * MIB,
        "octets",
        64 * KIB,
        GIB,
        "Octets that may wait for one slow reader before deliveries to it pause.",
        reloadable=True,
    )
    filter_work_a_turn: int = integer(
        65_536,
        "points",
        1024,
        10**9,
        "Work that consumers' filters may do in one turn of the event loop; to look at one message costs 5 points.",
    )
    table_depth_max: int = integer(100, "levels", 1, 128, "Nesting of an AMQP table.", reloadable=True)
    drain_timeout_ms: int = integer(
        10_000,
        "ms",
        0,
        10**7,
        "Time for a client to leave when the broker stops or closes its connection.",
        reloadable=True,
    )

    # MQTT
    mqtt_packet_octets_max: int = integer(
        17 * MIB, "octets", 1 * KIB, 268_435_455 + 5, "The longest MQTT packet accepted."
    )
    mqtt_topic_levels_max: int = integer(128, "levels", 1, 1024, "Levels of a topic or topic filter.", reloadable=True)
    mqtt_user_properties_max: int = integer(1000, "properties", 1, 65_535, "User properties of an MQTT packet.")
    mqtt_max_qos: int = integer(
        2, "QoS", 0, 2, "The highest QoS of subscriptions and publishes; see [MQTT](mqtt.md).", reloadable=True
    )
    mqtt_server_keep_alive_s: int = integer(
        0,
        "s",
        0,
        65_535,
        "Keep alive that the broker prescribes to clients; 0 takes the client's own.",
        reloadable=True,
    )
    mqtt_topic_alias_max: int = integer(
        32, "aliases", 0, 65_535, "Topic aliases of a connection in each direction; 0 allows none.", reloadable=True
    )
    mqtt_auth_methods: list[str] = option(
        [words.SCRAM_SHA_256],
        NAMES,
        "Methods of enhanced authentication (AUTH) that the broker offers.",
        choices=words.SCRAMS,
        reloadable=True,
    )
    mqtt_acl: str = option(
        "",
        FILE,
        "Rules on topics for clients of every protocol, in the format of mosquitto's `acl_file`. A topic "
        "without a rule is refused.",
        reloadable=True,
    )
    mqtt_redirect: str = option(
        "", SERVER, "Another server: every MQTT client is sent there and not served here.", reloadable=True
    )
    mqtt_redirect_code: str = option(
        words.ANOTHER,
        TEXT,
        "A redirected client is told to use the other server for good (`moved`, 0x9D) or this time (`another`, 0x9C).",
        choices=words.REDIRECTS,
        reloadable=True,
    )

    # MQTT: messages on their way to and from a client
    mqtt_receive_max: int = integer(
        1024,
        "messages",
        1,
        65_535,
        "QoS 1 and 2 messages that a client may have published and not yet acknowledged (Receive Maximum).",
        reloadable=True,
    )
    mqtt_max_awaiting_rel: int = integer(
        1024,
        "messages",
        0,
        65_535,
        "QoS 2 messages of a client that may wait for its PUBREL; 0 sets no limit.",
        reloadable=True,
    )
    mqtt_max_inflight: int = integer(
        32,
        "messages",
        0,
        65_535,
        "QoS 1 and 2 messages that may be on their way to a client unacknowledged; 0 sets no limit.",
        reloadable=True,
    )
    mqtt_max_mqueue_len: int = integer(
        1000,
        "messages",
        0,
        2**31 - 1,
        "Messages that may wait for a client; `mqtt_mqueue_overflow` says what happens beyond it. 0 sets no limit.",
    )
    mqtt_mqueue_store_qos0: bool = boolean(True, "QoS 0 messages wait, too, while their client is away.")
    mqtt_mqueue_qos0_bypass: bool = boolean(
        True, "QoS 0 messages go to a connected client at once, ahead of others that wait."
    )
    mqtt_mqueue_priorities: dict[str, int] = option(
        {}, PRIORITIES, "Topics with a priority: the waiting messages with the highest go first.", least=1, most=255
    )
    mqtt_mqueue_default_priority: str = option(
        words.LOWEST, TEXT, "Topics without a priority rank below those that have one, or above.", choices=words.PLACES
    )
    mqtt_mqueue_overflow: str = option(
        words.HOLD,
        TEXT,
        "Beyond `mqtt_max_mqueue_len`: durable sessions keep messages on disk and other clients' publishers "
        "are held back (`hold`), all sessions keep them on disk (`spill`), or the oldest are dropped "
        "(`drop`).",
        choices=words.OVERFLOWS,
    )
    mqtt_publisher_hold_ms: int = integer(
        2000,
        "ms",
        0,
        600_000,
        "Time for which publishers are held back for a connected client that does not keep up, before it "
        "loses messages; 0 holds nobody back.",
    )
    mqtt_session_octets_max: int = integer(
        GIB,
        "octets",
        0,
        2**62,
        "Octets that may wait on disk for one durable session. Beyond it publishers to the session are held "
        "back, then refused. 0 sets no limit.",
        reloadable=True,
    )
    mqtt_shared_strategy: str = option(
        words.ROUND_ROBIN,
        TEXT,
        "How the broker chooses the member of a shared subscription that gets a message.",
        choices=words.SHARED_STRATEGIES,
    )

    # MQTT: what is kept for clients
    mqtt_session_expiry_s: int = integer(
        604_800,
        "s",
        0,
        2**32 - 1,
        "Time for which the session of an MQTT 3.1.1 client without clean session outlives its connection.",
        reloadable=True,
    )
    mqtt_session_expiry_max_s: int = integer(
        0,
        "s",
        0,
        2**32 - 1,
        "The longest Session Expiry Interval that an MQTT 5 client gets; 0 sets no limit.",
        reloadable=True,
    )
    mqtt_sessions_max: int = integer(
        0,
        "sessions",
        0,
        2**31 - 1,
        "Sessions at one time, with and without a connection; 0 sets no limit.",
        reloadable=True,
    )
    mqtt_client_id_scope: str = option(
        words.USER,
        TEXT,
        "What a client identifier is unique in. `user`: two users with the same identifier have a session each. "
        "`vhost`: a CONNECT is refused while another user has a session under its identifier.",
        choices=words.CLIENT_ID_SCOPES,
        reloadable=True,
    )
    mqtt_max_subscriptions: int = integer(
        0, "subscriptions", 0, 2**31 - 1, "Subscriptions of a client; 0 sets no limit.", reloadable=True
    )
    mqtt_message_expiry_max_s: int = integer(
        0,
        "s",
        0,
        2**32 - 1,
        "The longest time for which a message waits for MQTT subscribers; 0 sets no limit.",
        reloadable=True,
    )
    mqtt_retained_max: int = integer(
        0, "messages", 0, 2**31 - 1, "Retained messages that the broker keeps; 0 sets no limit.", reloadable=True
    )
    mqtt_retained_octets_max: int = integer(
        1 * MIB, "octets", 0, 128 * MIB, "The longest body of a retained message; 0 sets no limit.", reloadable=True
    )
    mqtt_delayed_max: int = integer(
        0, "messages", 0, 2**31 - 1, "Delayed messages that the broker keeps; 0 sets no limit.", reloadable=True
    )
    mqtt_sys_interval_s: int = integer(
        10,
        "s",
        0,
        86_400,
        "Interval between updates of the statistics under `$SYS/broker/`; 0 publishes none.",
        reloadable=True,
    )

    # AMQP
    amqp_frame_octets_max: int = integer(
        131_072, "octets", 4096, 16 * MIB, "The longest AMQP frame; `connection.tune` offers it.", reloadable=True
    )
    amqp_channels_max: int = integer(
        2047, "channels", 1, 65_535, "Channels of a connection; `connection.tune` offers it.", reloadable=True
    )
    amqp_heartbeat_s: int = integer(
        60, "s", 0, 65_535, "Interval between heartbeats; `connection.tune` offers it. 0 sends none.", reloadable=True
    )
    amqp_delivery_headers: str = option(
        words.NONE,
        TEXT,
        "Headers with message id, group, queue and offset that every delivery gets: none, `x-forebay-…`, or "
        "FluxMQ's names. A consumer's `x-delivery-headers` overrides it.",
        choices=words.DELIVERY_HEADERS,
        reloadable=True,
    )
    amqp_product: str = option(
        words.AUTO,
        TEXT,
        "The product that AMQP 1.0 clients are told to be connected to. RabbitMQ's own clients refuse any other than "
        "RabbitMQ. `auto` says so to those that show whom they expect; its Python client does not.",
        choices=words.AMQP_PRODUCTS,
        reloadable=True,
    )
    amqp_queue_addresses: list[str] = option(
        [],
        NAMES,
        "Plain AMQP 1.0 addresses, with `*` for any text, that name queues, which are declared if they are missing: "
        "`orders.*`. Others are topics, unless the client says that they are queues.",
        reloadable=True,
    )

    # publishing only once
    deduplication_window_ms: int = integer(
        600_000, "ms", 1, 10**12, "Time for which the broker remembers deduplication keys and producers."
    )
    deduplication_keys_max: int = integer(
        1_000_000,
        "keys",
        1,
        2**31 - 1,
        "Deduplication keys and producers that the broker remembers; beyond it, it forgets the oldest.",
    )
    transaction_octets_max: int = integer(
        128 * MIB,
        "octets",
        1 * MIB,
        GIB,
        "Octets of memory that an AMQP transaction may take until its commit; each publish takes 256 beside its own.",
        reloadable=True,
    )
    transaction_memory_ms: int = integer(
        7 * 24 * HOUR_S * 1000,
        "ms",
        1000,
        10**12,
        "Time for which the broker remembers the last batch that a Spark sink has committed.",
    )
    transactions_max: int = integer(
        100_000,
        "queries",
        1,
        2**31 - 1,
        "Sinks whose last batch the broker remembers; beyond it, it forgets those that have been idle longest.",
    )
    staging_expiry_ms: int = integer(
        HOUR_S * 1000,
        "ms",
        1000,
        10**12,
        "Time for which a sink's staged rows wait for their commit; then they are deleted.",
    )

    # disk and memory
    wal_octets_max: int = integer(
        256 * MIB, "octets", 1 * MIB, 16 * GIB, "Size at which the broker begins a new WAL file."
    )
    wal_chunk_octets: int = integer(
        32 * MIB,
        "octets",
        64 * KIB,
        GIB,
        "Disk space that the broker reserves in one step before it accepts messages for it; at most `wal_octets_max`.",
    )
    settle_margin_octets: int = integer(
        1 * MIB,
        "octets",
        64 * KIB,
        GIB,
        "Disk space kept for acknowledgements, so that consumers go on when the disk is full.",
    )
    segment_octets_max: int = integer(64 * MIB, "octets", 1 * MIB, GIB, "The longest segment file of a queue.")
    cache_octets_max: int = integer(
        128 * MIB, "octets", 1 * MIB, 1024 * GIB, "Memory for blocks that readers have read."
    )
    memory_octets_max: int = integer(
        1 * GIB,
        "octets",
        64 * MIB,
        1024 * GIB,
        "Beyond this memory use, the broker stops reading from publishers (memory alarm).",
        reloadable=True,
    )
    disk_free_min_octets: int = integer(
        48 * MIB,
        "octets",
        0,
        2**62,
        "Below this free disk space, the broker stops reading from publishers (disk alarm).",
        reloadable=True,
    )
    disk_answer_timeout_ms: int = integer(
        1000,
        "ms",
        10,
        3_600_000,
        "When a write or sync takes longer, the log says that the disk does not answer, and publishers are told.",
        reloadable=True,
    )
    queue_octets_max: int = integer(
        0,
        "octets",
        0,
        2**62,
        "Octets that one queue may hold on disk before its publishers are slowed down; 0 sets no limit.",
        reloadable=True,
    )
    queue_memory_percent_max: int = integer(
        25,
        "% of `memory_octets_max`",
        1,
        100,
        "Share of memory that one queue without a file may hold before its publishers are slowed down.",
        reloadable=True,
    )
    send_buffers_octets_max: int = integer(
        256 * MIB,
        "octets",
        64 * KIB,
        1024 * GIB,
        "Octets that may wait for all slow readers together, and as many for those over HTTP. Beyond it the broker "
        "ends the connections with the most.",
        reloadable=True,
    )
    slow_reader_timeout_ms: int = integer(
        0,
        "ms",
        0,
        10**10,
        "A connection that reads nothing of what waits for it is ended after this time; 0 never ends it.",
        reloadable=True,
    )

    # events and logs
    events: list[str] = option(
        [],
        NAMES,
        "Types of events that the stream `$events` keeps, with `*` for any text: `client.*`.",
        reloadable=True,
    )
    events_max_age_s: int = integer(
        7 * 24 * HOUR_S, "s", 0, 10**10, "Age at which `$events` drops events; 0 keeps them for ever.", reloadable=True
    )
    events_octets_max: int = integer(
        GIB,
        "octets",
        1 * MIB,
        2**62,
        "Octets that `$events` may hold; beyond it the oldest events go.",
        reloadable=True,
    )
    webhooks: list[WebhookOptions] = option(
        [], TABLES, "Webhooks: URLs that get events by HTTP.", inner=WebhookOptions, reloadable=True
    )
    log_level: str = option(
        "info", TEXT, "The least severe level that is logged.", choices=words.LOG_LEVELS, reloadable=True
    )
    log_format: str = option(
        "text",
        TEXT,
        "Format of the log: lines of text, or one JSON object a line.",
        choices=("text", "json"),
        reloadable=True,
    )
    log_file: str = option(
        "", FILE, "File for the log. Empty: stderr. After the file is moved away, the broker opens a new one."
    )
    log_events: list[str] = option(
        [], NAMES, "Types of events that are logged, too, with `*` for any text.", reloadable=True
    )
    drain_grace_ms: int = integer(
        0,
        "ms",
        0,
        10**7,
        "At a stop, `/ready` answers *not ready* for this time before the broker refuses new clients.",
        reloadable=True,
    )

    # many
    cluster: ClusterOptions = option(
        ClusterOptions(), TABLE, "The cluster that this broker is a node of.", inner=ClusterOptions
    )


def make_options(values: Mapping[str, object]) -> Options:
    """Return options with these values, and defaults for the rest.

    values  by name; a text is read as the option's kind, so that values of the environment and of files are alike
    raises  OptionError: names the key, the value, what it may be, and for an unknown key the nearest known one
    """
    options = check_values(values)
    problems: list[Problem] = []
    seen: set[str] = set()
    for place, queue in enumerate(options.queues):
        if queue.name in seen:
            problems.append(Problem(f"queues[{place}].name", f"queues: the name {queue.name!r} is there twice"))
        seen.add(queue.name)
    if options.wal_chunk_octets > options.wal_octets_max:
        most = f"{options.wal_chunk_octets} is more than wal_octets_max ({options.wal_octets_max})"
        problems += wrong("wal_chunk_octets", most).problems
    problems += cluster_problems(options.cluster)
    if problems:
        raise BadOptions(problems)
    return options


def check_values(values: Mapping[str, object]) -> Options:
    """Check values without the rules that concern two values together: for values of one place among several."""
    return build(Options, values, "")
