"""The user that a client's certificate names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from forebay.core.option_names import CN, DN, SAN_DNS, SAN_EMAIL, SAN_IP, SAN_URI

SAN_KINDS: Final = {SAN_DNS: "DNS", SAN_EMAIL: "email", SAN_IP: "IP Address", SAN_URI: "URI"}
# RFC 4514, section 3; other types are written with their long names.
SHORT_NAMES: Final = {
    "commonName": "CN",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "streetAddress": "STREET",
    "domainComponent": "DC",
    "userId": "UID",
}
ESCAPED: Final = '"+,;<>\\'


def name_in(certificate: Mapping[str, Any] | None, how: str) -> str:
    """Return the name in a verified certificate, as `getpeercert` gives it; empty unless there is just one.

    how  of the option `tls_identity`: cn, dn, san_dns, san_email, san_ip, san_uri
    """
    if not certificate:
        return ""
    if how == CN:
        found = [value for part in certificate["subject"] for key, value in part if key == "commonName"]
    elif how == DN:
        found = [distinguished_name(certificate["subject"])]
    else:
        kind = SAN_KINDS[how]
        found = [value for key, value in certificate.get("subjectAltName", ()) if key == kind]
    return str(found[0]) if len(found) == 1 else ""


def distinguished_name(subject: Any) -> str:
    """Write a certificate's subject as RFC 4514 does: the last part first, `CN=sensor-1,O=Factory`."""
    parts = ["+".join(f"{SHORT_NAMES.get(key, key)}={escaped(value)}" for key, value in part) for part in subject]
    return ",".join(reversed(parts))


def escaped(value: str) -> str:
    """Escape a value for a distinguished name (RFC 4514, section 2.4)."""
    text = "".join(f"\\{each}" if each in ESCAPED else each for each in value).replace("\0", "\\00")
    if text[:1] in {" ", "#"}:
        text = "\\" + text
    if len(value) > 1 and text.endswith(" "):
        text = text[:-1] + "\\ "
    return text
