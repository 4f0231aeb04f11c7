"""What every command has: help with an example that can be typed, JSON, and exit codes that it tells."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer

from forebay.cli.commands import EXIT_CODES, WORDS, command_line
from tests.unit.cli.test_main import forebay_command

# What prints nothing that a program would read: a broker's ready line is JSON as it is, and so is a file.
WITHOUT_JSON = {"completion", "serve", "spark init"}


def commands(command: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every command that is no group, by its words."""
    for name, each in sorted(command.commands.items()):
        words = f"{path} {name}".strip()
        if hasattr(each, "commands"):
            yield from commands(each, words)
        else:
            yield words, each


ROOT = typer.main.get_command(command_line())
COMMANDS = dict(commands(ROOT))


def example_of(command: Any) -> list[str]:
    """The words of the example in a command's help, without what the shell does with them."""
    words = shlex.split(" ".join((command.help or "").split()).partition("Example: ")[2])
    return words[: min(words.index(mark) if mark in words else len(words) for mark in ("|", ">", "<"))]


@pytest.mark.parametrize("name", WORDS)
def test_the_list_of_commands_says_of_each_what_its_own_help_says(name: str) -> None:
    said = ROOT.commands[name].help.split("\n\n")[0]  # type: ignore[attr-defined]
    assert " ".join(said.split()) == WORDS[name].help


@pytest.mark.parametrize("name", WORDS)
def test_of_the_command_that_is_meant_all_is_there(name: str) -> None:
    own = typer.main.get_command(command_line(name))
    assert set(own.commands) == set(WORDS)  # type: ignore[attr-defined]
    mine = dict(commands(own.commands[name], name)) if hasattr(own.commands[name], "commands") else {name: None}  # type: ignore[attr-defined]
    assert set(mine) == {words for words in COMMANDS if words.split()[0] == name}


@pytest.mark.parametrize("words", COMMANDS)
def test_help_has_an_example_that_the_command_accepts(words: str) -> None:
    command = COMMANDS[words]
    example = example_of(command)
    own = words.split()
    assert example[: len(own) + 1] == ["forebay", *own], f"{words}: {command.help}"
    command.make_context("forebay", example[len(own) + 1 :])
    assert command.epilog == EXIT_CODES


@pytest.mark.parametrize("words", COMMANDS)
def test_json_is_everywhere(words: str) -> None:
    options = {option for item in COMMANDS[words].params for option in item.opts}
    assert ("--json" in options) == (words not in WITHOUT_JSON)


@pytest.mark.parametrize("words", COMMANDS)
def test_every_parameter_says_what_it_is(words: str) -> None:
    assert [item.name for item in COMMANDS[words].params if not getattr(item, "help", None)] == []


def test_the_exit_codes_are_in_the_help(tmp_path: Any) -> None:
    text = forebay_command(tmp_path, "queue", "list", "--help").stdout
    assert EXIT_CODES in " ".join(text.split())


@pytest.mark.parametrize("words", COMMANDS)
def test_options_of_the_connection_are_in_a_group_of_their_own(words: str) -> None:
    command = COMMANDS[words]
    with command.make_context("forebay", [], resilient_parsing=True) as context:
        text = command.get_help(context)
    own, _, connection = text.partition("Connection options:")
    assert "--help " in own
    assert ("--server HOST:PORT" in connection) == any(item.name == "server" for item in command.params)
    assert "--server HOST:PORT" not in own


def test_every_command_is_in_a_section_of_the_list(tmp_path: Any) -> None:
    done = forebay_command(tmp_path, "-h")
    assert done.returncode == 0
    assert "-h, --help" in forebay_command(tmp_path, "queue", "list", "-h").stdout
    listed = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("  ") and line[2:3].strip()]
    assert set(WORDS) <= set(listed)
    assert "Run and watch a broker:" in done.stdout
