"""Which commands there are, and what each of them loads: a command should not wait for the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import typer

EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused or failed; 2 the command was wrong; "
    "3 no broker answered, or nobody knows what it did."
)
Loaded = Mapping[str, typer.Typer | Callable[..., Any]]  # groups, and commands that are in none


def _bench() -> Loaded:
    from forebay.cli.bench import bench

    return {"bench": bench}


def _completion() -> Loaded:
    from forebay.cli.completion import completion

    return {"completion": completion}


def _config() -> Loaded:
    from forebay.cli import configuration

    return {"config": configuration.app, "webhook": configuration.webhooks}


def _consume() -> Loaded:
    from forebay.cli.consuming import consume

    return {"consume": consume}


def _definitions() -> Loaded:
    from forebay.cli import definitions

    return {"definitions": definitions.app}


def _delayed() -> Loaded:
    from forebay.cli import delayed

    return {"delayed": delayed.app}


def _dlq() -> Loaded:
    from forebay.cli import dlq

    return {"dlq": dlq.app}


def _exchanges() -> Loaded:
    from forebay.cli import exchanges

    return {"binding": exchanges.bindings, "exchange": exchanges.app}


def _logs() -> Loaded:
    from forebay.cli import logs

    return {"log": logs.app}


def _message() -> Loaded:
    from forebay.cli import message

    return {"message": message.app, "stream": message.streams}


def _policies() -> Loaded:
    from forebay.cli import policies

    return {"operator-policy": policies.operators, "policy": policies.app}


def _publish() -> Loaded:
    from forebay.cli.publishing import publish

    return {"publish": publish}


def _queues() -> Loaded:
    from forebay.cli import queues

    return {"queue": queues.app}


def _readers() -> Loaded:
    from forebay.cli import readers

    return {
        "channel": readers.channels,
        "connection": readers.connections,
        "consumer": readers.consumers,
        "group": readers.groups,
        "lease": readers.leases,
    }


def _running() -> Loaded:
    from forebay.cli.running import demo, serve, version

    return {"demo": demo, "serve": serve, "version": version}


def _sessions() -> Loaded:
    from forebay.cli import sessions

    return {"retained": sessions.retained, "session": sessions.app, "subscription": sessions.subscriptions}


def _spark() -> Loaded:
    from forebay.cli import spark

    return {"spark": spark.app}


def _status() -> Loaded:
    from forebay.cli.status import status

    return {"status": status}


def _top() -> Loaded:
    from forebay.cli.top import top

    return {"top": top}


def _traces() -> Loaded:
    from forebay.cli import traces

    return {"trace": traces.app}


def _transactions() -> Loaded:
    from forebay.cli import transactions

    return {"transaction": transactions.app}


def _users() -> Loaded:
    from forebay.cli import users

    return {"permission": users.permissions, "topic-permission": users.topics, "user": users.app}


def _vhosts() -> Loaded:
    from forebay.cli import vhosts

    return {"vhost": vhosts.app}


LOADERS: Final[dict[str, Callable[[], Loaded]]] = {
    "bench": _bench,
    "binding": _exchanges,
    "channel": _readers,
    "completion": _completion,
    "config": _config,
    "connection": _readers,
    "consume": _consume,
    "consumer": _readers,
    "definitions": _definitions,
    "delayed": _delayed,
    "demo": _running,
    "dlq": _dlq,
    "exchange": _exchanges,
    "group": _readers,
    "lease": _readers,
    "log": _logs,
    "message": _message,
    "operator-policy": _policies,
    "permission": _users,
    "policy": _policies,
    "publish": _publish,
    "queue": _queues,
    "retained": _sessions,
    "serve": _running,
    "session": _sessions,
    "spark": _spark,
    "status": _status,
    "stream": _message,
    "subscription": _sessions,
    "top": _top,
    "topic-permission": _users,
    "trace": _traces,
    "transaction": _transactions,
    "user": _users,
    "version": _running,
    "vhost": _vhosts,
    "webhook": _config,
}


def command_line(word: str = "") -> typer.Typer:
    """The command `forebay`; only the part of it that a first word names, if it names one."""
    app = typer.Typer(
        name="forebay",
        help="One durable message broker for MQTT and AMQP whose queues are tables for Apache Spark.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for name in [word] if word in LOADERS else LOADERS:
        command = LOADERS[name]()[name]
        if isinstance(command, typer.Typer):
            for each in command.registered_commands:
                each.epilog = EXIT_CODES
            app.add_typer(command, name=name)
        else:
            app.command(name, epilog=EXIT_CODES)(command)
    if word in LOADERS:
        app.callback()(nothing)  # with one command alone it would be no group, and take no word
    return app


def nothing() -> None:
    """What comes before a command: nothing."""
