"""Hooks of MkDocs: pages of the repository that lie outside docs/ are in the site, too.

`mkdocs.yml` names this file. A page outside docs/ that a page links (CHANGELOG.md, a README) is added under its own
path. A link to any other file outside docs/ is left as its text: the site has no sources. Of the words after the
language of a code block, which are for the tests, the site shows nothing.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT: Final = Path(__file__).parent.parent
DOCS: Final = "docs/"
SEARCH: Final = 'data-md-component="search" role="dialog"'  # which the theme gives no name
OUTSIDE: Final = ("CHANGELOG.md", "LICENSE", "bench/README.md", "examples/README.md")
FENCE: Final = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
WORDS: Final = re.compile(r"\A(```\w+) .*")
PALETTE: Final = 'class="md-option" data-md-color-media='  # hidden from screen readers, so not for the keyboard either
EMPTY_HEAD: Final = re.compile(r"<th( style=[^>]*)?></th>")
LINK: Final = re.compile(r"\[([^\]]*)\]\(([^)\s:#]+)(#[^)\s]*)?\)")


def repository_pages() -> list[str]:
    """The paths of pages outside docs/ that are in the site."""
    examples = sorted(ROOT.glob("examples/*/README.md"))
    return [*OUTSIDE, *(path.relative_to(ROOT).as_posix() for path in examples)]


def place_in_repository(uri: str) -> str:
    """A page's path from the root of the repository."""
    return uri if uri in repository_pages() else DOCS + uri


def place_in_site(path: str) -> str | None:
    """The path of a file of the repository in the site; None where it is not there."""
    if path.startswith(DOCS):
        return path.removeprefix(DOCS)
    return path if path in repository_pages() else None


def link_in_site(uri: str, target: str) -> str | None:
    """A link of the page `uri`, relative in the repository, as it is in the site; None where it leads out of it."""
    folder = posixpath.dirname(place_in_repository(uri))
    place = place_in_site(posixpath.normpath(posixpath.join(folder, target)))
    return None if place is None else posixpath.relpath(place, posixpath.dirname(uri) or ".")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that lie outside docs/."""
    for path in repository_pages():
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, **_: object) -> str:
    """Make links lead to where things are in the site."""

    def mended(found: re.Match[str]) -> str:
        link = link_in_site(page.file.src_uri, found[2])
        return found[1] if link is None else f"[{found[1]}]({link}{found[3] or ''})"

    parts = FENCE.split(markdown)
    return "".join(WORDS.sub(r"\1", part) if part.startswith("```") else LINK.sub(mended, part) for part in parts)


def on_page_content(html: str, **_: object) -> str:
    """Make a cell of the empty corner of a table: it is the head of nothing."""
    return EMPTY_HEAD.sub(r"<td\1></td>", html)


def on_post_page(output: str, **_: object) -> str:
    """Give the dialog of the search a name for screen readers, and take hidden inputs from the keyboard."""
    named = output.replace(SEARCH, f'{SEARCH} aria-label="Search"')
    return named.replace(PALETTE, f'tabindex="-1" {PALETTE}')
