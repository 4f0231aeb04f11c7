"""The example on real flights, run as its page says, on a part of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from examples.flights.demo import load_flights
from tests.jvm import as_users_have_it

ROOT = Path(__file__).parents[2]
ROWS = 20_000
RUN_S_MAX = 900  # a guard against a hang
PNG = b"\x89PNG"


@pytest.mark.timeout(RUN_S_MAX + 60)
@pytest.mark.usefixtures("connect_port")
def test_the_tables_are_those_of_pandas_and_the_pictures_are_there(tmp_path: Path) -> None:
    folder = tmp_path / "flights"
    command = [sys.executable, "-m", "examples.flights.run", "--rows", str(ROWS), "--folder", str(folder)]
    done = subprocess.run(
        command, cwd=ROOT, env=as_users_have_it(), capture_output=True, text=True, timeout=RUN_S_MAX, check=False
    )
    log = folder / "spark.log"
    assert done.returncode == 0, done.stderr + (log.read_text()[-5000:] if log.exists() else "")
    source = load_flights(ROWS).table
    delay = source["dep_delay"]
    assert f"published {ROWS:,} flights over MQTT" in done.stdout
    assert f"{int((delay > 120).sum()):,} messages about late flights" in done.stdout

    by_hour = pd.read_parquet(folder / "tables" / "by_hour").set_index(["origin", "hour"]).sort_index()
    groups = source.groupby(["origin", "hour"])["dep_delay"]
    assert by_hour["flights"].to_dict() == groups.count().to_dict()
    np.testing.assert_allclose(by_hour["median"], groups.median())

    by_day = pd.read_parquet(folder / "tables" / "by_day").set_index(["month", "day"]).sort_index()
    days = source.groupby(["month", "day"])["dep_delay"]
    assert by_day["scheduled"].to_dict() == days.size().to_dict()
    assert by_day["cancelled"].to_dict() == (days.size() - days.count()).to_dict()
    np.testing.assert_allclose(by_day["delay"], days.mean())

    by_carrier = pd.read_parquet(folder / "tables" / "by_carrier").set_index("carrier").sort_index()
    flown = source[delay.notna()].groupby("carrier")["dep_delay"]
    np.testing.assert_allclose(by_carrier["late_15"], flown.apply(lambda each: (each > 15).mean()))
    for name in ("by_hour", "by_day", "by_carrier"):
        picture = (folder / f"{name}.png").read_bytes()
        assert picture.startswith(PNG)
        assert len(picture) > 20_000, "nothing is drawn in it"
