"""How long the tests of this folder go on that kill a broker again and again."""

from __future__ import annotations

import os

TIMES = int(os.environ.get("FOREBAY_CRASH_TIMES", "1"))  # as long as `make test` has them
TEST_S_MAX = 300 * TIMES  # guards against a hang
