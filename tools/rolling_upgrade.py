"""Upgrade a cluster node by node from one checkout of the repository to another, under load, and look what is lost.

    git worktree add /tmp/before COMMIT
    python tools/rolling_upgrade.py --before /tmp/before --after .

Three nodes and one etcd, as processes, from the sources of `--before`. A client publishes to a durable queue with
confirms, and comes again where it is cut off. Each node is stopped, started from the sources of `--after`, and in sync
before it is the next one's turn; `--back` goes the same way back. In the end every confirmed message must be there.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.broker_process import BrokerProcess
from tests.cluster.clients import Publisher, drained
from tests.cluster.nodes import Cluster
from tests.etcd import etcd_in

ROOT = Path(__file__).resolve().parent.parent
QUEUE = "work"
BATCH = 20


class Load:
    """Publishes until it is told to stop.

    longest_s  between two confirmed batches
    """

    def __init__(self, cluster: Cluster) -> None:
        self.publisher = Publisher(list(cluster.nodes.values()), QUEUE)
        self.longest_s = 0.0
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        while not self.ended.is_set():
            began = time.monotonic()
            self.publisher.publish(BATCH)
            self.longest_s = max(self.longest_s, time.monotonic() - began)

    def stop(self) -> int:
        """The number of messages that were confirmed."""
        self.ended.set()
        self.thread.join()
        self.publisher.close()
        return self.publisher.confirmed


def use(node: BrokerProcess, sources: Path) -> None:
    """Have a node that starts from now on run these; one that is forked would have the modules of this process."""
    node.wrapper = ["env", f"PYTHONPATH={sources.resolve() / 'src'}"]


def replace_all(cluster: Cluster, sources: Path) -> None:
    """Have each node in turn run these sources."""
    for name, node in cluster.nodes.items():
        use(node, sources)
        led = cluster.record()["leader"] == name
        node.stop()
        node.start()
        cluster.wait_in_sync(*cluster.nodes)
        print(f"{name}: runs {sources}{', led before' if led else ''}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--before", type=Path, required=True, help="a checkout")
    parser.add_argument("--after", type=Path, default=ROOT, help="another")
    parser.add_argument("--back", action="store_true", help="go back again")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as made, etcd_in(Path(made), 1) as etcd:
        cluster = Cluster(Path(made), etcd, cluster={})
        for node in cluster.nodes.values():
            use(node, given.before)
        try:
            cluster.start()
            load = Load(cluster)
            replace_all(cluster, given.after)
            if given.back:
                replace_all(cluster, given.before)
            confirmed = load.stop()
            found = drained(list(cluster.nodes.values()), QUEUE)
            for node in cluster.nodes.values():
                node.stop()
        finally:
            for node in cluster.nodes.values():
                node.abandon()
    lost = set(range(confirmed)) - set(found)
    twice = len(found) - len(set(found))
    in_order = list(dict.fromkeys(found)) == sorted(set(found))
    order = "in order" if in_order else "out of order"
    print(f"confirmed {confirmed}, lost {len(lost)}, twice {twice}, {order}, longest pause {load.longest_s:.1f} s")
    return 0 if not lost and in_order else 1


if __name__ == "__main__":
    sys.exit(main())
