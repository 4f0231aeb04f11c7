"""The broker that a job works with: as Spark's source and sink reach it, and as an administrator asks it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from forebay.client.blocks import TIMEOUT_S
from forebay.client.closing import Closing
from forebay.client.control import ControlClient
from forebay.core.errors import OptionError, OutcomeUnknown, Unreachable
from forebay.spark.access import BROKER_OPTIONS, DATA, SERVERS
from forebay.spark.options import RETRY, access_of, known_options
from forebay.spark.positions import subscription_of
from forebay.spark.reading.logs import LogEnd, Patience, RemoteLogs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

ACCESS_OPTIONS: Final = (*BROKER_OPTIONS, RETRY)


class Broker:
    """A running broker, named by the options that the source has for it.

    options  `forebay.servers`, and others of BROKER_OPTIONS and `retryMs` where they differ from the defaults; the same
             go to Spark's source and sink
    raises   OptionError naming the option
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        if DATA in options:
            raise OptionError(f"{DATA}: a job needs a running broker: give {SERVERS}")
        self.options = known_options(options, ACCESS_OPTIONS, "job")
        self.access = access_of(self.options)

    def table(self, spark: SparkSession, queues: Sequence[str], schema: StructType, **options: str) -> DataFrame:
        """Queues as one table; see the options of the source."""
        reader = spark.read.format("forebay").options(**self.options, subscribe=subscription_of(queues), **options)
        return reader.schema(schema).load()

    def look(self, queue: str) -> LogEnd:
        """The log of a queue as it is; RequestError(NOT_FOUND) if there is none of that name."""
        with RemoteLogs(self.access) as logs:
            return logs.look(queue)

    def administrator(self) -> Administrator:
        """A connection for operations; the user must be an administrator."""
        return Administrator(self)


class Administrator(Closing):
    """Runs operations one after the other. A broker that goes away meanwhile is waited for."""

    def __init__(self, broker: Broker) -> None:
        self.access = broker.access
        self.client = self.connect()

    def close(self) -> None:
        """End the connection."""
        self.client.close()

    def connect(self) -> ControlClient:
        return self.access.connect(ControlClient, TIMEOUT_S, vhost=False)

    def run(self, operation: str, **arguments: object) -> dict[str, object]:
        """The answer to an operation that may be asked twice: nobody knows what became of it when a broker died."""
        patience = Patience(self.access.retry_s)
        while True:
            try:
                return self.client.run(operation, vhost=self.access.vhost, **arguments)
            except OutcomeUnknown as error:
                self.client.close()
                self.reconnect(patience, error)

    def reconnect(self, patience: Patience, error: OutcomeUnknown) -> None:
        failure: OutcomeUnknown | Unreachable = error
        while True:
            patience.wait(failure)
            try:
                self.client = self.connect()
            except Unreachable as unreachable:
                failure = unreachable
            else:
                return

    def portions(self, operation: str, **arguments: object) -> Iterator[dict[str, object]]:
        """The answers of an operation that goes through a queue in portions."""
        place: object = 0
        while place is not None:
            answer = self.run(operation, **{**arguments, "from": place})
            yield answer
            place = answer.get("next")
