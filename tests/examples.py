"""The number of examples of a property, by the run: all on the compiled build, fewer where another run has had them.

Hypothesis takes the same time on both builds, since drawing an example costs more than trying it. `make test` tries all
examples on the compiled build, and on the interpreted sources a part of them: enough to see that the dialect means the
same there.
"""

from __future__ import annotations

import os
from typing import Final

PART: Final = int(os.environ.get("FOREBAY_EXAMPLES_PART", "1"))  # one of so many
LEAST: Final = 10


def examples(number: int) -> int:
    """So many, or that part of them which this run is to try."""
    return max(number // PART, min(number, LEAST))
