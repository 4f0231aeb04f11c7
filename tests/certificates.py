"""Certificates for one test, and options of a broker that uses them."""

from __future__ import annotations

import ssl
from pathlib import Path

import trustme


class Certificates:
    """An authority and what it has signed, as PEM files in a folder.

    ca           the authority's certificate
    certificate  the broker's, for 127.0.0.1 and localhost; its key is `key`
    """

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.authority = trustme.CA()
        self.ca = folder / "ca.pem"
        self.authority.cert_pem.write_to_path(self.ca)
        self.certificate, self.key = self.issue("broker", "127.0.0.1", "localhost")

    def issue(self, name: str, *identities: str) -> tuple[Path, Path]:
        """A certificate with this common name, and its key."""
        made = self.authority.issue_cert(*(identities or (f"{name}.example",)), common_name=name)
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        made.private_key_pem.write_to_path(key)
        certificate.write_bytes(b"".join(part.bytes() for part in made.cert_chain_pems))
        return certificate, key

    def options(self, **options: object) -> dict[str, object]:
        """Options of a broker with this certificate, and others."""
        return {"tls_certificate": str(self.certificate), "tls_key": str(self.key), **options}

    def client(self, name: str = "") -> ssl.SSLContext:
        """A client's context; with a name, it shows a certificate."""
        context = ssl.create_default_context(cafile=str(self.ca))
        if name:
            context.load_cert_chain(*self.issue(name))
        return context
