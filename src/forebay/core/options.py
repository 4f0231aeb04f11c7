"""Every option of the broker, once: its name, unit, default, range and meaning.

The fields of `Options`, and before them those of `PlaceOptions`, are the table. The command line, the environment
(FOREBAY_<NAME>), the configuration file and docs/reference/options.md are all made from it, and `Options` itself is
what it becomes: parsed once, frozen, handed down.

An option of octets or time says its unit at the end of its name. `option_table.py` says what kinds of value there are,
`option_groups.py` what an entry of a list of tables holds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from forebay.core import option_names as words
from forebay.core.option_cluster import ClusterOptions, cluster_problems
from forebay.core.option_groups import (
    CLASSIC,
    QUORUM,
    STREAM,
    BindingOptions,
    ExchangeOptions,
    PermissionOptions,
    QueueOptions,
    VhostOptions,
    WebhookOptions,
)
from forebay.core.option_places import PlaceOptions
from forebay.core.option_table import (
    FILE,
    GIB,
    HOUR_S,
    KIB,
    MIB,
    NAMES,
    PATTERN,
    PRIORITIES,
    SECRET,
    SERVER,
    TABLE,
    TABLES,
    TEXT,
    USERS,
    BadOptions,
    Problem,
    boolean,
    build,
    integer,
    option,
    wrong,
)


@dataclass(frozen=True, slots=True)
class Options(PlaceOptions):
    """All options of one broker.

    made by  `make_options`, which checks; the constructor does not
    """

    # who
    users: dict[str, str] = option(
        {"guest": "guest"},
        USERS,
        "Users and their passwords, or the Argon2id hashes of these, `$argon2id$...`.",
        reloadable=True,
    )
    loopback_users: list[str] = option(
        ["guest"], NAMES, "Users who may connect from this machine only.", reloadable=True
    )
    login_failures_free: int = integer(
        30,
        "failures",
        0,
        10**6,
        "Wrong logins as one user from one address before it has to wait there; 0: nobody has to wait, for whatever.",
        reloadable=True,
    )
    login_address_failures_free: int = integer(
        1000,
        "failures a minute",
        1,
        10**6,
        "Wrong logins from one address, or as one user from anywhere, before those have to wait who were not right "
        "there lately.",
        reloadable=True,
    )
    login_trust_s: int = integer(
        86_400,
        "s",
        0,
        10**8,
        "How long after a right login wrong ones from the same address do not hold up who knows the password.",
        reloadable=True,
    )
    login_wait_max_s: int = integer(
        60, "s", 1, 86_400, "The longest wait: it begins with 1 s and doubles.", reloadable=True
    )
    audit_log: str = option(
        "", FILE, "To which lines of JSON are added that say who changed what; without it, they are in the log."
    )
    administrators: list[str] = option(
        ["*"], NAMES, "Which of `users` may administer the broker; `*` for all.", reloadable=True
    )
    permissions: list[PermissionOptions] = option(
        [],
        TABLES,
        "What users may do; one who is not named here may do everything.",
        inner=PermissionOptions,
        reloadable=True,
    )
    vhosts: list[VhostOptions] = option(
        [], TABLES, 'Vhosts that are there from the start, beside "/".', inner=VhostOptions, reloadable=True
    )

    # how fast
    address_connections_per_min: int = integer(
        0, "connections", 0, 10**6, "Connections a minute from one address; 0 sets no limit.", reloadable=True
    )
    address_connections_burst: int = integer(
        20, "connections", 1, 10**6, "How many of them may come at once.", reloadable=True
    )
    client_messages_per_s: int = integer(
        0, "messages", 0, 10**9, "Messages a second over one connection; 0 sets no limit.", reloadable=True
    )
    client_messages_burst: int = integer(
        100, "messages", 1, 10**9, "How many of them may come at once.", reloadable=True
    )
    client_octets_per_s: int = integer(
        0, "octets", 0, 2**40, "Octets a second from one connection; 0 sets no limit.", reloadable=True
    )
    client_subscribes_per_s: int = integer(
        0, "subscriptions", 0, 10**6, "Subscriptions and consumers a second over one connection; 0 sets no limit."
    )
    client_subscribes_burst: int = integer(10, "subscriptions", 1, 10**6, "How many of them may come at once.")
    user_messages_per_s: int = integer(
        0, "messages", 0, 10**9, "Messages a second of one user; 0 sets no limit.", reloadable=True
    )
    user_octets_per_s: int = integer(
        0, "octets", 0, 2**40, "Octets a second from all connections of one user; 0 sets no limit.", reloadable=True
    )

    # who, as others say
    auth_backends: list[str] = option(
        [words.INTERNAL], NAMES, "Who is asked whether a login is right, in this order.", choices=words.BACKENDS
    )
    auth_http_user_url: str = option("", PATTERN, "Where is asked who may log in: `allow`, with tags behind it.")
    auth_http_vhost_url: str = option("", PATTERN, "Where is asked who may enter a vhost.")
    auth_http_resource_url: str = option("", PATTERN, "Where is asked who may do something with a queue or exchange.")
    auth_http_topic_url: str = option("", PATTERN, "Where is asked who may use a routing key or MQTT topic.")
    auth_http_method: str = option("post", TEXT, "How is asked.", choices=("post", "get"))
    auth_http_timeout_ms: int = integer(5000, "ms", 10, 10**6, "How long an answer may take; none is a no.")
    auth_http_cache_s: int = integer(60, "s", 0, 10**8, "How long an answer is remembered.")
    auth_http_protocols: list[str] = option(
        list(words.PROTOCOLS), NAMES, "Whose logins are asked about.", choices=words.PROTOCOLS
    )
    auth_http_ca: str = option("", FILE, "Authorities that may vouch for that server, PEM; else the system's.")
    oauth_issuer: str = option("", PATTERN, "Who must have made a token (`iss`); its keys are looked up there.")
    oauth_jwks_url: str = option("", PATTERN, "Where the issuer's keys are, if it does not say so itself.")
    oauth_jwks_file: str = option("", FILE, "A file with the keys instead, a JSON Web Key Set.")
    oauth_key: str = option("", SECRET, "One key for the algorithms HS256, HS384 and HS512 instead.")
    oauth_ca: str = option("", FILE, "Authorities that may vouch for the issuer's server, PEM; else the system's.")
    oauth_audience: str = option("", PATTERN, "For whom a token must be (`aud`): this broker.")
    oauth_scope_prefix: str = option("", PATTERN, "How our scopes begin; else with the audience and a dot.")
    oauth_algorithms: list[str] = option(
        list(words.USUAL), NAMES, "How tokens may be signed.", choices=words.ALGORITHMS
    )
    oauth_leeway_s: int = integer(30, "s", 0, 3600, "How far clocks may differ.")
    oauth_user_claims: list[str] = option(["sub", "client_id"], NAMES, "Which claim is the user: the first there is.")
    oauth_additional_scopes_key: str = option("", PATTERN, "A claim that has more scopes, beside `scope` and `scp`.")

    # queues
    queues: list[QueueOptions] = option(
        [], TABLES, "Queues that are there from the start.", inner=QueueOptions, reloadable=True
    )
    exchanges: list[ExchangeOptions] = option(
        [], TABLES, "Exchanges that are there from the start.", inner=ExchangeOptions, reloadable=True
    )
    bindings: list[BindingOptions] = option(
        [],
        TABLES,
        "Bindings that are there from the start, of exchanges and queues that are.",
        inner=BindingOptions,
        reloadable=True,
    )
    visibility_timeout_ms: int = integer(
        30_000,
        "ms",
        10,
        10**10,
        "How long a consumer may hold a message before somebody else gets it.",
        reloadable=True,
    )
    consumer_timeout_ms: int = integer(
        1_800_000,
        "ms",
        0,
        10**10,
        "How long an AMQP consumer may hold a message before it is cancelled; 0 for ever.",
        reloadable=True,
    )
    delivery_limit: int = integer(
        -1,
        "failures",
        -1,
        2**31 - 1,
        "Failures after which a message of a classic queue dies; -1 sets no limit.",
        reloadable=True,
    )
    default_queue_type: str = option(
        CLASSIC,
        TEXT,
        "What kind of queue a durable one is that is declared without `x-queue-type`.",
        choices=(CLASSIC, QUORUM, STREAM),
    )
    queue_type_equivalence_relaxed: bool = boolean(
        False, "Whether a queue may be declared again with another `x-queue-type` than it has.", reloadable=True
    )
    auto_commit_interval_ms: int = integer(
        5_000, "ms", 1, 10**8, "How often the position of an auto-committing stream group is stored.", reloadable=True
    )
    address_queues: str = option(
        words.DURABLE,
        TEXT,
        "What the first publish or subscribe to `$queue/<name>` makes where there is no such queue: a durable one, one "
        "in memory (an ephemeral queue), or none, so that it is refused.",
        choices=words.ADDRESS_QUEUES,
        reloadable=True,
    )
    address_queues_max: int = integer(
        10_000, "queues", 0, 10**6, "Queues of a vhost that may be made so; 0 sets no limit.", reloadable=True
    )
    ephemeral_expiry_ms: int = integer(
        300_000, "ms", 0, 10**10, "How long an ephemeral queue outlives its last consumer.", reloadable=True
    )
    hold_ttl_max_ms: int = integer(
        24 * HOUR_S * 1000,
        "ms",
        1000,
        10**10,
        "For how long a reader may ask that records stay, without asking again.",
        reloadable=True,
    )

    # messages and clients
    message_octets_max: int = integer(
        16 * MIB, "octets", 1, 128 * MIB, "The longest message body accepted.", reloadable=True
    )
    handshake_timeout_ms: int = integer(
        10_000, "ms", 10, 10**7, "How long a client may take to log in.", reloadable=True
    )
    login_octets_max: int = integer(
        64 * KIB, "octets", 4 * KIB, 16 * MIB, "The longest packet or frame of a client that has not logged in yet."
    )
    connections_max: int = integer(
        10_000, "connections", 1, 10**6, "Connections at one time, over all listeners.", reloadable=True
    )
    send_buffer_octets_max: int = integer(
        16 * MIB,
        "octets",
        64 * KIB,
        GIB,
        "Octets that may wait for a slow reader before deliveries to it pause.",
        reloadable=True,
    )
    filter_work_a_turn: int = integer(
        65_536, "points", 1024, 10**9, "What filters of consumers may cost in one turn; a plain look at a message is 5."
    )
    table_depth_max: int = integer(100, "levels", 1, 128, "How deep an AMQP table may nest.", reloadable=True)
    drain_timeout_ms: int = integer(
        10_000, "ms", 0, 10**7, "How long a client may take to leave, at a stop or when it is let go.", reloadable=True
    )

    # MQTT
    mqtt_packet_octets_max: int = integer(
        17 * MIB, "octets", 1 * KIB, 268_435_455 + 5, "The longest MQTT packet accepted."
    )
    mqtt_topic_levels_max: int = integer(128, "levels", 1, 1024, "Levels of a topic or topic filter.", reloadable=True)
    mqtt_user_properties_max: int = integer(1000, "properties", 1, 65_535, "User properties of an MQTT packet.")
    mqtt_packet_filters_max: int = integer(1000, "filters", 1, 65_535, "Topic filters of a SUBSCRIBE or UNSUBSCRIBE.")
    mqtt_max_qos: int = integer(
        2, "QoS", 0, 2, "The highest QoS of subscriptions, and of publishes; docs/reference/mqtt.md.", reloadable=True
    )
    mqtt_server_keep_alive_s: int = integer(
        0, "s", 0, 65_535, "Keep alive that clients have to use; 0 takes the client's own.", reloadable=True
    )
    mqtt_topic_alias_max: int = integer(
        32, "aliases", 0, 65_535, "Topic aliases of a connection, each way; 0 allows none.", reloadable=True
    )
    mqtt_auth_methods: list[str] = option(
        [words.SCRAM_SHA_256],
        NAMES,
        "Methods of enhanced authentication that are offered.",
        choices=words.SCRAMS,
        reloadable=True,
    )
    mqtt_acl: str = option(
        "",
        FILE,
        "Which topics clients of every protocol may use, as in mosquitto's `acl_file`; whatever it does not allow is "
        "refused.",
        reloadable=True,
    )
    mqtt_redirect: str = option(
        "", SERVER, "Another server, to which every MQTT client is sent instead of served.", reloadable=True
    )
    mqtt_redirect_code: str = option(
        words.ANOTHER,
        TEXT,
        "What a redirected client is told: use the server for ever (`moved`) or this time (`another`).",
        choices=words.REDIRECTS,
        reloadable=True,
    )

    # MQTT: messages on their way to and from a client
    mqtt_receive_max: int = integer(
        1024,
        "messages",
        1,
        65_535,
        "QoS 1 and 2 messages that a client may publish before they are acknowledged.",
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
        "QoS 1 and 2 messages that are sent to a client before it acknowledges; 0 sets no limit.",
        reloadable=True,
    )
    mqtt_max_mqueue_len: int = integer(
        1000, "messages", 0, 2**31 - 1, "Messages that wait for a client: see `mqtt_mqueue_overflow`; 0 sets no limit."
    )
    mqtt_mqueue_store_qos0: bool = boolean(True, "Whether QoS 0 messages wait, too, for a client that is not there.")
    mqtt_mqueue_qos0_bypass: bool = boolean(
        True, "Whether QoS 0 messages are sent to a connected client at once, past others that wait for it."
    )
    mqtt_mqueue_priorities: dict[str, int] = option(
        {}, PRIORITIES, "Topics whose waiting messages are sent in this order, the highest first.", least=1, most=255
    )
    mqtt_mqueue_default_priority: str = option(
        words.LOWEST, TEXT, "Where topics without a priority stand among those with one.", choices=words.PLACES
    )
    mqtt_mqueue_overflow: str = option(
        words.HOLD,
        TEXT,
        "What becomes of messages beyond `mqtt_max_mqueue_len`: durable sessions keep them on disk and publishers to "
        "other clients are held back (`hold`), all sessions have them on disk (`spill`), or the oldest go (`drop`).",
        choices=words.OVERFLOWS,
    )
    mqtt_publisher_hold_ms: int = integer(
        2000,
        "ms",
        0,
        600_000,
        "How long publishers are held back for a connected client that does not keep up, before it loses messages; "
        "0 holds nobody back.",
    )
    mqtt_session_octets_max: int = integer(
        GIB,
        "octets",
        0,
        2**62,
        "What may wait on the disk for one durable session; beyond it who publishes to it is held back, and then "
        "refused. 0 sets no limit.",
        reloadable=True,
    )
    mqtt_shared_strategy: str = option(
        words.ROUND_ROBIN,
        TEXT,
        "Which member of a shared subscription gets a message.",
        choices=words.SHARED_STRATEGIES,
    )

    # MQTT: what is kept for clients
    mqtt_session_expiry_s: int = integer(
        604_800,
        "s",
        0,
        2**32 - 1,
        "How long the session of a 3.1.1 client without clean session outlives its connection.",
        reloadable=True,
    )
    mqtt_session_expiry_max_s: int = integer(
        0,
        "s",
        0,
        2**32 - 1,
        "The longest session expiry interval that a client of version 5 gets; 0 sets no limit.",
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
    mqtt_max_subscriptions: int = integer(
        0, "subscriptions", 0, 2**31 - 1, "Subscriptions of a client; 0 sets no limit.", reloadable=True
    )
    mqtt_message_expiry_max_s: int = integer(
        0,
        "s",
        0,
        2**32 - 1,
        "The longest time that a message waits for MQTT subscribers; 0 sets no limit.",
        reloadable=True,
    )
    mqtt_retained_max: int = integer(
        0, "messages", 0, 2**31 - 1, "Retained messages kept; 0 sets no limit.", reloadable=True
    )
    mqtt_retained_octets_max: int = integer(
        1 * MIB, "octets", 0, 128 * MIB, "The longest body of a retained message; 0 sets no limit.", reloadable=True
    )
    mqtt_delayed_max: int = integer(
        0, "messages", 0, 2**31 - 1, "Delayed messages kept; 0 sets no limit.", reloadable=True
    )
    mqtt_sys_interval_s: int = integer(
        10,
        "s",
        0,
        86_400,
        "Seconds between updates of the broker's statistics under `$SYS/broker/`; 0 for none.",
        reloadable=True,
    )

    # AMQP
    amqp_frame_octets_max: int = integer(
        131_072, "octets", 4096, 16 * MIB, "The longest AMQP frame, offered in tune.", reloadable=True
    )
    amqp_channels_max: int = integer(
        2047, "channels", 1, 65_535, "Channels of a connection, offered in tune.", reloadable=True
    )
    amqp_heartbeat_s: int = integer(
        60, "s", 0, 65_535, "Seconds between heartbeats, offered in tune; 0 for none.", reloadable=True
    )
    amqp_delivery_headers: str = option(
        words.NONE,
        TEXT,
        "Headers by which deliveries say their message id, group, queue and offset, unless consumers say it by "
        "`x-delivery-headers`: `x-forebay-…`, or FluxMQ's names.",
        choices=words.DELIVERY_HEADERS,
        reloadable=True,
    )

    # publishing only once
    deduplication_window_ms: int = integer(
        600_000, "ms", 1, 10**12, "How long the broker remembers producers and keys whose messages it takes only once."
    )
    deduplication_keys_max: int = integer(
        1_000_000, "keys", 1, 2**31 - 1, "How many producers and keys it remembers; beyond it the oldest are forgotten."
    )
    transaction_octets_max: int = integer(
        128 * MIB,
        "octets",
        1 * MIB,
        GIB,
        "Messages of an AMQP transaction that may wait for its commit.",
        reloadable=True,
    )
    transaction_memory_ms: int = integer(
        7 * 24 * HOUR_S * 1000, "ms", 1000, 10**12, "How long the broker remembers which batch a sink committed last."
    )
    transactions_max: int = integer(
        100_000, "queries", 1, 2**31 - 1, "Of how many sinks; beyond it those that were idle for longest are forgotten."
    )
    staging_expiry_ms: int = integer(
        HOUR_S * 1000, "ms", 1000, 10**12, "How long what a sink has staged waits for its commit."
    )

    # disk and memory
    wal_octets_max: int = integer(256 * MIB, "octets", 1 * MIB, 16 * GIB, "When a file of the log is full.")
    wal_chunk_octets: int = integer(
        32 * MIB, "octets", 64 * KIB, GIB, "Disk that is reserved at once, before messages are accepted for it."
    )
    settle_margin_octets: int = integer(
        1 * MIB, "octets", 64 * KIB, GIB, "Reserve for acknowledgements, so that consumers go on when the disk is full."
    )
    segment_octets_max: int = integer(64 * MIB, "octets", 1 * MIB, GIB, "The longest segment file of a queue.")
    cache_octets_max: int = integer(128 * MIB, "octets", 1 * MIB, 1024 * GIB, "Blocks kept in memory for readers.")
    memory_octets_max: int = integer(
        1 * GIB, "octets", 64 * MIB, 1024 * GIB, "Memory above which publishers are not read any more.", reloadable=True
    )
    disk_free_min_octets: int = integer(
        48 * MIB, "octets", 0, 2**62, "Free disk below which publishers are not read any more.", reloadable=True
    )
    queue_octets_max: int = integer(
        0,
        "octets",
        0,
        2**62,
        "What one queue may hold on the disk before those who publish to it are slowed down; 0 sets no limit.",
        reloadable=True,
    )
    queue_memory_percent_max: int = integer(
        25,
        "% of `memory_octets_max`",
        1,
        100,
        "What one queue without a file may hold before those who publish to it are slowed down.",
        reloadable=True,
    )
    send_buffers_octets_max: int = integer(
        256 * MIB,
        "octets",
        64 * KIB,
        1024 * GIB,
        "Octets that may wait for all slow readers together, each of whom has a share; should it be more, those with "
        "the most are ended.",
        reloadable=True,
    )
    slow_reader_timeout_ms: int = integer(
        0,
        "ms",
        0,
        10**10,
        "How long a connection may take nothing of what it is sent before it is ended; 0 for ever.",
        reloadable=True,
    )

    # events and logs
    events: list[str] = option(
        [], NAMES, "Events kept in the stream `$events`, with `*` for any text: `client.*`.", reloadable=True
    )
    events_max_age_s: int = integer(
        7 * 24 * HOUR_S, "s", 0, 10**10, "How long they are kept; 0 for ever.", reloadable=True
    )
    events_octets_max: int = integer(GIB, "octets", 1 * MIB, 2**62, "How much of them is kept.", reloadable=True)
    webhooks: list[WebhookOptions] = option(
        [], TABLES, "Where events are sent by HTTP.", inner=WebhookOptions, reloadable=True
    )
    log_level: str = option("info", TEXT, "What is logged.", choices=words.LOG_LEVELS, reloadable=True)
    log_format: str = option(
        "text", TEXT, "Lines of text, or of JSON with one object each.", choices=("text", "json"), reloadable=True
    )
    log_file: str = option("", FILE, "Where; without it to stderr. It may be moved away and is opened anew then.")
    log_events: list[str] = option([], NAMES, "Events that are logged, too, with `*` for any text.", reloadable=True)
    drain_grace_ms: int = integer(
        0, "ms", 0, 10**7, "At a stop, how long health checks fail before nobody is let in.", reloadable=True
    )

    # many
    cluster: ClusterOptions = option(
        ClusterOptions(), TABLE, "The cluster that this broker is a node of.", inner=ClusterOptions
    )


def make_options(values: Mapping[str, object]) -> Options:
    """The options with these values, defaults for the rest.

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
    """As `make_options`, without the rules that concern two values together: for values of one place among several."""
    return build(Options, values, "")
