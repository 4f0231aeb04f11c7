"""An issuer of tokens for tests: a real HTTP server with its keys, which may be down."""

from __future__ import annotations

import json
import threading
import time
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from joserfc import jws
from joserfc.errors import SecurityWarning
from joserfc.jwk import ECKey, Key, KeyParameters, OKPKey, RSAKey

AUDIENCE = "forebay"


class Issuer:
    """Signs tokens; its server answers with the public keys it has at that moment.

    asked  how often somebody has fetched them
    """

    def __init__(self) -> None:
        self.keys: dict[str, Key] = {}
        self.asked = 0
        self.is_down = False
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                issuer.asked += 1
                if issuer.is_down:
                    self.send_error(503)
                    return
                found: dict[str, Any] = {"keys": [key.as_dict(private=False) for key in issuer.keys.values()]}
                if self.path.endswith("openid-configuration"):
                    found = {"issuer": issuer.url, "jwks_uri": f"{issuer.url}/keys"}
                octets = json.dumps(found).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(octets)))
                self.end_headers()
                self.wfile.write(octets)

            def log_message(self, format: str, *args: object) -> None:
                """Nothing of it."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def make(self, id: str, kind: str = "RS256") -> None:
        """A key more."""
        parameters: KeyParameters = {"kid": id, "use": "sig"}
        if kind.startswith(("RS", "PS")):
            self.keys[id] = RSAKey.generate_key(2048, parameters)
        elif kind.startswith("ES"):
            self.keys[id] = ECKey.generate_key("P-256", parameters)
        else:
            self.keys[id] = OKPKey.generate_key("Ed25519", parameters)

    def token(
        self, *scopes: str, id: str = "one", algorithm: str = "RS256", seconds: float = 600, **claims: object
    ) -> str:
        """A token; claims that are None are left out."""
        said = {
            "iss": self.url,
            "aud": [AUDIENCE],
            "sub": "app",
            "exp": int(time.time() + seconds),
            "scope": " ".join(f"{AUDIENCE}.{scope}" for scope in scopes),
            **claims,
        }
        kept = {name: value for name, value in said.items() if value is not None}
        header = {"alg": algorithm, "kid": id}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SecurityWarning)  # EdDSA has a newer name, which few use
            return jws.serialize_compact(header, json.dumps(kept), self.keys[id], algorithms=[algorithm])

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
