"""Options of access, the second part: users, their limits, and backends that decide on logins."""

from __future__ import annotations

from dataclasses import dataclass

from forebay.core import option_names as words
from forebay.core.option_groups import PermissionOptions, VhostOptions
from forebay.core.option_places import PlaceOptions
from forebay.core.option_table import (
    FILE,
    GIB,
    KIB,
    MIB,
    NAMES,
    SECRET,
    TABLES,
    TEXT,
    URL,
    USERS,
    VALUE,
    integer,
    option,
)


@dataclass(frozen=True, slots=True)
class AccessOptions(PlaceOptions):
    """The options of users, rates and backends of logins."""

    # who
    users: dict[str, str] = option(
        {"guest": "guest"},
        USERS,
        "Users with their passwords, or with the Argon2id hashes of these (`$argon2id$...`).",
        reloadable=True,
    )
    amqp_shared_access_keys: dict[str, str] = option(
        {},
        USERS,
        "Keys of users for shared access signatures, by which clients of Azure Service Bus log in: "
        "`SharedAccessKeyName` and `SharedAccessKey` of a connection string. Nobody else logs in by a signature.",
        reloadable=True,
    )
    loopback_users: list[str] = option(
        ["guest"], NAMES, "Users who may log in from this machine only.", reloadable=True
    )
    login_failures_free: int = integer(
        30,
        "failures",
        0,
        10**6,
        "Wrong logins as one user from one address before that pair has to wait; 0: nobody ever waits, and "
        "`login_address_failures_free` has no effect either.",
        reloadable=True,
    )
    login_address_failures_free: int = integer(
        1000,
        "failures a minute",
        1,
        10**6,
        "Wrong logins from one address, or as one user, before logins there have to wait. Who logged in "
        "correctly within `login_trust_s` does not wait.",
        reloadable=True,
    )
    login_trust_s: int = integer(
        86_400,
        "s",
        0,
        10**8,
        "Time after a correct login in which wrong logins by others from that address do not delay this user.",
        reloadable=True,
    )
    login_wait_max_s: int = integer(
        60, "s", 1, 86_400, "The longest wait after wrong logins; it begins with 1 s and doubles.", reloadable=True
    )
    audit_log: str = option(
        "",
        FILE,
        "File for the audit log: one line of JSON for each change, with who made it. Empty: the lines go to "
        "the broker's log.",
    )
    administrators: list[str] = option(
        ["*"], NAMES, "Those of `users` who may administer the broker; `*` for all.", reloadable=True
    )
    permissions: list[PermissionOptions] = option(
        [],
        TABLES,
        "Permissions of users. A user who is not named here may do everything.",
        inner=PermissionOptions,
        reloadable=True,
    )
    vhosts: list[VhostOptions] = option(
        [], TABLES, 'Vhosts that the broker declares at its start, besides "/".', inner=VhostOptions, reloadable=True
    )

    # how much
    connections_login_max: int = integer(
        1000,
        "connections",
        1,
        10**6,
        "Connections, among `connections_max`, whose clients have not logged in. Beyond it, and where all places are "
        "taken, the oldest of them ends when another one comes.",
        reloadable=True,
    )
    login_buffers_octets_max: int = integer(
        8 * MIB,
        "octets",
        64 * KIB,
        GIB,
        "Octets of unfinished packets of all clients together that have not logged in, TLS handshakes among them. "
        "Beyond it the oldest unfinished connections end.",
        reloadable=True,
    )
    amqp_login_frame_octets_max: int = integer(
        4096,
        "octets",
        4096,
        16 * MIB,
        "The longest AMQP frame before connection.tune-ok. Long tokens as passwords need more.",
    )
    client_topology_octets_max: int = integer(
        64 * MIB,
        "octets",
        0,
        2**40,
        "Memory, as estimated, that one client may take with subscriptions, consumers and exclusive queues; "
        "0 sets no limit.",
        reloadable=True,
    )
    vhost_topology_octets_max: int = integer(
        512 * MIB,
        "octets",
        0,
        2**40,
        "Memory, as estimated, of everything that is declared in one vhost: subscriptions, bindings, queues, "
        "exchanges and consumers, without messages; 0 sets no limit.",
        reloadable=True,
    )

    # how fast
    address_connections_per_min: int = integer(
        0, "connections", 0, 10**6, "Connections a minute from one address; 0 sets no limit.", reloadable=True
    )
    address_connections_burst: int = integer(
        20, "connections", 1, 10**6, "So many of these may come at once.", reloadable=True
    )
    client_messages_per_s: int = integer(
        0, "messages", 0, 10**9, "Messages a second from one connection; 0 sets no limit.", reloadable=True
    )
    client_messages_burst: int = integer(
        100, "messages", 1, 10**9, "So many of these may come at once.", reloadable=True
    )
    client_octets_per_s: int = integer(
        0, "octets", 0, 2**40, "Octets a second from one connection; 0 sets no limit.", reloadable=True
    )
    client_subscribes_per_s: int = integer(
        0, "subscriptions", 0, 10**6, "Subscriptions and consumers a second from one connection; 0 sets no limit."
    )
    client_subscribes_burst: int = integer(10, "subscriptions", 1, 10**6, "So many of these may come at once.")
    user_messages_per_s: int = integer(
        0, "messages", 0, 10**9, "Messages a second from all connections of one user; 0 sets no limit.", reloadable=True
    )
    user_octets_per_s: int = integer(
        0, "octets", 0, 2**40, "Octets a second from all connections of one user; 0 sets no limit.", reloadable=True
    )

    # who, as others say
    auth_backends: list[str] = option(
        [words.INTERNAL], NAMES, "Backends that decide on a login, asked in this order.", choices=words.BACKENDS
    )
    auth_http_user_url: str = option(
        "", URL, "The HTTP backend's URL for logins. It answers `allow`, followed by the user's tags, or `deny`."
    )
    auth_http_vhost_url: str = option("", URL, "The HTTP backend's URL for access to a vhost.")
    auth_http_resource_url: str = option("", URL, "The HTTP backend's URL for access to a queue or exchange.")
    auth_http_topic_url: str = option("", URL, "The HTTP backend's URL for use of a routing key or MQTT topic.")
    auth_http_method: str = option("post", TEXT, "HTTP method of these requests.", choices=("post", "get"))
    auth_http_timeout_ms: int = integer(
        5000, "ms", 10, 10**6, "Time for an answer; without one the login or access is refused."
    )
    auth_http_cache_s: int = integer(60, "s", 0, 10**8, "Time for which an answer is remembered.")
    auth_http_protocols: list[str] = option(
        list(words.PROTOCOLS), NAMES, "Protocols whose logins go to the HTTP backend.", choices=words.PROTOCOLS
    )
    auth_http_ca: str = option(
        "", FILE, "Authorities that sign the HTTP backend's certificate, PEM. Empty: the system's."
    )
    oauth_issuer: str = option(
        "",
        URL,
        "Issuer that tokens must come from (claim `iss`). The broker finds the issuer's keys by OpenID discovery.",
    )
    oauth_jwks_url: str = option("", URL, "URL of the issuer's keys, for an issuer without discovery.")
    oauth_jwks_file: str = option("", FILE, "A JSON Web Key Set with the keys, instead of a URL.")
    oauth_key: str = option("", SECRET, "A shared key for HS256, HS384 and HS512, instead of a URL.")
    oauth_ca: str = option("", FILE, "Authorities that sign the issuer's certificate, PEM. Empty: the system's.")
    oauth_audience: str = option("", VALUE, "The audience that a token must name (claim `aud`): this broker.")
    oauth_scope_prefix: str = option(
        "", VALUE, "Prefix of the scopes that concern this broker. Empty: the audience and a dot."
    )
    oauth_algorithms: list[str] = option(
        list(words.USUAL), NAMES, "Signature algorithms that are accepted.", choices=words.ALGORITHMS
    )
    oauth_leeway_s: int = integer(30, "s", 0, 3600, "Difference between clocks that is tolerated.")
    oauth_user_claims: list[str] = option(
        ["sub", "client_id"], NAMES, "Claims that hold the user name; the first one present counts."
    )
    oauth_additional_scopes_key: str = option("", VALUE, "A claim with further scopes, besides `scope` and `scp`.")
