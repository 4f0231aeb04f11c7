"""The table of commands that hand what was typed on to one operation."""

from __future__ import annotations

import re

import pytest

from forebay.cli.access import filled
from forebay.cli.manage.from_rows import COMPLETIONS, SPELLINGS, SWITCHES
from forebay.cli.manage.rows import ROWS, CommandRow
from forebay.management.parameters import parameters_of
from tests.broker_process import BrokerProcess
from tests.unit.cli.commands import Forebay


@pytest.mark.parametrize(("operation", "row"), ROWS.items(), ids=list(ROWS))
def test_a_row_names_parameters_of_its_operation(operation: str, row: CommandRow) -> None:
    known = {each.name: each for each in parameters_of(operation)}
    asked = set(re.findall(r"{(\w+)}", row.question))
    assert asked | {row.positional, row.sure} <= {*known, ""}
    assert not row.positional or not known[row.positional].required, "what must be given is an argument anyhow"
    assert (row.question == "") or (row.said != ""), "only a change asks"
    assert not row.columns or not row.said


def test_what_rows_say_otherwise_is_of_parameters_that_there_are() -> None:
    taken = {(each.name, each.default) for operation in ROWS for each in parameters_of(operation)}
    assert set(SWITCHES) <= taken
    assert {*SPELLINGS, *COMPLETIONS} <= {name for name, _ in taken}


def test_an_argument_in_a_sentence_is_not_read_again() -> None:
    values = {"group": "{queue}", "queue": "q\x1b[2J"}
    assert filled("group {group} of {queue}: {left}", values) == "group {queue} of q\\x1b[2J: {left}"


def test_a_queue_with_a_name_in_braces_is_named_as_it_is(broker: BrokerProcess) -> None:
    forebay = Forebay(broker)
    forebay("queue", "declare", "{messages}")
    assert forebay("queue", "purge", "{messages}", "--yes") == "0 messages deleted from queue {messages}\n"


def test_a_switch_gives_a_parameter_its_other_value(broker: BrokerProcess) -> None:
    forebay = Forebay(broker)
    forebay("queue", "declare", "kept")
    forebay("queue", "declare", "gone", "--transient")
    assert {each["queue"]: each["durable"] for each in forebay.json("queue", "list")} == {"gone": False, "kept": True}
    forebay("binding", "add", "amq.topic", "amq.fanout", "--key", "a.#", "--to-exchange")
    (binding,) = forebay.json("binding", "list", "--exchange", "amq.topic")
    assert (binding["destination"], binding["destination_type"]) == ("amq.fanout", "exchange")
    forebay("binding", "add", "amq.topic", "kept", "--key", "b.#")
    assert [each["destination"] for each in forebay.json("binding", "list", "--queue", "kept")][-1] == "kept"


def test_a_vhost_is_protected_until_it_is_not(broker: BrokerProcess) -> None:
    forebay = Forebay(broker)
    forebay("vhost", "add", "shop", "--protected", "--octets-max", "1000000")
    (shop,) = (each for each in forebay.json("vhost", "list") if each["vhost"] == "shop")
    assert (shop["protected"], shop["octets_max"]) == (True, 1_000_000)
    assert "protected from deletion" in forebay.fails(1, "vhost", "delete", "shop", "--yes")
    forebay("vhost", "set", "shop", "--unprotected")
    assert forebay("vhost", "delete", "shop", "--yes") == "vhost shop deleted\n"
