"""A job's access to its broker: through Spark's source and sink, and with operations of an administrator."""

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
    """A running broker, given by the options of the Spark source.

    options  `forebay.servers`, and those of BROKER_OPTIONS and `retryMs` that differ from the defaults; Spark's
             source and sink get the same options
    raises   OptionError naming the option
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        if DATA in options:
            raise OptionError(f"{DATA}: a job needs a running broker: give {SERVERS}")
        self.options = known_options(options, ACCESS_OPTIONS, "job")
        self.access = access_of(self.options)

    def table(self, spark: SparkSession, queues: Sequence[str], schema: StructType, **options: str) -> DataFrame:
        """Return queues as one table.

        options  further options of the source
        """
        reader = spark.read.format("forebay").options(**self.options, subscribe=subscription_of(queues), **options)
        return reader.schema(schema).load()

    def look(self, queue: str) -> LogEnd:
        """Return the bounds of a queue's log as it is now. Raises RequestError(NOT_FOUND) if there is no such queue."""
        with RemoteLogs(self.access) as logs:
            return logs.look(queue)

    def administrator(self) -> Administrator:
        """Open a connection for operations; the user must be an administrator."""
        return Administrator(self)


class Administrator(Closing):
    """A connection that runs operations one after the other. Reconnects to a broker that goes away."""

    def __init__(self, broker: Broker) -> None:
        self.access = broker.access
        self.client = self.connect()

    def close(self) -> None:
        """Close the connection."""
        self.client.close()

    def connect(self) -> ControlClient:
        return self.access.connect(ControlClient, TIMEOUT_S, vhost=False)

    def run(self, operation: str, **arguments: object) -> dict[str, object]:
        """Run an operation and return its answer. If the connection is lost, run the operation again.

        Only for operations that may run twice, as the outcome is unknown if the broker dies.
        """
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
        """Yield the answers of an operation that goes through a queue in portions."""
        place: object = 0
        while place is not None:
            answer = self.run(operation, **{**arguments, "from": place})
            yield answer
            place = answer.get("next")
