"""Which worker of pytest-xdist runs which file, and when.

Whatever takes long begins first, so that no worker ends long after the others. Files that start Spark are run by two
workers, as long as there is anything else for the others: a third JVM would take its cores from these two, whose jobs
then come near the time that guards against a hang.
"""

from __future__ import annotations

from pathlib import PurePath
from typing import Any

from xdist.scheduler import LoadFileScheduling

JVMS = 2
SPARK = ("tests/spark", "tests/docs/test_examples.py", "tests/demo/test_demo.py")
# What takes longest of both kinds, and in which order it begins.
LONGEST = (
    "tests/spark/cluster",
    "tests/spark/test_tier.py",
    "tests/spark/test_template.py",
    "tests/docs/test_examples.py",
    "tests/spark/test_columns.py",
    "tests/spark/test_broker.py",
    "tests/spark",
    "tests/demo",
    "tests/crash/test_power_loss.py",
    "tests/cluster",
    "tests/simulation",
    "tests/admin/test_schema.py",
    "tests/crash/test_kill9.py",
    "tests/deploy/test_wheel.py",
    "tests/behaviour/test_rude_clients.py",
    "tests/crash",
    "tests/props",
    "tests/security",
    "tests/interop",
    "tests/peers",
    "tests/behaviour",
    "tests/admin",
)


def is_in(file: str, *places: str) -> bool:
    """Whether the file is one of these, or in one of these folders."""
    return any(PurePath(file).is_relative_to(place) for place in places)


def rank(file: str) -> int:
    """The place of a file among those that begin early."""
    return next((at for at, place in enumerate(LONGEST) if is_in(file, place)), len(LONGEST))


class LongestFirst(LoadFileScheduling):  # type: ignore[misc]
    """A file is a worker's whole piece of work; what is left by one that dies goes to the others, or to a new one."""

    def _assign_work_unit(self, node: Any) -> None:
        has_jvm = node in self.nodes[:JVMS]
        fit = (file for file in self.workqueue if is_in(file, *SPARK) is has_jvm)
        first = min(fit, key=rank, default=None) or min(self.workqueue, key=rank)
        self.workqueue.move_to_end(first, last=False)
        super()._assign_work_unit(node)

    def remove_node(self, node: Any) -> str | None:
        """Take a worker out, and return the test that it died in; None if it had ended all of its tests.

        That test has failed and is not run again. Of xdist's own, a file whose tests have all ended would be handed out
        once more, and whoever gets it waits for ever.
        """
        files = self.assigned_work.pop(node)
        left = [(file, test) for file, tests in files.items() for test, has_ended in tests.items() if not has_ended]
        if not left:
            return None
        file, died_in = left[0]
        files[file][died_in] = True
        self.workqueue.update({file: files[file] for file, test in left if test != died_in})
        for other in self.nodes:
            self._reschedule(other)
        return str(died_in)

    def schedule(self) -> None:
        """Hand out files to all workers that have none, also to one that has come in the place of another."""
        super().schedule()
        if self.collection:
            for node in self.nodes:  # a worker begins the only test it has once it knows that there is no other
                self._reschedule(node)
