"""The kinds of entries in the frames of the write-ahead log, all in one place.

A number is on disk: it keeps its meaning for good, and one that is no longer used is not used for anything else.
"""

from __future__ import annotations

from typing import Final

BLOCK: Final = 1  # a block of a log
START: Final = 2  # where a log starts and ends
SETTLED: Final = 3  # offsets of a work group that are settled
CURSOR: Final = 4  # where a stream group resumes
CATALOG: Final = 5  # a command on a vhost's queues, exchanges, bindings, groups
INTERNAL: Final = 6  # of one of the broker's own logs, whose number is the owner
BROKER: Final = 7  # a command on what belongs to no vhost
RETURNS: Final = 8  # how often records came back
HELD: Final = 9  # records that readers keep
RELEASED: Final = 10  # where a queue over a log that others read, too, starts
INTAKE: Final = 11  # what the filter of a view took of its source
