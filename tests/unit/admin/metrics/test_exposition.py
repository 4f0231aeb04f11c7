"""Metrics as text: what Prometheus's parsers make of it is what was written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open_metrics
from prometheus_client.parser import text_string_to_metric_families as parse_plain

from forebay.admin.metrics.exposition import Samples, Text, labelled, wants_open_metrics
from forebay.admin.metrics.family import counter, gauge, histogram
from forebay.server.telemetry.histograms import Histogram

COUNTER = counter("forebay_things", "group", "Things.")
GAUGE = gauge("forebay_level", "group", "A level.", ("name",))
names = st.text(
    st.characters(blacklist_categories=["Cs"], blacklist_characters="\r\x85\u2028\u2029\x0b\x0c\x1c\x1d\x1e")
)


def text_of(open_metrics: bool, samples: Samples, prefix: str = "") -> str:
    out = Text(open_metrics, prefix)
    out.add(GAUGE, samples)
    out.add(COUNTER, [(labelled((), ()), 3)])
    return out.document().decode()


@given(values=st.lists(names, unique=True, min_size=1, max_size=5))
def test_labels_come_back_as_they_were(values: list[str]) -> None:
    samples = [(labelled(("name",), (value,)), number) for number, value in enumerate(values)]
    for parsed in (
        list(parse_plain(text_of(False, samples))),
        list(parse_open_metrics(text_of(True, samples))),  # type: ignore[no-untyped-call]
    ):
        found = {sample.labels["name"]: sample.value for sample in parsed[0].samples}
        assert found == {value: number for number, value in enumerate(values)}
        assert parsed[1].samples[0].name == "forebay_things_total"


def test_heads_name_the_counter_as_each_format_wants() -> None:
    assert "# TYPE forebay_things_total counter\nforebay_things_total 3\n" in text_of(False, [])
    open_text = text_of(True, [])
    assert "# TYPE forebay_things counter\nforebay_things_total 3\n" in open_text
    assert open_text.endswith("# EOF\n")


def test_a_family_without_samples_is_not_there() -> None:
    assert "forebay_level" not in text_of(False, [])


def test_a_prefix_stands_behind_the_first_word() -> None:
    assert "forebay_detailed_things_total 3\n" in text_of(False, [], "detailed_")


def test_a_family_is_written_once_in_parts() -> None:
    out = Text(False)
    out.add(GAUGE, [(labelled(("name",), ("a",)), 1)])
    out.more(GAUGE, [(labelled(("name",), ("b",)), 2)])
    out.add(GAUGE, [(labelled(("name",), ("c",)), 3)])
    assert [sample.value for sample in next(iter(parse_plain(out.document().decode()))).samples] == [1, 2]


@given(st.lists(st.integers(0, 1 << 40), max_size=50))
def test_buckets_are_cumulative(values: list[int]) -> None:
    measured = Histogram("us")
    for value in values:
        measured.record(value)
    out = Text(False)
    out.add_histogram(histogram("forebay_time_seconds", "group", "Time."), measured, 1_000_000)
    samples = next(iter(parse_plain(out.document().decode()))).samples
    buckets = [(float(each.labels["le"]), each.value) for each in samples if each.name.endswith("_bucket")]
    for most, count in buckets:
        assert count == sum(value / 1_000_000 <= most for value in values) or most == buckets[-2][0]
    assert list(buckets[-1]) == [float("inf"), len(values)]
    others = {each.name: each.value for each in samples if not each.name.endswith("_bucket")}
    assert others["forebay_time_seconds_count"] == len(values)


def test_who_accepts_open_metrics() -> None:
    assert wants_open_metrics("application/openmetrics-text;version=1.0.0;q=0.5,text/plain")
    assert not wants_open_metrics("text/plain;version=0.0.4")
    assert not wants_open_metrics("")
