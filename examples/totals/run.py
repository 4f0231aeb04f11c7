"""Sales from MQTT, summed by Spark as a stream, and the totals back in a queue, each once."""

from __future__ import annotations

import argparse
import json
import tempfile

import paho.mqtt.publish
import pika

import forebay.spark


def sell(port: int) -> None:
    """Ten sales of two shops."""
    sales = [{"shop": f"shop-{number % 2}", "cents": 100 + number} for number in range(10)]
    messages = [(f"sales/{sale['shop']}", json.dumps(sale), 1, False) for sale in sales]
    paho.mqtt.publish.multiple(messages, hostname="127.0.0.1", port=port)


def main(argv: list[str] | None = None) -> None:
    """Sell, sum, and take the totals out."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=5672, help="the broker's AMQP port")
    parser.add_argument("--mqtt-port", type=int, default=1883, help="its MQTT port")
    given = parser.parse_args(argv)
    connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", given.port))
    channel = connection.channel()
    channel.queue_declare("sales", durable=True, arguments={"x-queue-type": "stream"})
    channel.queue_bind("sales", "amq.topic", "sales.#")
    channel.queue_declare("totals-by-shop", durable=True)
    sell(given.mqtt_port)

    spark = forebay.spark.session()
    options = {"forebay.servers": f"127.0.0.1:{given.port}"}
    source = spark.readStream.format("forebay").options(**options, subscribe="sales", startingOffsets="earliest")
    sales = forebay.spark.decode(source.load(), "shop string, cents long")
    totals = sales.groupBy("shop").sum("cents").selectExpr("concat(shop, ' ', `sum(cents)`) AS value")
    with tempfile.TemporaryDirectory() as checkpoint:
        sink = totals.writeStream.format("forebay").options(**options, topic="totals-by-shop")
        sink = sink.option("checkpointLocation", checkpoint).outputMode("complete").trigger(availableNow=True)
        sink.start().awaitTermination()
    taken = [channel.basic_get("totals-by-shop", auto_ack=True)[2].decode() for _ in range(2)]
    print(*sorted(taken), sep="\n")
    connection.close()


if __name__ == "__main__":
    main()
