"""The web page at `/`: the files of `ui/` as they are, without a build step.

Files are served below a folder that is named by the digest of all of them, so browsers keep them for ever and a new
release is a new folder. Only the page itself is asked for again, with its tag.
"""

from __future__ import annotations

import gzip
import hashlib
from dataclasses import dataclass
from importlib.resources import files
from importlib.resources.abc import Traversable
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from forebay.admin.http import browser_headers
from forebay.admin.web.router import RouteGroup

TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
FOLDER: Final = "/ui"
DIGEST_CHARACTERS: Final = 16
FOR_EVER: Final = "public, max-age=31536000, immutable"
ASK_AGAIN: Final = "no-cache"
# As for every answer (`browser_headers.py`), and besides no text ever becomes markup or code.
POLICY: Final = f"{browser_headers.POLICY}; require-trusted-types-for 'script'; trusted-types 'none'"
SAFE_HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}


@dataclass(frozen=True, slots=True)
class Asset:
    """One file as it is sent: as it is, and packed."""

    body: bytes
    packed: bytes
    type: str
    tag: str

    def answer(self, request: Request, caching: str) -> Response:
        """The file, or that the browser has it already."""
        headers = {**SAFE_HEADERS, "Cache-Control": caching, "ETag": self.tag, "Vary": "Accept-Encoding"}
        if self.tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        body = self.body
        if "gzip" in request.headers.get("accept-encoding", ""):
            body = self.packed
            headers["Content-Encoding"] = "gzip"
        return Response(body, headers=headers, media_type=self.type)


def make_asset(name: str, body: bytes) -> Asset:
    """A file of this name's type."""
    tag = hashlib.sha256(body).hexdigest()[:DIGEST_CHARACTERS]
    return Asset(body, gzip.compress(body, mtime=0), TYPES[name.rpartition(".")[2]], f'"{tag}"')


def read_folder(folder: Traversable, prefix: str = "") -> dict[str, bytes]:
    """All files below a folder by their path."""
    found: dict[str, bytes] = {}
    for each in folder.iterdir():
        if each.is_dir():
            found.update(read_folder(each, f"{prefix}{each.name}/"))
        elif each.name.rpartition(".")[2] in TYPES:
            found[f"{prefix}{each.name}"] = each.read_bytes()
    return found


def digest_of(contents: dict[str, bytes]) -> str:
    """A digest that names this state of the files."""
    digest = hashlib.sha256()
    for name in sorted(contents):
        digest.update(f"{name}\0{len(contents[name])}\0".encode() + contents[name])
    return digest.hexdigest()[:DIGEST_CHARACTERS]


def front_page(contents: dict[str, bytes], folder: str) -> bytes:
    """index.html with its links; scripts are asked for at once, instead of one after another as they import."""
    scripts = sorted(name for name in contents if name.endswith(".js"))
    preload = "\n    ".join(f'<link rel="modulepreload" href="{folder}/{name}" />' for name in scripts)
    text = contents["index.html"].decode()
    return text.replace("{{preload}}", preload).replace("{{ui}}", folder).encode()


def make_router() -> RouteGroup:
    """The routes of the page."""
    contents = read_folder(files("forebay.admin").joinpath("ui"))
    digest = digest_of(contents)
    page = make_asset("index.html", front_page(contents, f"{FOLDER}/{digest}"))
    assets = {name: make_asset(name, body) for name, body in contents.items() if name != "index.html"}
    router = RouteGroup(is_described=False)

    @router.route("/", methods=["GET", "HEAD"])
    async def front(request: Request) -> Response:
        return page.answer(request, ASK_AGAIN)

    @router.route(FOLDER + "/{version}/{name:path}", methods=["GET", "HEAD"])
    async def asset(request: Request, version: str, name: str) -> Response:
        if version != digest or name not in assets:
            return Response("no such file", 404, SAFE_HEADERS, "text/plain")
        return assets[name].answer(request, FOR_EVER)

    @router.route("/favicon.ico", methods=["GET", "HEAD"])
    async def icon(request: Request) -> Response:
        return assets["favicon.svg"].answer(request, ASK_AGAIN)

    return router
