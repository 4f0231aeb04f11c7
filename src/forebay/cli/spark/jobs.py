"""The common part of the commands of `forebay spark`: the broker, the session, how a stream ends, what is printed."""

from __future__ import annotations

import base64
import functools
import importlib.util
import inspect
import logging
import signal
import threading
from collections.abc import Callable, Mapping
from datetime import date, datetime
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from forebay.cli.access import COMMON, KEYWORD, USER, VHOST, asked_password, pairs
from forebay.cli.as_json import show_json
from forebay.cli.show import show_table
from forebay.core.errors import ForebayError, OptionError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S: Final = 1  # between two checks whether a stream still runs
TEXT_MAX: Final = 200  # longest text in a cell of a table for people

MasterOption = Annotated[
    str,
    typer.Option(
        "--master",
        metavar="URL",
        envvar="FOREBAY_SPARK_MASTER",
        help="Spark's master: local[*] is this machine; others as in spark-submit, or sc://HOST:PORT.",
    ),
]
ConfOption = Annotated[
    list[str] | None,
    typer.Option("--conf", metavar="NAME=VALUE", help="A setting of Spark, repeatable."),
]
SPARK: Final = (
    inspect.Parameter("master", KEYWORD, default="local[*]", annotation=MasterOption),
    inspect.Parameter("conf", KEYWORD, default=None, annotation=ConfOption),
)


class SparkJob:
    """A Spark command: the broker's options, and a Spark session made on first use.

    options  options of Spark's source and sink that name the broker
    """

    def __init__(self, options: dict[str, str], as_json: bool, master: str, conf: dict[str, str]) -> None:
        self.options = options
        self.as_json = as_json
        self.master = master
        self.conf = conf

    @functools.cached_property
    def spark(self) -> SparkSession:
        """Return the Spark session, made on first use."""
        from forebay.spark import session

        # Spark's log lines would drown a command's own output; Spark's errors come as exceptions.
        logging.getLogger("SQLQueryContextLogger").disabled = True
        quiet = {"spark.log.level": "ERROR", "spark.ui.enabled": "false"}
        return session(self.master, "forebay", {**quiet, **self.conf})

    def show(self, fields: dict[str, object], sentence: str) -> None:
        """Print `fields` as JSON, or `sentence` for people."""
        if self.as_json:
            show_json(fields)
        else:
            print(sentence)

    def show_rows(self, frame: DataFrame) -> None:
        """Collect a short table, and print its rows."""
        rows = [plain(row.asDict(recursive=True)) for row in frame.collect()]
        assert all(isinstance(row, dict) for row in rows)
        self.show_items(frame.columns, rows)

    def show_items(self, columns: list[str], items: list[dict[str, object]]) -> None:
        """Print items as JSON or as a table."""
        if self.as_json:
            show_json(items)
            return
        cut = [{name: shortened(value) for name, value in item.items()} for item in items]
        show_table(columns, cut)

    def shown(self, start: Callable[[], object]) -> object:
        """Run a stream that ends by itself, and return its result. Shows its progress on a terminal."""
        from forebay.spark import show_progress

        console = Console(stderr=True)
        if not console.is_terminal:
            return start()
        with show_progress(self.spark, console):
            return start()

    def watch(self, start: Callable[[], StreamingQuery]) -> None:
        """Run a stream until it ends or Ctrl-C or SIGTERM ends it, and show its progress.

        Raises ForebayError if the stream failed.
        """
        from forebay.spark import show_progress

        stopping = threading.Event()

        def stop(signum: int, frame: FrameType | None) -> None:
            stopping.set()

        spark = self.spark
        with show_progress(spark, Console(stderr=True)):
            query = start()
            # Only now: PySpark sets a handler of its own with its session.
            for number in (signal.SIGINT, signal.SIGTERM):
                signal.signal(number, stop)
            while query.isActive and not stopping.is_set():
                query.awaitTermination(LOOK_S)
            query.stop()
        failure = query.exception()
        if failure is not None and not stopping.is_set():
            raise ForebayError(said_by(failure))


def works(command: Callable[..., None]) -> Callable[..., None]:
    """Make a command of a function whose first parameter is a `SparkJob`: it gets the options that all jobs have."""
    signature = inspect.signature(command, eval_str=True)
    common = [*COMMON, VHOST, *SPARK]
    parameters = [each.replace(kind=KEYWORD) for each in list(signature.parameters.values())[1:]] + common

    @functools.wraps(command)
    def run(
        *,
        server: str,
        user: str,
        password: str | None,
        as_json: bool,
        vhost: str,
        master: str,
        conf: list[str] | None,
        **own: Any,
    ) -> None:
        check_pyspark()
        from pyspark.errors import PySparkException

        if password is None:
            password = USER if user == USER else asked_password(f"Password of {user}", False)
        options = {
            "forebay.servers": server,
            "forebay.user": user,
            "forebay.password": password,
            "forebay.vhost": vhost,
        }
        job = SparkJob(options, as_json, master, pairs("--conf", conf))
        try:
            command(job, **own)
        except PySparkException as error:
            raise ForebayError(said_by(error)) from None

    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run


def check_pyspark() -> None:
    """Refuse to go on without the packages that Spark jobs need. Raises OptionError."""
    for name in ("pyspark", "pyarrow", "numpy"):
        if importlib.util.find_spec(name) is None:
            raise OptionError(f"forebay spark needs the package {name}: pip install 'forebay[spark]'")


def said_by(error: Any) -> str:
    """Return a Spark error as one line."""
    from forebay.spark.jobs.bodies import first_line

    return first_line(error)


def plain(value: object) -> Any:
    """Return a row's value as a JSON value: bytes that are not UTF-8 in base64, times in ISO 8601."""
    if isinstance(value, Mapping):
        return {str(name): plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, bytes | bytearray):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return base64.b64encode(value).decode()
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    if value is None or isinstance(value, str | bool | int | float):
        return value
    return str(value)  # such as a decimal, an interval, a VARIANT


def shortened(value: object) -> object:
    """Return a value shortened for a cell of a table for people."""
    if isinstance(value, list):
        return "; ".join(str(shortened(each)) for each in value)
    if isinstance(value, dict):
        return ", ".join(f"{name} {shortened(each)}" for name, each in value.items())
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value[:TEXT_MAX]}…" if isinstance(value, str) and len(value) > TEXT_MAX else value
