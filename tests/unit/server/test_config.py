"""Where options come from, which place wins, and what an error says of the place."""

from __future__ import annotations

from pathlib import Path

import pytest

from forebay.core.errors import OptionError
from forebay.core.option_table import MIB
from forebay.core.options import Options
from forebay.server.config import load_options, read_file


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
    assert load_options({}, {"FOREBAY_PURE": "1", "FOREBAY_PYTHON": "python3"}) == Options()


def test_an_empty_yaml_file_sets_nothing(tmp_path: Path) -> None:
    assert read_file(written(tmp_path, "a.yaml", "")) == {}


def test_two_places_may_together_be_wrong(tmp_path: Path) -> None:
    file = written(tmp_path, "a.toml", 'wal_octets_max = "1MiB"\n')
    with pytest.raises(OptionError, match="wal_chunk_octets"):
        load_options({}, {}, file)
    assert load_options({}, {"FOREBAY_WAL_CHUNK_OCTETS": "1MiB"}, file).wal_octets_max == MIB


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("a.toml", "amqp = 1", "a.toml: amqp: 1 is out of range"),
        ("a.toml", "amqp = nowhere\n", "a.toml: Invalid value (at line 1, column 8"),
        ("a.yaml", "a: [", "a.yaml: while parsing"),
        ("a.yaml", "- amqp", "a.yaml: holds no keys and values"),
        ("a.yaml", "1: 2", "a.yaml: 1: no such option"),
        ("a.yaml", "amqp_heartbeat: 2", "a.yaml: amqp_heartbeat: no such option; did you mean amqp_heartbeat_s?"),
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
