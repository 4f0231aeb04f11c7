"""The table of commands, and what each of them loads: a command should not wait for the others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Annotated, Any, Final

import typer

from forebay.cli.build import print_build
from forebay.cli.help import HelpCommand, HelpGroup

EXIT_CODES: Final = (
    "Exit codes: 0 done; 1 refused or failed; 2 the command was wrong; "
    "3 no broker answered, or nobody knows what it did; 130 ended by Ctrl-C."
)
RUN: Final = "Run and watch a broker"
MESSAGES: Final = "Messages"
TOPOLOGY: Final = "Queues, exchanges and policies"
CLIENTS: Final = "Clients and sessions"
USERS: Final = "Users and permissions"
FILES: Final = "Files and tools"


@dataclass(frozen=True, slots=True)
class Word:
    """A command, or a group of commands, that is imported when it is used.

    place    `module:name` below forebay.cli; without a name, all commands of the group come from the table of rows
    help     first sentence of the command's help, repeated here so that the list of commands imports none
    section  title of the command's section in the list of all commands
    """

    place: str
    help: str
    section: str

    def load(self, word: str) -> typer.Typer | Callable[..., Any]:
        """Import the command, or the group of commands, and return it. `word` is its name."""
        module, _, name = self.place.partition(":")
        if not name:
            from forebay.cli.manage.from_rows import group_of

            return group_of(word, self.help)
        loaded: typer.Typer | Callable[..., Any] = getattr(import_module(f"forebay.cli.{module}"), name)
        return loaded


WORDS: Final = {
    "bench": Word(
        "bench.command:bench",
        "Measure how fast a few Python clients publish and consume, through a temporary queue.",
        RUN,
    ),
    "binding": Word("manage.rows", "Bindings from exchanges to queues and exchanges.", TOPOLOGY),
    "channel": Word("manage.rows", "Channels of AMQP connections.", CLIENTS),
    "cluster": Word("manage.cluster:app", "The cluster: members, leadership, draining.", RUN),
    "completion": Word(
        "completion:completion",
        "Print the completion script of a shell; `forebay --install-completion` installs it.",
        FILES,
    ),
    "config": Word("configuration:app", "The configuration of a file or of a running broker.", RUN),
    "connection": Word("manage.rows", "Connections of clients.", CLIENTS),
    "consume": Word(
        "messages.consume:consume", "Consume messages: print them, and acknowledge those that were printed.", MESSAGES
    ),
    "consumer": Word("manage.rows", "Consumers.", CLIENTS),
    "definitions": Word("manage.definitions:app", "All declarations of a broker in one file.", TOPOLOGY),
    "delayed": Word("manage.rows", "Delayed messages.", MESSAGES),
    "dlq": Word("manage.dlq:app", "Dead letters: rejected, expired or failed messages, and their queues.", MESSAGES),
    "doctor": Word(
        "doctor.command:doctor",
        "Find out what is wrong with this installation, and what to do about it.",
        RUN,
    ),
    "exchange": Word("manage.rows", "Exchanges.", TOPOLOGY),
    "group": Word("manage.rows", "Consumer groups and their positions.", CLIENTS),
    "lease": Word("manage.rows", "Messages that consumers hold.", MESSAGES),
    "log": Word("log.command:app", "The files of a broker's data folder, read without a broker.", FILES),
    "message": Word("manage.message:app", "One message: its content, why it waits, and its history.", MESSAGES),
    "operator-policy": Word("manage.rows", "Operator policies, which set limits.", TOPOLOGY),
    "permission": Word("manage.rows", "Permissions of users in vhosts.", USERS),
    "policy": Word("manage.rows", "Policies: settings for queues and exchanges with certain names.", TOPOLOGY),
    "publish": Word("messages.publish:publish", "Publish messages, and wait until all are on disk.", MESSAGES),
    "queue": Word("manage.queues:app", "Queues and streams.", TOPOLOGY),
    "retained": Word("manage.sessions:retained", "Retained messages.", MESSAGES),
    "serve": Word("running:serve", "Run a broker until SIGTERM or SIGINT.", RUN),
    "session": Word("manage.sessions:app", "MQTT sessions.", CLIENTS),
    "spark": Word("spark.command:app", "Queues as tables: jobs in Apache Spark.", FILES),
    "status": Word(
        "manage.status:status",
        "Show the broker's state: listeners, alarms, memory, disk, clients, rates, and its longest queues.",
        RUN,
    ),
    "stream": Word("manage.message:streams", "The log of a queue or stream.", TOPOLOGY),
    "subscription": Word("manage.rows", "Subscriptions of MQTT sessions.", CLIENTS),
    "top": Word("top.command:top", "Watch queues, rates and slow consumers.", RUN),
    "topic-permission": Word("manage.rows", "Restrictions of users on routing keys of topic exchanges.", USERS),
    "trace": Word("manage.rows", "Traces of messages: their events, recorded until the trace is stopped.", MESSAGES),
    "transaction": Word("manage.rows", "Spark queries that publish in transactions.", CLIENTS),
    "user": Word("manage.users:app", "Users.", USERS),
    "version": Word("running:version", "Print the version, and whether forebay is compiled.", RUN),
    "vhost": Word("manage.rows", "Vhosts, each with its own queues, exchanges, sessions and permissions.", TOPOLOGY),
    "webhook": Word("manage.rows", "Webhooks: URLs that get events.", RUN),
}


class Forebay(HelpGroup):
    """The command `forebay`, whose commands are listed by the sections of the table."""

    sections = {
        title: [name for name, each in WORDS.items() if each.section == title]
        for title in (RUN, MESSAGES, TOPOLOGY, CLIENTS, USERS, FILES)
    }


def command_line(word: str | None = None) -> typer.Typer:
    """Return the command `forebay`. With `word`, import only that command. The others have only their line of help."""
    app = typer.Typer(
        name="forebay",
        help="One durable message broker for MQTT and AMQP whose queues are tables for Apache Spark.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        cls=Forebay,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(before)
    for name, each in WORDS.items():
        command = each.load(name) if word in (None, name) else nothing
        if isinstance(command, typer.Typer):
            for one in command.registered_commands:
                one.epilog = EXIT_CODES
                one.cls = HelpCommand
            app.add_typer(command, name=name)
        elif command is nothing:
            app.command(name, help=each.help)(nothing)
        else:
            app.command(name, epilog=EXIT_CODES, cls=HelpCommand)(command)
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
    """Accept the options before a command. Each of them ends the run."""


def nothing() -> None:
    """Do nothing, in the place of a command that is not imported."""
