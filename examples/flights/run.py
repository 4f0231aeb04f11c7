"""A year of flights: published over MQTT, made into tables and late-flight messages by a pipeline of Spark, and drawn.

usage: python -m examples.flights.run [--rows N] [--folder DIR]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from importlib.resources import files
from pathlib import Path

from examples.flights.actors import DemoBroker, FlightPublisher
from examples.flights.demo import load_flights
from examples.flights.plots import draw
from forebay.client.blocks import BlockClient
from forebay.spark.java import prepare_java
from forebay.spark.template import RUN, fill

HERE = Path(__file__).parent
FILES = ("spark-pipeline.yml", "transformations/flights.py", "transformations/views.sql")
QUEUES = """
mqtt_websocket = ""
http = ""
prometheus = ""

[[queues]]
name = "flights"
type = "stream"
topics = ["$queue/flights/#"]

[[queues]]
name = "late-flights"
type = "stream"
"""


def run_pipeline(folder: Path, servers: str) -> None:
    """Run a copy of the project in this folder."""
    fill(HERE / "pipeline", FILES, folder, {"storage": (folder / "storage").as_uri(), "servers": servers})
    fill(files("forebay.spark.template"), [RUN], folder, {})
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    with (folder / "spark.log").open("wb") as log:
        command, environment = [str(folder / RUN)], {**os.environ, "PATH": path}
        done = subprocess.run(command, env=environment, stdout=log, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        raise SystemExit(f"the pipeline failed: see {folder / 'spark.log'}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, help="only the first so many flights")
    parser.add_argument("--folder", type=Path, default=Path("flights"), help="for the tables and the plots")
    options = parser.parse_args()
    prepare_java()
    flights = load_flights(options.rows)
    folder: Path = options.folder.absolute()
    folder.mkdir(parents=True)
    broker = DemoBroker(folder, QUEUES)
    try:
        publisher = FlightPublisher(broker.mqtt, flights)
        publisher.start()
        publisher.join()
        publisher.check()
        print(f"published {publisher.acknowledged:,} flights over MQTT in {publisher.elapsed_s:.1f} s", flush=True)
        started = time.monotonic()
        run_pipeline(folder, broker.amqp)
        with BlockClient.connect(broker.amqp, "guest", "guest") as client:
            late = client.describe("late-flights").end
        print(f"pipeline: {time.monotonic() - started:.1f} s; {late:,} messages about late flights", flush=True)
    finally:
        broker.stop()
    for path in draw(folder / "tables", folder):
        print(path)


if __name__ == "__main__":
    main()
