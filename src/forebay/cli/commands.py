"""The table of commands, and what each of them loads: a command should not wait for the others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from forebay.cli.build import print_build

EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused or failed; 2 the command was wrong; "
    "3 no broker answered, or nobody knows what it did."
)
Loaded = Mapping[str, typer.Typer | Callable[..., Any]]  # groups, and commands that are in none


def _bench() -> Loaded:
    from forebay.cli.bench.command import bench

    return {"bench": bench}


def _completion() -> Loaded:
    from forebay.cli.completion import completion

    return {"completion": completion}


def _config() -> Loaded:
    from forebay.cli import configuration

    return {"config": configuration.app, "webhook": configuration.webhooks}


def _consume() -> Loaded:
    from forebay.cli.messages.consume import consume

    return {"consume": consume}


def _definitions() -> Loaded:
    from forebay.cli.manage import definitions

    return {"definitions": definitions.app}


def _delayed() -> Loaded:
    from forebay.cli.manage import delayed

    return {"delayed": delayed.app}


def _dlq() -> Loaded:
    from forebay.cli.manage import dlq

    return {"dlq": dlq.app}


def _exchanges() -> Loaded:
    from forebay.cli.manage import exchanges

    return {"binding": exchanges.bindings, "exchange": exchanges.app}


def _logs() -> Loaded:
    from forebay.cli.log import command

    return {"log": command.app}


def _message() -> Loaded:
    from forebay.cli.manage import message

    return {"message": message.app, "stream": message.streams}


def _policies() -> Loaded:
    from forebay.cli.manage import policies

    return {"operator-policy": policies.operators, "policy": policies.app}


def _publish() -> Loaded:
    from forebay.cli.messages.publish import publish

    return {"publish": publish}


def _queues() -> Loaded:
    from forebay.cli.manage import queues

    return {"queue": queues.app}


def _readers() -> Loaded:
    from forebay.cli.manage import readers

    return {
        "channel": readers.channels,
        "connection": readers.connections,
        "consumer": readers.consumers,
        "group": readers.groups,
        "lease": readers.leases,
    }


def _running() -> Loaded:
    from forebay.cli.running import serve, version

    return {"serve": serve, "version": version}


def _sessions() -> Loaded:
    from forebay.cli.manage import sessions

    return {"retained": sessions.retained, "session": sessions.app, "subscription": sessions.subscriptions}


def _spark() -> Loaded:
    from forebay.cli.spark import command

    return {"spark": command.app}


def _status() -> Loaded:
    from forebay.cli.manage.status import status

    return {"status": status}


def _top() -> Loaded:
    from forebay.cli.manage.top import top

    return {"top": top}


def _traces() -> Loaded:
    from forebay.cli.manage import traces

    return {"trace": traces.app}


def _transactions() -> Loaded:
    from forebay.cli.manage import transactions

    return {"transaction": transactions.app}


def _users() -> Loaded:
    from forebay.cli.manage import users

    return {"permission": users.permissions, "topic-permission": users.topics, "user": users.app}


def _vhosts() -> Loaded:
    from forebay.cli.manage import vhosts

    return {"vhost": vhosts.app}


@dataclass(frozen=True, slots=True)
class Word:
    """A command, or a group of them: what loads it, and what the list of all commands says of it.

    help  the first sentence of its own help: so that the list loads nothing
    """

    load: Callable[[], Loaded]
    help: str


WORDS: Final = {
    "bench": Word(
        _bench,
        "Publish and consume as fast as a few Python clients can, through a queue of its own that goes afterwards.",
    ),
    "binding": Word(_exchanges, "Bindings: which messages of an exchange go where."),
    "channel": Word(_readers, "Channels of AMQP connections."),
    "completion": Word(
        _completion,
        "Print what has a shell complete commands, options and names of queues; `--install-completion` sets it up.",
    ),
    "config": Word(_config, "The configuration: of a file, and of a running broker."),
    "connection": Word(_readers, "Connections of clients."),
    "consume": Word(_consume, "Take messages, print them, and acknowledge what is printed."),
    "consumer": Word(_readers, "Consumers."),
    "definitions": Word(_definitions, "All that is declared in a broker, in one file."),
    "delayed": Word(_delayed, "Messages that wait for their time."),
    "dlq": Word(_dlq, "Dead letters: messages that nobody could handle, and where they wait."),
    "exchange": Word(_exchanges, "Exchanges."),
    "group": Word(_readers, "Consumer groups: how far they have read."),
    "lease": Word(_readers, "Messages that consumers hold."),
    "log": Word(_logs, "The files of a broker's data folder, read without a broker."),
    "message": Word(_message, "One message: where it is, what holds it up, and what became of it."),
    "operator-policy": Word(_policies, "Operator policies, which only limit."),
    "permission": Word(_users, "What users may do in a vhost."),
    "policy": Word(_policies, "Policies: settings for queues and exchanges by their names."),
    "publish": Word(_publish, "Publish messages, and end when all are on disk."),
    "queue": Word(_queues, "Queues and streams."),
    "retained": Word(_sessions, "Retained messages."),
    "serve": Word(_running, "Run a broker until SIGTERM or SIGINT."),
    "session": Word(_sessions, "MQTT sessions."),
    "spark": Word(_spark, "Queues as tables: jobs that Apache Spark does."),
    "status": Word(
        _status, "Show how the broker is: listeners, alarms, memory and disk, clients, rates, and its longest queues."
    ),
    "stream": Word(_message, "The log of a queue or stream."),
    "subscription": Word(_sessions, "Subscriptions of MQTT sessions."),
    "top": Word(
        _top, "Watch queues and rates: the keys r, u, i, o, a and n sort, / finds, space holds the picture, q ends."
    ),
    "topic-permission": Word(_users, "Routing keys of topic exchanges that users are restricted to."),
    "trace": Word(_traces, "What happens to messages, written down until it is stopped."),
    "transaction": Word(_transactions, "Queries that publish in transactions."),
    "user": Word(_users, "Users."),
    "version": Word(_running, "Print the version, and whether the hot modules are compiled."),
    "vhost": Word(_vhosts, "Vhosts: each has queues, exchanges, sessions and permissions of its own."),
    "webhook": Word(_config, "Where events are sent."),
}


def command_line(word: str | None = None) -> typer.Typer:
    """The command `forebay`, whole, or with a word of which alone more than its line of help is loaded."""
    app = typer.Typer(
        name="forebay",
        help="One durable message broker for MQTT and AMQP whose queues are tables for Apache Spark.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    app.callback()(before)
    for name, each in WORDS.items():
        command = each.load()[name] if word in (None, name) else nothing
        if isinstance(command, typer.Typer):
            for one in command.registered_commands:
                one.epilog = EXIT_CODES
            app.add_typer(command, name=name)
        elif command is nothing:
            app.command(name, help=each.help)(nothing)
        else:
            app.command(name, epilog=EXIT_CODES)(command)
    return app


def show_version(wanted: bool) -> None:
    if wanted:
        print_build()
        raise typer.Exit


def before(
    version: Annotated[
        bool, typer.Option("--version", callback=show_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Take the options before a command: each of them ends the run."""


def nothing() -> None:
    """Stands for a command that is not meant."""
