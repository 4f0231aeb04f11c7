"""The text of `--help`: the connection's options in a section of their own, and commands by purpose."""

from __future__ import annotations

from typing import Any, Final

import typer.core

from forebay.core.errors import OptionError

# Parameters of the options that connect to a broker or to Spark.
CONNECTION_NAMES: Final = (
    *("server", "user", "password", "vhost", "tls", "ca_file", "certificate", "certificate_key"),
    *("master", "conf"),
)
OF_COMMANDS: Final = frozenset(f"--{name.replace('_', '-')}" for name in ("json", *CONNECTION_NAMES))


class HelpCommand(typer.core.TyperCommand):
    """A command whose help lists the options of the connection in a section of their own."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments, options and connection options each as a section of two columns."""
        asks = any(item.name == "server" for item in self.params)
        sections: dict[str, list[tuple[str, str]]] = {"Arguments": [], "Options": [], "Connection options": []}
        for item in self.get_params(ctx):
            record = item.get_help_record(ctx)
            if record is None:
                continue
            if item.param_type_name == "argument":
                sections["Arguments"].append(record)
            elif asks and item.name in CONNECTION_NAMES:
                sections["Connection options"].append(record)
            else:
                sections["Options"].append(record)
        for title, records in sections.items():
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


class HelpGroup(typer.core.TyperGroup):
    """The command `forebay`, whose commands are listed by purpose.

    sections  names of the commands, by the title of their section
    """

    sections: dict[str, list[str]] = {}

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments. Raises OptionError for an option of a command that stands before the command."""
        word = args[0].partition("=")[0] if args else ""
        if word in OF_COMMANDS:
            raise OptionError(f"{word} belongs after the command: forebay COMMAND {word} ...")
        parsed: list[str] = super().parse_args(ctx, args)
        return parsed

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the sections of commands, each command with its whole sentence of help."""
        for title, names in self.sections.items():
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].help or "") for name in names])
