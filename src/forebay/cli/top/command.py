"""`forebay top`: queues, rates and slow consumers of a running broker, live on a terminal."""

from __future__ import annotations

import codecs
import json
import os
import select
import sys
import termios
import time
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Final

import typer

from forebay.cli.access import LoginOptions, logs_in_broker
from forebay.cli.show import cell
from forebay.cli.top.screen import ORDERS, Screen
from forebay.client.control import ControlClient
from forebay.core.errors import OptionError

LOOK_S: Final = 0.2  # between two checks whether the terminal changed its size
ANSWER_S: Final = 5.0  # limit for an answer of the broker


@logs_in_broker
def top(
    login: LoginOptions,
    interval: Annotated[
        float, typer.Option("--interval", "-i", metavar="SECONDS", min=0.2, help="Time between two refreshes.")
    ] = 2.0,
    sort: Annotated[str, typer.Option(metavar="KEY", help="r, u, i, o, a or n, as the keys.")] = "r",
    find: Annotated[str, typer.Option(metavar="TEXT", help="Only queues whose name contains this.")] = "",
    once: Annotated[bool, typer.Option("--once", help="Print once, as it does without a terminal.")] = False,
) -> None:
    """Watch queues, rates and slow consumers.

    Keys: r, u, i, o, a and n sort, c shows slow consumers, / finds, space pauses, q quits. If the broker goes away,
    the table turns grey until it is back. Without a terminal it prints once; with --json it prints an object a line,
    repeatedly unless --once is given.

    Example: forebay top --sort o
    """
    if sort not in ORDERS:
        raise OptionError(f"--sort: {sort!r} is none of {', '.join(ORDERS)}")

    def connect() -> ControlClient:
        return ControlClient.connect(login.server, login.user, login.password, ANSWER_S, tls=login.tls)

    screen = Screen(connect, sort, find)
    try:
        screen.look()
        if login.as_json:
            print_lines(screen, interval, once)
        elif once or not (sys.stdin.isatty() and sys.stdout.isatty()):
            print_once(screen, interval)
        else:
            watch(screen, interval)
    finally:
        screen.close()


def print_once(screen: Screen, interval_s: float) -> None:
    """Print the screen once, with rates over at most 1 s."""
    from forebay.cli.table import terminal_columns

    time.sleep(min(interval_s, 1.0))
    screen.look()
    print(screen.headline())
    print(screen.sums())
    for line in screen.table(screen.chosen(), terminal_columns()):
        print(line)
    for each in screen.slow:
        print(f"slow: consumer {cell(each['consumer'])} of {cell(each['queue'])} holds {each['held']:,}")


def print_lines(screen: Screen, interval_s: float, once: bool) -> None:
    """Print a line of JSON after each interval, also while the broker is away."""
    while True:
        time.sleep(min(interval_s, 1.0) if once else interval_s)
        if once:
            screen.look()
        else:
            screen.try_look()
        print(json.dumps(screen.fields(), ensure_ascii=False), flush=True)
        if once:
            return


def watch(screen: Screen, interval_s: float) -> None:
    """Show the screen, and refresh it until a key ends the command."""
    from rich.console import Console
    from rich.live import Live

    console = Console(highlight=False, markup=False, emoji=False)
    due = time.monotonic() + min(interval_s, 1.0)  # the first rates come soon
    size = console.size
    with keyboard() as keys, Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            size = console.size
            live.update(screen.view(size.height, size.width), refresh=True)
            pressed: str | None = ""
            while pressed == "" and time.monotonic() < due and console.size == size:
                pressed = keys(min(max(due - time.monotonic(), 0.0), LOOK_S))
            if pressed is None:
                return
            for key in pressed:
                if not screen.press(key):
                    return
            if time.monotonic() >= due:
                if not screen.held:
                    screen.try_look()
                due = time.monotonic() + interval_s


@contextmanager
def keyboard() -> Iterator[Callable[[float], str | None]]:
    """Read keys without echo. Yields a function that waits for keys, and restores the terminal afterwards.

    The function takes the most seconds to wait. It returns None once the terminal is gone. No key can stand for that,
    as the text of a search takes any key.
    """
    handle = sys.stdin.fileno()
    before = termios.tcgetattr(handle)
    decoder = codecs.getincrementaldecoder("utf-8")("ignore")  # a read may end within a character

    def keys(wait_s: float) -> str | None:
        if not select.select([handle], [], [], wait_s)[0]:
            return ""
        try:
            read = os.read(handle, 64)
        except OSError:
            return None
        return decoder.decode(read) if read else None

    try:
        tty.setcbreak(handle)
        yield keys
    finally:
        with suppress(termios.error):  # the terminal is gone
            termios.tcsetattr(handle, termios.TCSADRAIN, before)
