"""What of a certificate stands for a user."""

from __future__ import annotations

import pytest

from forebay.server.auth.certificate_names import distinguished_name, name_in

SUBJECT = ((("countryName", "DE"),), (("organizationName", "Acme, Inc."),), (("commonName", "sensor-1"),))
NAMES = (("DNS", "a.example"), ("DNS", "b.example"), ("URI", "spiffe://factory/a"), ("IP Address", "10.0.0.1"))


@pytest.mark.parametrize(
    ("how", "name"),
    [
        ("cn", "sensor-1"),
        ("dn", "CN=sensor-1,O=Acme\\, Inc.,C=DE"),
        ("san_uri", "spiffe://factory/a"),
        ("san_ip", "10.0.0.1"),
        ("san_dns", ""),
        ("san_email", ""),
    ],
)
def test_a_name_is_taken_where_there_is_just_one(how: str, name: str) -> None:
    assert name_in({"subject": SUBJECT, "subjectAltName": NAMES}, how) == name


def test_a_certificate_without_alternative_names_has_none() -> None:
    assert name_in({"subject": SUBJECT}, "san_dns") == ""


@pytest.mark.parametrize(
    ("value", "written"),
    [("a+b", "a\\+b"), (' "x" ', '\\ \\"x\\"\\ '), ("#1", "\\#1"), ("a\\b", "a\\\\b"), ("x", "x"), (" ", "\\ ")],
)
def test_what_means_something_in_a_distinguished_name_is_escaped(value: str, written: str) -> None:
    assert distinguished_name(((("commonName", value),),)) == f"CN={written}"


def test_parts_of_several_names_stay_together() -> None:
    subject = ((("organizationName", "Acme"),), (("commonName", "a"), ("serialNumber", "7")))
    assert distinguished_name(subject) == "CN=a+serialNumber=7,O=Acme"
