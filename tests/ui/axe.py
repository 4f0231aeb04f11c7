"""axe-core in the page: what a machine can tell of WCAG 2.2 AA."""

from __future__ import annotations

import functools

from playwright.sync_api import Page

from tests.interop.npm import installed

AXE = "4.14.1"
LEVELS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
RUN = """
async run => {
  const {violations} = await axe.run(document, {...run, resultTypes: ['violations']});
  const said = (rule, node) => `${rule.id}: ${node.html.slice(0, 160)}: ${node.failureSummary}`;
  return violations.flatMap(each => each.nodes.map(node => said(each, node)));
}
"""


@functools.cache
def source() -> str:
    return (installed("axe-core", AXE) / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8")


def violations(page: Page, *rules: str) -> list[str]:
    """What is wrong with what is shown, by the rules of the levels, or by these alone."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(source())
    wanted = {"type": "rule", "values": list(rules)} if rules else {"type": "tag", "values": LEVELS}
    found: list[str] = page.evaluate(RUN, {"runOnly": wanted})
    return found
