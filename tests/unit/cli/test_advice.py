"""Errors say what to do next."""

from __future__ import annotations

import pytest

from forebay.cli.advice import NEW_PASSWORD, advice
from forebay.core.errors import (
    INVALID,
    NOT_FOUND,
    PRECONDITION,
    REFUSED,
    CorruptFile,
    DiskFull,
    ForebayError,
    OptionError,
    OutcomeUnknown,
    RequestError,
    StorageError,
    Unreachable,
)
from tests.broker_process import BrokerProcess
from tests.unit.cli.commands import Forebay


@pytest.fixture
def forebay(broker: BrokerProcess) -> Forebay:
    return Forebay(broker)


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Unreachable("no broker answers: a:1: Connection refused"), "forebay serve"),
        (Unreachable("no broker answers: a:1: TLS: [SSL: WRONG_VERSION_NUMBER] wrong"), "has no TLS"),
        (Unreachable("no broker answers: a:1: TLS: certificate verify failed"), "--ca-file FILE"),
        (Unreachable("no broker answers: a:1: Name or service not known"), "FOREBAY_SERVER"),
        (Unreachable("no broker answers: a:1: timed out"), "firewall"),
        (OutcomeUnknown("a:1: closed"), "check before you repeat it"),
        (RequestError(REFUSED, "a:1: Login was refused. For details see the broker log."), "--user and --password"),
        (RequestError(REFUSED, "user 'ann' lacks the tag administrator"), "forebay user tags ann administrator"),
        (
            RequestError(REFUSED, "access to vhost 'shop' refused for user 'ann'"),
            "forebay permission set ann '.*' '.*' '.*' --vhost shop",
        ),
        (RequestError(REFUSED, "write access to exchange 'e' in vhost '/' refused for user 'ann'"), "--of ann"),
        (
            RequestError(PRECONDITION, "inequivalent arg 'durable' for queue 'orders' in vhost '/': received ..."),
            "`forebay queue list`",
        ),
        (RequestError(PRECONDITION, "invalid arg …: \"unsupported queue type 'strem'\""), "classic, quorum and stream"),
        (RequestError(INVALID, "a:1: filter, position 5, the end: a value is due here"), "docs/reference/filters.md"),
        (OptionError("'localhost' is not HOST:PORT with a port"), "localhost:5672"),
        (StorageError("data directory /d is in use by the process 7"), "--data"),
        (DiskFull("/d: cannot write"), "make room"),
        (CorruptFile("/d/wal/1.wal", 32, "checksum"), "forebay log repair"),
    ],
)
def test_an_error_is_followed_by_the_way_out(error: ForebayError, said: str) -> None:
    (line,) = advice(error, ["queue", "list"])
    assert said in line


def test_what_needs_no_advice_has_none() -> None:
    assert advice(RequestError(INVALID, "limit: 0 is not within 1 .. 1000"), []) == []


def test_a_password_for_a_new_user_is_not_that_of_the_connection(forebay: Forebay) -> None:
    refused = RequestError(REFUSED, "Login was refused.")
    assert advice(refused, ["user", "add", "ann", "--password", "x"]) == [NEW_PASSWORD]
    done = forebay.run("user", "add", "ann", "--password", "the-new-one")
    assert (done.returncode, done.stderr.splitlines()[1]) == (1, NEW_PASSWORD)
    assert "ann" not in [each["name"] for each in forebay.json("user", "list")]
    forebay("user", "add", "ann", "--new-password", "the-new-one", "--tags", "administrator")
    assert forebay("queue", "list", "--user", "ann", "--password", "the-new-one")
    forebay("user", "password", "ann", "--new-password", "a-newer-one")
    assert "Login was refused" in forebay.fails(1, "queue", "list", "--user", "ann", "--password", "the-new-one")
    assert "one of them" in forebay.fails(2, "user", "add", "eve", "--new-password", "a", "--no-password")
    assert "FOREBAY_NEW_PASSWORD" in forebay.fails(2, "user", "add", "eve")


@pytest.mark.parametrize(
    ("arguments", "nearest"),
    [
        (("queue", "show", "ordesr"), "did you mean 'orders'? `forebay queue list` shows all"),
        (("publish", "-q", "ordesr", "x"), "did you mean 'orders'? `forebay queue list` shows all"),
        (("consume", "-q", "ordesr"), "did you mean 'orders'? `forebay queue list` shows all"),
        (("exchange", "delete", "amq.topik", "--yes"), "did you mean 'amq.topic'? `forebay exchange list` shows"),
        (("user", "tags", "gest", "x"), "did you mean 'guest'? `forebay user list` shows all"),
        (("vhost", "delete", "shops", "--yes"), "did you mean 'shop'? `forebay vhost list` shows all"),
        (("queue", "list", "--vhost", "nothing-like-it"), "`forebay vhost list` shows all"),
        (("queue", "show", "zzz", "--vhost", "shop"), "`forebay queue list --vhost shop` shows all"),
    ],
)
def test_an_unknown_name_brings_the_nearest(forebay: Forebay, arguments: tuple[str, ...], nearest: str) -> None:
    forebay("queue", "declare", "orders")
    forebay("vhost", "add", "shop")
    done = forebay.run(*arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[1].startswith(nearest)


def test_who_may_not_list_the_names_gets_the_error_alone(forebay: Forebay) -> None:
    forebay("user", "add", "ann", "--new-password", "a-password")
    forebay("permission", "set", "ann", ".*", ".*", ".*")
    done = forebay.run("consume", "-q", "none", "--user", "ann", "--password", "a-password")
    assert done.returncode == 1
    assert "no queue 'none'" in done.stderr.splitlines()[0]
    assert "did you mean" not in done.stderr


def test_errors_of_each_kind_have_their_exit_code() -> None:
    from forebay.cli.main import exit_code

    assert exit_code(RequestError(NOT_FOUND, "")) == 1
    assert exit_code(StorageError("")) == 1
    assert exit_code(OptionError("")) == 2
    assert exit_code(Unreachable("")) == exit_code(OutcomeUnknown("")) == 3
