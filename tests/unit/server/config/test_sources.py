"""Where options come from, which place wins, and what an error says of the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.errors import OptionError
from forebay.core.option_table import MIB
from forebay.core.options import Options
from forebay.server.config.files import line_of, read_lines
from forebay.server.config.sources import ERROR, WARNING, OptionSource, check, load_options


def written(folder: Path, name: str, text: str) -> str:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return str(path)


def test_without_any_place_there_are_the_defaults() -> None:
    assert load_options({}, {"PATH": "/bin"}) == Options()


def test_the_command_line_goes_before_the_environment_and_that_before_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "a.toml", 'data = "file"\namqp = "file:1"\nmqtt = "file:1"\n')
    options = load_options({"data": "flag"}, {"FOREBAY_DATA": "env", "FOREBAY_AMQP": "env:2"}, file)
    assert (options.data, options.amqp, options.mqtt) == ("flag", "env:2", "file:1")


def test_toml_and_yaml_say_the_same(tmp_path: Path) -> None:
    toml = written(tmp_path, "a.toml", 'message_octets_max = "2MiB"\n[[queues]]\nname = "q"\ntopics = ["a/#"]\n')
    yaml = written(tmp_path, "a.yaml", "message_octets_max: 2MiB\nqueues:\n  - name: q\n    topics: [a/#]\n")
    assert load_options({}, {}, toml) == load_options({}, {}, yaml)
    assert load_options({}, {}, toml).message_octets_max == 2 * MIB


def test_the_environment_may_name_the_file_and_the_command_line_another(tmp_path: Path) -> None:
    one = written(tmp_path, "one.yml", "data: one\n")
    two = written(tmp_path, "two.yml", "data: two\n")
    assert load_options({}, {"FOREBAY_CONFIG": one}).data == "one"
    assert load_options({}, {"FOREBAY_CONFIG": one}, two).data == "two"


def test_names_that_steer_the_build_are_no_options() -> None:
    words = {"FOREBAY_PURE": "1", "FOREBAY_PYTHON": "python3", "FOREBAY_BUILD_CACHE": "/tmp", "FOREBAY_DEBUG": "1"}
    assert load_options({}, words) == Options()


def test_an_empty_yaml_file_sets_nothing(tmp_path: Path) -> None:
    assert read_lines(written(tmp_path, "a.yaml", "")) == ({}, {})


def test_two_places_may_together_be_wrong(tmp_path: Path) -> None:
    file = written(tmp_path, "a.toml", 'wal_octets_max = "1MiB"\n')
    with pytest.raises(OptionError, match="wal_chunk_octets"):
        load_options({}, {}, file)
    assert load_options({}, {"FOREBAY_WAL_CHUNK_OCTETS": "1MiB"}, file).wal_octets_max == MIB


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", "amqp = 1", "a.toml:1: amqp: 1 is out of range"),
        ("a.toml", "amqp = nowhere\n", "a.toml: Invalid value (at line 1, column 8"),
        ("a.yaml", "a: [", "a.yaml: while parsing"),
        ("a.yaml", "- amqp", "a.yaml: holds no keys and values"),
        ("a.yaml", "1: 2", "a.yaml:1: 1: no such option"),
        ("a.yaml", "amqp_heartbeat: 2", "a.yaml:1: amqp_heartbeat: no such option; did you mean amqp_heartbeat_s?"),
        ("a.json", "{}", "a.json: a configuration file ends in .toml, .yaml or .yml"),
    ],
)
def test_an_error_names_the_file_the_key_and_the_value(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(OptionError) as caught:
        load_options({}, {}, written(tmp_path, name, text))
    assert said in str(caught.value)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"none\.toml: cannot be read"):
        load_options({}, {}, str(tmp_path / "none.toml"))
    (tmp_path / "octets.toml").write_bytes(b"\xff")
    with pytest.raises(OptionError, match=r"octets\.toml: cannot be read"):
        load_options({}, {}, str(tmp_path / "octets.toml"))


@pytest.mark.parametrize(
    ("flags", "environment", "said"),
    [
        ({"mqtt": "nowhere"}, {}, "command line: mqtt: 'nowhere' is not HOST:PORT"),
        ({}, {"FOREBAY_MQTT": "nowhere"}, "environment: mqtt: 'nowhere' is not HOST:PORT"),
        ({}, {"FOREBAY_MQT": "x"}, "environment: mqt: no such option; did you mean mqtt?"),
    ],
)
def test_an_error_names_the_place(flags: dict[str, str], environment: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        load_options(flags, environment)
    assert str(caught.value).startswith(said)


def errors(folder: Path, name: str, text: str) -> list[str]:
    with pytest.raises(OptionError) as caught:
        load_options({}, {}, written(folder, name, text))
    return [line.removeprefix(f"{folder}/") for line in str(caught.value).splitlines()]


def test_everything_that_is_wrong_is_said_at_once_each_with_its_line_and_path(tmp_path: Path) -> None:
    yaml = """
amqp: nowhere
queues:
  - name: orders
    retentoin: {max_age: 1h}
  - name: audit
    type: strem
    retention:
      max_age: forever
webhooks:
  - events: ["client.*"]
mqtt_max_qos: 3
"""
    assert errors(tmp_path, "a.yaml", yaml) == [
        "a.yaml:2: amqp: 'nowhere' is not HOST:PORT with a port from 0 to 65535",
        "a.yaml:5: queues[0].retentoin: no such option; did you mean queues[0].retention?",
        "a.yaml:7: queues[1].type: 'strem' is out of range; must be classic or quorum or stream",
        "a.yaml:9: queues[1].retention.max_age: 'forever' is out of range; must be 0 to 10000000000 s",
        "a.yaml:11: webhooks[0].url: missing; give text, not empty",
        "a.yaml:12: mqtt_max_qos: 3 is out of range; must be 0 to 2 QoS",
    ]
    toml = """
amqp = "nowhere"   # "
[[queues]]
name = "orders"
retentoin = { max_age = "1h" }
[[queues]]
name = "audit"
type = 'strem'
[queues.retention]
max_age = "forever"
"""
    assert [line.partition(": ")[0] for line in errors(tmp_path, "a.toml", toml)] == [
        "a.toml:2",
        "a.toml:5",
        "a.toml:8",
        "a.toml:10",
    ]


def test_errors_of_the_environment_are_said_with_those_of_the_file(tmp_path: Path) -> None:
    file = written(tmp_path, "a.yaml", "amqp: nowhere\n")
    with pytest.raises(OptionError) as caught:
        load_options({"mqtt": "x"}, {"FOREBAY_HTTP": "y"}, file)
    places = [line.partition(": ")[0].rpartition("/")[2] for line in str(caught.value).splitlines()]
    assert places == ["a.yaml:1", "environment", "command line"]


def test_a_key_that_is_there_twice_is_refused_with_both_lines(tmp_path: Path) -> None:
    assert errors(tmp_path, "a.yaml", "mqtt: ''\nqueues:\n  - name: a\n    type: stream\n    name: b\n") == [
        "a.yaml:5: queues[0].name: is there twice, before in line 3"
    ]
    assert "line 2" in errors(tmp_path, "a.toml", "mqtt = ''\nmqtt = ''\n")[0]
    assert errors(tmp_path, "b.yaml", "queues:\n- name: q\n- name: q\n") == [
        "b.yaml:3: queues: the name 'q' is there twice"
    ]
    assert errors(tmp_path, "c.yaml", "queues: [{name: s, retention: {max_age: 1h, max_age_s: 2}}]\n") == [
        "c.yaml:1: queues[0].retention.max_age_s: it is there twice, as max_age_s and as max_age"
    ]


def test_a_file_that_refers_to_itself_ends(tmp_path: Path) -> None:
    assert "nests more than" in errors(tmp_path, "a.yaml", "queues: &a [*a]\n")[0]


def test_lines_of_toml_are_found_in_every_notation(tmp_path: Path) -> None:
    toml = '''
data = """one
two = 2 [x]
"""
users."a.b" = 'x'
[[queues]] # first
name = "a"
topics = [
  "x/#",  # a comment, with a key = 1
  'y',
]
  [queues.retention]
  max_age = "1h"
[[queues]]
"name" = "b"
limits = { max_depth = 1, message_ttl = "1s" }
'''
    values, lines = read_lines(written(tmp_path, "a.toml", toml))
    assert values["queues"][1]["limits"]["message_ttl"] == "1s"  # type: ignore[index]
    expected = {
        "data": 2,
        "queues[0]": 6,
        "queues[0].name": 7,
        "queues[0].topics": 8,
        "queues[0].topics[1]": 10,
        "queues[0].retention.max_age": 13,
        "queues[1]": 14,
        "queues[1].name": 15,
        "queues[1].limits.max_depth": 16,
        "queues[1].limits.message_ttl": 16,
    }
    assert {path: lines.get(path) for path in expected} == expected
    assert line_of(lines, "queues[1].limits.nothing[3].else") == 16
    assert line_of(lines, "nothing") == 0


def test_fluxmq_s_queues_are_read_as_they_are(tmp_path: Path) -> None:
    yaml = """
queues:
  - name: mqtt
    topics: ["$queue/#"]
    reserved: true
    type: classic
    limits: {max_message_size: 10485760, max_depth: 100000, message_ttl: 168h}
    retry: {max_retries: 10, initial_backoff: 5s, max_backoff: 5m, multiplier: 2.0, total_timeout: 3h}
    dlq: {enabled: true, topic: ""}
  - name: events
    type: stream
    topics: ["events/#"]
    primary_group: workers
    retention: {max_age: 168h, max_length_bytes: 0, max_length_messages: 1000}
    replication: {enabled: false, group: "", replication_factor: 3, mode: sync, ack_timeout: 5s}
    ack_durability: buffered
"""
    queue, stream = load_options({}, {}, written(tmp_path, "a.yaml", yaml)).queues
    assert queue.reserved and queue.limits.message_ttl_ms == 168 * 3_600_000 and queue.limits.max_depth == 100_000
    assert (queue.retry.initial_backoff_ms, queue.retry.max_backoff_ms) == (5_000, 300_000)
    assert queue.dlq.enabled and stream.retention.max_age_s == 604_800


def test_each_value_has_its_origin_and_secrets_are_not_shown(tmp_path: Path) -> None:
    file = written(
        tmp_path, "a.yaml", "amqp: ''\nusers: {ann: hidden1}\nwebhooks: [{url: 'http://h', secret: hidden2}]\n"
    )
    loaded = OptionSource({"mqtt": ""}, {"FOREBAY_HTTP": ""}, file).load()
    shown = {str(each["name"]): each for each in loaded.shown()}
    assert {name: shown[name]["origin"] for name in ("amqp", "users", "mqtt", "http", "data")} == {
        "amqp": f"{file}:1",
        "users": f"{file}:2",
        "mqtt": "command line",
        "http": "environment",
        "data": "default",
    }
    assert shown["users"]["value"] == {"ann": "***"}
    assert shown["webhooks"]["value"][0]["secret"] == "***"  # type: ignore[index]
    assert "hidden" not in repr(shown)


def test_check_tells_errors_or_else_warnings(tmp_path: Path) -> None:
    (bad,) = check(written(tmp_path, "a.yaml", "amqpp: 1\n"))
    assert bad.level == ERROR and "a.yaml:1: amqpp: no such option" in bad.text
    (bad,) = check(written(tmp_path, "c.yaml", "mqtt: ''\nevents: [client.conected]\n"))
    assert bad.level == ERROR
    assert bad.text.endswith("c.yaml:2: events: no event matches 'client.conected'; did you mean client.connected?")
    key = tmp_path / "key.pem"
    key.write_text("key")
    key.chmod(0o644)
    yaml = f"""
loopback_users: []
amqp: 0.0.0.0:5672
tls_key: {key}
memory_octets_max: 1024GiB
"""
    found = check(written(tmp_path, "b.yaml", yaml))
    assert {each.level for each in found} == {WARNING}
    texts = [each.text.removeprefix(f"{tmp_path}/b.yaml:") for each in found]
    starts = ("2: loopback_users", "3: amqp", "4: tls_key", "5: memory_octets_max")
    assert [text.startswith(start) for text, start in zip(texts, starts, strict=True)] == [True] * 4
    assert check(None) == [], "the defaults are safe"
