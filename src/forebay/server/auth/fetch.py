"""Questions to other servers over HTTP, from the threads of logins: each a connection, each answer with a limit."""

from __future__ import annotations

import ssl

from forebay.server.system.http_client import httpx

# A connection that is kept may end as a question goes out; servers that write head and body apart take 40 ms on it.
UNKEPT = httpx.Limits(max_keepalive_connections=0)


def make_client(ca: str, timeout_s: float) -> httpx.Client:
    """Make an HTTP client for the threads of logins.

    ca  file of the certificates that servers are known by; empty for the system's
    """
    return httpx.Client(
        verify=ssl.create_default_context(cafile=ca or None), timeout=timeout_s, follow_redirects=True, limits=UNKEPT
    )


def fetch(client: httpx.Client, method: str, url: str, content: str | None = None, *, octets_max: int) -> bytes:
    """Return the body of a successful answer, cut after `octets_max` + 1 octets. Raises OSError or ValueError."""
    headers = {"Accept": "*/*"} if content is None else {"Content-Type": "application/x-www-form-urlencoded"}
    octets = b""
    try:
        with client.stream(method, url, content=content, headers=headers) as answer:
            answer.raise_for_status()
            for part in answer.iter_bytes():
                octets += part
                if len(octets) > octets_max:
                    break
    except httpx.HTTPStatusError as error:
        # The error must not show the URL, which may hold a password.
        raise ConnectionError(f"it answers with status {error.response.status_code}") from None
    except httpx.HTTPError as error:
        raise ConnectionError(f"{type(error).__name__}: {error}") from None
    except httpx.InvalidURL as error:
        raise ValueError(str(error)) from None
    return octets[: octets_max + 1]
