"""The vhosts, queues, exchanges and bindings that the configuration names."""

from __future__ import annotations

from dataclasses import asdict
from typing import Final

from forebay.broker.catalog.configured import configure_queue
from forebay.broker.catalog.topology import RESERVED
from forebay.broker.vhost import Vhost
from forebay.broker.vhosts import Vhosts
from forebay.core.errors import OptionError, RequestError
from forebay.core.option_cluster import SYNC, ClusterOptions
from forebay.core.option_groups import (
    QUORUM,
    STREAM,
    ExchangeOptions,
    FairnessOptions,
    LeaseOptions,
    OrderOptions,
    QueueOptions,
    ReplicationOptions,
)
from forebay.core.options import Options
from forebay.directory.vhost_list import DEFAULT_VHOST
from forebay.management.definitions.imported import ImportPlan, ImportStep
from forebay.message.address import DEAD_LETTER_PREFIX, TOPIC_EXCHANGE
from forebay.queue.declaration.arguments import BY_KEY
from forebay.queue.declaration.last_value_arguments import LAST_VALUE_KEY, check_last_value_arguments, check_same_key
from forebay.queue.declaration.limits import DOUBLING
from forebay.queue.declaration.spec import QueueSpec
from forebay.queue.declaration.view_arguments import (
    FILTER,
    PUBLISH_TARGET,
    RECOVERY_POINT,
    SOURCE,
    check_same_source,
    check_view_arguments,
    text_argument,
)
from forebay.routing.exchange import check_arguments, text
from forebay.routing.kinds import make_exchange
from forebay.routing.topic_trie import swap_key

EVERY_QUEUE: Final = "$queue/#"  # what a reserved queue is for: its binding would take also what others take
CONFIGURABLE: Final = (
    "x-max-age",
    "x-max-length-bytes",
    "x-max-length",
    "x-max-message-size",
    "x-overflow",
    "x-message-ttl",
    "x-delivery-limit",
    "x-delayed-retry-type",
    "x-delayed-retry-min",
    "x-delayed-retry-max",
    "x-delayed-retry-backoff",
    "x-delayed-retry-multiplier",
    "x-nack-counts",
    "x-retain",
    "x-retain-bytes",
    "x-retain-length",
    "x-retry-timeout",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-visibility-timeout",
    "x-lease-period",
    "x-semantics",
    "x-max-backlog",
    "x-max-subscription-backlog",
    "x-deferred-ack",
    "x-max-deliveries",
    "x-max-cancels",
    "x-dead-letter-reasons",
    "x-fairness",
    "x-fair-key",
    "x-fair-weight",
    "x-key-concurrency",
    "x-primary-group",
)

UNCHANGED: Final = ("x-priority-expression",)  # arguments that cannot change after the declaration


def declare_configured(vhosts: Vhosts, options: Options) -> None:
    """Make the configured vhosts, exchanges and bindings, and in the default vhost the configured queues.

    The default vhost is made, too, where something of the configuration belongs to it.
    """
    for wanted in options.vhosts:
        made = vhosts.add(wanted.name.encode())
        settings: dict[str, object] = {
            "description": wanted.description,
            "default_queue_type": wanted.default_queue_type,
            "connections_max": wanted.connections_max,
            "octets_max": wanted.octets_max,
            "queues_max": wanted.queues_max,
        }
        if {**made.catalog.settings.fields(), **settings} != made.catalog.settings.fields():
            vhosts.change(made, settings)
    vhost = vhosts.add(DEFAULT_VHOST) if needs_default(options) else vhosts.default()
    if vhost is not None:
        vhost.touch()
        vhost.catalog.set_fallback(None)  # an earlier configuration may have set one
        wanted_now = wanted_queues(vhosts, options)
        for name, (spec, entry) in sorted(wanted_now.items(), key=lambda each: SOURCE in each[1][0].arguments):
            topics = [topic.encode() for topic in entry.topics if topic != EVERY_QUEUE] if entry is not None else []
            try:
                configure_queue(vhost.catalog, name, spec.arguments, topics, entry is not None and entry.reserved)
            except RequestError as error:
                raise OptionError(f"queues: {error.text}") from None
    for step in wanted_routes(vhosts, options):
        step.do()


def needs_default(options: Options) -> bool:
    """Return whether something of the configuration belongs to the default vhost."""
    named = [entry.vhost for entry in options.exchanges] + [entry.vhost for entry in options.bindings]
    return len(options.queues) > 0 or DEFAULT_VHOST.decode() in named


def wanted_queues(vhosts: Vhosts, options: Options) -> dict[bytes, tuple[QueueSpec, QueueOptions | None]]:
    """Return the configured queues by name, and their dead-letter queues, which have no entry. Change nothing.

    raises  OptionError where there is a queue of another type of that name
    """
    wanted: dict[bytes, tuple[dict[str, object], QueueOptions | None]] = {}
    for place, entry in enumerate(options.queues):
        wanted[entry.name.encode()] = configured_arguments(entry, f"queues[{place}]", options.cluster), entry
    for entry in options.queues:
        if entry.dlq.enabled and not entry.dlq.topic and entry.type != STREAM:
            wanted.setdefault(DEAD_LETTER_PREFIX + entry.name.encode(), ({"x-queue-type": "classic"}, None))
    found: dict[bytes, tuple[QueueSpec, QueueOptions | None]] = {}
    vhost = vhosts.default()
    for name, (arguments, origin) in wanted.items():
        check_source(vhost, wanted, name, arguments)
        spec = QueueSpec(True, False, False, arguments, options.visibility_timeout_ms)
        there = None if vhost is None else vhost.catalog.queues.get(name)
        found[name] = spec if there is None else changed_spec(there.spec, spec, text(name)), origin
    return found


def check_source(
    vhost: Vhost | None,
    wanted: dict[bytes, tuple[dict[str, object], QueueOptions | None]],
    name: bytes,
    arguments: dict[str, object],
) -> None:
    """Raise OptionError if a view's stream does not exist, or if the view was declared with another one."""
    queues = {} if vhost is None else vhost.catalog.queues
    there = queues.get(name)
    try:
        if there is not None:
            check_same_source(f"queue '{text(name)}'", there.spec.arguments, arguments)
            check_same_key(f"queue '{text(name)}'", there.spec.arguments, arguments)
        elif SOURCE in arguments:
            source = text_argument(arguments, SOURCE)
            entry = wanted.get(source.encode())
            stream = queues.get(source.encode())
            is_stream = entry is not None and entry[0].get("x-queue-type") == STREAM
            if not is_stream and (stream is None or stream.spec.type != STREAM):
                raise OptionError(f"queues: {text(name)!r} is a view of {source!r}, which is no stream")
    except RequestError as error:
        raise OptionError(f"queues: {error.text}") from None


def wanted_routes(vhosts: Vhosts, options: Options) -> list[ImportStep]:
    """Return the steps that make the configured exchanges and bindings from those that exist. Change nothing.

    raises  OptionError where one cannot be made of what is there, or of what the configuration makes
    """
    default = DEFAULT_VHOST.decode()
    for place, entry in enumerate(options.exchanges):
        vhost = vhosts.by_name.get(entry.vhost.encode())
        there = None if vhost is None else vhost.catalog.bindings.exchanges.get(entry.name.encode())
        if vhost is not None and there is not None:
            kind, name = entry.type.encode(), f"exchanges[{place}]"
            try:
                there.check_equivalent(
                    vhost.name, kind, entry.durable, entry.auto_delete, entry.internal, entry.arguments
                )
            except RequestError as error:
                raise OptionError(f"{name}: {error.text}") from None
    vhost_names = [entry.name for entry in options.vhosts]
    if needs_default(options) and default not in vhost_names:
        vhost_names.append(default)
    document: dict[str, object] = {
        "vhosts": [{"name": name} for name in vhost_names],
        "exchanges": [asdict(entry) for entry in options.exchanges],
        "queues": [{"name": name.decode(), "vhost": default} for name in wanted_queues(vhosts, options)],
        "bindings": [asdict(entry) for entry in options.bindings],
    }
    plan = ImportPlan(vhosts, document)
    steps = plan.steps()
    faults = plan.faults + [part.text() for part in plan.left_out]
    if faults:
        raise OptionError("; ".join(faults))
    return [step for step in steps if step.what.startswith(("exchanges[", "bindings["))]


def unbind_configured(vhosts: Vhosts, old: Options, new: Options) -> None:
    """Unbind bindings that the new configuration no longer has. Deletes no exchange or queue."""
    for entry in old.bindings:
        vhost = vhosts.by_name.get(entry.vhost.encode())
        if entry in new.bindings or vhost is None:
            continue
        unbind = vhost.catalog.unbind if entry.destination_type == "queue" else vhost.catalog.unbind_exchange
        unbind(entry.destination.encode(), entry.source.encode(), entry.routing_key.encode(), entry.arguments)


def check_exchange(entry: ExchangeOptions, path: str) -> None:
    """Raise OptionError if no exchange can be declared like this. `path` is the entry's, for errors."""
    name = entry.name.encode()
    if name.startswith(RESERVED):
        raise OptionError(f"{path}.name: {entry.name!r} begins with 'amq.', which is the broker's own")
    try:
        check_arguments(entry.vhost.encode(), name, entry.arguments)
        make_exchange(
            entry.type.encode(), name, entry.durable, entry.auto_delete, entry.internal, dict(entry.arguments)
        )
    except RequestError as error:
        raise OptionError(f"{path}: {error.text}") from None


def configured_arguments(entry: QueueOptions, path: str, cluster: ClusterOptions) -> dict[str, object]:
    """Return the queue arguments equal to an entry of the configuration. Raises OptionError for an invalid entry.

    path  of the entry, for errors
    """
    if entry.replication.enabled:
        check_replication(entry.replication, f"{path}.replication", cluster)
    arguments: dict[str, object] = {"x-queue-type": entry.type}
    if entry.limits.message_ttl_ms:
        arguments["x-message-ttl"] = entry.limits.message_ttl_ms
    if entry.type == STREAM:
        refuse_on_stream(entry, path)
        retention = entry.retention
        if retention.max_age_s:
            arguments["x-max-age"] = f"{retention.max_age_s}s"
        if retention.max_length_bytes:
            arguments["x-max-length-bytes"] = retention.max_length_bytes
        if retention.max_length_messages:
            arguments["x-max-length"] = retention.max_length_messages
    else:
        arguments.update(work_arguments(entry))
        arguments.update(retention_arguments(entry, f"{path}.retention"))
        arguments.update(retained_arguments(entry))
    if entry.limits.max_message_size:
        arguments["x-max-message-size"] = entry.limits.max_message_size
    if entry.visibility_timeout_ms:
        arguments["x-visibility-timeout"] = entry.visibility_timeout_ms
    if entry.primary_group:
        arguments["x-primary-group"] = entry.primary_group
    arguments.update(view_arguments(entry, path))
    if entry.last_value_key:
        arguments[LAST_VALUE_KEY] = entry.last_value_key
        check_last_value(entry, path, arguments)
    return arguments


def check_last_value(entry: QueueOptions, path: str, arguments: dict[str, object]) -> None:
    """Refuse with OptionError what an entry says that does not go together with being a last-value queue."""
    if entry.type == STREAM:
        raise OptionError(f"{path}.last_value_key: a last-value queue is no stream; leave out type: {entry.type}")
    fault = BY_KEY["last-value-key"].fault(entry.last_value_key)
    if fault:
        raise OptionError(f"{path}.last_value_key: {fault}")
    try:
        check_last_value_arguments(path, arguments)
    except RequestError as error:
        raise OptionError(f"{path}: {error.text}") from None


def view_arguments(entry: QueueOptions, path: str) -> dict[str, object]:
    """Return the arguments of a view; OptionError for what an entry says that does not go with them."""
    said = {
        SOURCE: entry.source,
        RECOVERY_POINT: entry.recovery_point,
        FILTER: entry.filter,
        PUBLISH_TARGET: entry.publish_target,
    }
    found: dict[str, object] = {argument: value for argument, value in said.items() if value}
    if found and entry.type == STREAM:
        raise OptionError(f"{path}.source: a view is no stream; leave out type: {entry.type}")
    taking = {"topics": entry.topics, "reserved": entry.reserved, "limits.max_depth": entry.limits.max_depth}
    for key, is_asked in (taking | {"limits.max_message_size": entry.limits.max_message_size}).items():
        if found and is_asked:
            raise OptionError(f"{path}.{key} cannot be in force on a view: it takes no publishes, its stream does")
    try:
        check_view_arguments(path, True, False, found | retained_arguments(entry))
    except RequestError as error:
        raise OptionError(f"{path}: {error.text}") from None
    return found


def check_replication(wanted: ReplicationOptions, path: str, cluster: ClusterOptions) -> None:
    """Raise OptionError if a queue asks for more replication than the cluster gives every queue."""
    if not cluster.name:
        raise OptionError(f"{path}.enabled: True cannot be: this broker stands alone, it has no section 'cluster'")
    if wanted.group not in {"", cluster.name}:
        raise OptionError(f"{path}.group: {wanted.group!r} is not there; every queue is of {cluster.name!r}")
    if wanted.replication_factor > cluster.members:
        raise OptionError(
            f"{path}.replication_factor: {wanted.replication_factor} is more than cluster.members ({cluster.members})"
        )
    if wanted.min_in_sync_replicas > cluster.quorum():
        raise OptionError(
            f"{path}.min_in_sync_replicas: {wanted.min_in_sync_replicas} is more than cluster.min_in_sync "
            f"({cluster.quorum()}), which holds for every queue"
        )
    if wanted.mode == SYNC and cluster.mode != SYNC:
        raise OptionError(f"{path}.mode: {wanted.mode!r} cannot be: cluster.mode is {cluster.mode!r} for every queue")
    if wanted.ack_timeout_ms:
        raise OptionError(
            f"{path}.ack_timeout_ms: {wanted.ack_timeout_ms} cannot be: a confirm comes when enough nodes have the "
            "message, however long that takes; leave it out"
        )


def work_arguments(entry: QueueOptions) -> dict[str, object]:
    """Return the arguments of a work queue, whose messages are settled. A stream does not have them."""
    arguments: dict[str, object] = {}
    limits, retry = entry.limits, entry.retry
    if limits.max_depth:
        arguments["x-max-length"] = limits.max_depth
        arguments["x-overflow"] = "reject-publish"
    if retry.max_retries >= 0:
        arguments["x-delivery-limit"] = retry.max_retries
        if entry.type == QUORUM:
            arguments["x-nack-counts"] = True  # FluxMQ counts every attempt
    if retry.total_timeout_ms:
        arguments["x-retry-timeout"] = retry.total_timeout_ms
    if retry.initial_backoff_ms:
        arguments["x-delayed-retry-type"] = "all"
        arguments["x-delayed-retry-min"] = retry.initial_backoff_ms
        arguments["x-delayed-retry-max"] = retry.initial_backoff_ms
        factor = float(retry.multiplier)
        if factor > 1 and retry.max_backoff_ms > retry.initial_backoff_ms:
            arguments["x-delayed-retry-max"] = retry.max_backoff_ms
            arguments["x-delayed-retry-backoff"] = "exponential"
            if factor != DOUBLING:
                arguments["x-delayed-retry-multiplier"] = factor
    if entry.dlq.enabled:
        arguments.update(dead_letter_arguments(entry))
    arguments.update(lease_arguments(entry))
    if entry.order.priority_expression:
        arguments["x-priority-expression"] = entry.order.priority_expression
    arguments.update(fairness_arguments(entry))
    return arguments


def lease_arguments(entry: QueueOptions) -> dict[str, object]:
    """Return the lease arguments: how much consumers may hold, and when a message counts as settled."""
    arguments: dict[str, object] = {}
    lease = entry.lease
    if lease.semantics != LeaseOptions().semantics:
        arguments["x-semantics"] = lease.semantics
    if lease.deferred_ack_ms != LeaseOptions().deferred_ack_ms:
        arguments["x-deferred-ack"] = lease.deferred_ack_ms
    if lease.dead_letter_reasons != LeaseOptions().dead_letter_reasons:
        arguments["x-dead-letter-reasons"] = lease.dead_letter_reasons
    for name, number in (
        ("x-lease-period", lease.period_ms),
        ("x-max-backlog", lease.max_backlog),
        ("x-max-subscription-backlog", lease.max_subscription_backlog),
        ("x-max-deliveries", lease.max_deliveries),
        ("x-max-cancels", lease.max_cancels),
    ):
        if number:
            arguments[name] = number
    return arguments


def fairness_arguments(entry: QueueOptions) -> dict[str, object]:
    """Return the fairness arguments, which choose the next consumer and the key whose message is next."""
    fairness = entry.fairness
    arguments: dict[str, object] = {}
    for name, value in (
        ("x-fairness", fairness.strategy),
        ("x-fair-key", fairness.key),
        ("x-fair-weight", fairness.weight),
        ("x-key-concurrency", fairness.key_concurrency),
    ):
        if value:
            arguments[name] = value
    return arguments


def retention_arguments(entry: QueueOptions, path: str) -> dict[str, object]:
    """Return the length and age limits of a work queue for an entry's `retention`, which is a stream's option.

    raises  OptionError where the oldest would have to give way, and the newest to be refused
    """
    arguments: dict[str, object] = {}
    retention, limits = entry.retention, entry.limits
    if retention.max_age_s:
        age_ms = retention.max_age_s * 1000
        arguments["x-message-ttl"] = min(age_ms, limits.message_ttl_ms or age_ms)
    if not retention.max_length_messages and not retention.max_length_bytes:
        return arguments
    if limits.max_depth:
        name = "max_length_messages" if retention.max_length_messages else "max_length_bytes"
        raise OptionError(
            f"{path}.{name}: {getattr(retention, name)} drops the oldest, and limits.max_depth: {limits.max_depth} "
            f"refuses the newest; leave one of them out"
        )
    arguments["x-overflow"] = "drop-head"
    if retention.max_length_messages:
        arguments["x-max-length"] = retention.max_length_messages
    if retention.max_length_bytes:
        arguments["x-max-length-bytes"] = retention.max_length_bytes
    return arguments


def retained_arguments(entry: QueueOptions) -> dict[str, object]:
    """Return the arguments by which a queue retains what was settled."""
    retain = entry.retain
    found = {
        "x-retain": f"{retain.max_age_s}s" if retain.max_age_s else None,
        "x-retain-bytes": retain.max_length_bytes,
        "x-retain-length": retain.max_length_messages,
    }
    return {argument: value for argument, value in found.items() if value}


def dead_letter_arguments(entry: QueueOptions) -> dict[str, object]:
    """Return the arguments for the dead-letter target: a queue through the default exchange, or a topic."""
    topic = entry.dlq.topic or f"$dlq/{entry.name}"
    if topic.startswith("$"):
        is_name = topic.startswith("$queue/") and topic.count("/") == 1
        key = topic.removeprefix("$queue/") if is_name else topic
        return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": key}
    return {
        "x-dead-letter-exchange": text(TOPIC_EXCHANGE),
        "x-dead-letter-routing-key": text(swap_key(topic.encode())),
    }


def refuse_on_stream(entry: QueueOptions, path: str) -> None:
    """Raise OptionError if a stream's entry has an option that only work queues have."""
    for key, is_asked in (
        ("limits.max_depth", entry.limits.max_depth),
        ("retry.max_retries", entry.retry.max_retries >= 0),
        ("retry.initial_backoff", entry.retry.initial_backoff_ms),
        ("retry.total_timeout", entry.retry.total_timeout_ms),
        ("dlq.enabled", entry.dlq.enabled),
        ("retain", bool(retained_arguments(entry))),
        ("lease", entry.lease != LeaseOptions()),
        ("order", entry.order != OrderOptions()),
        ("fairness", entry.fairness != FairnessOptions()),
    ):
        if is_asked:
            raise OptionError(f"{path}.{key} cannot be in force on a stream: its retention says what it keeps")


def changed_spec(old: QueueSpec, wanted: QueueSpec, name: str) -> QueueSpec:
    """Return the spec of an existing queue with the configured arguments replaced and all others as declared.

    raises  OptionError where it is of another type, or in another order
    """
    if old.type != wanted.type:
        raise OptionError(
            f"queues: {name!r} is to be a {wanted.type} queue, but there is a {old.type} queue of that name"
        )
    for key in UNCHANGED:
        if key in wanted.arguments and wanted.arguments[key] != old.arguments.get(key):
            raise OptionError(f"queues: {name!r} is there with another {key}: delete the queue, or leave the key out")
    arguments = {key: value for key, value in old.arguments.items() if key not in CONFIGURABLE}
    arguments.update(wanted.arguments)
    return QueueSpec(old.durable, old.auto_delete, old.exclusive, arguments, wanted.visibility_ms)
