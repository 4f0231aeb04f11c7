/** Exchanges and what they lead to as a tree of lines, for screens that have no room for a drawing. */
import { h } from "../dom.js";

/** @typedef {import("../layout.js").Node_} Node_ @typedef {import("../layout.js").Edge} Edge */

/** @param {Node_[]} nodes @param {Edge[]} edges */
export function routes(nodes, edges) {
  const known = new Map(nodes.map((node) => [node.id, node]));
  const led = new Set(edges.map((edge) => edge.to));
  /** @type {Set<string>} */
  const shown = new Set();
  const about = (/** @type {Node_} */ node) => [h("a", { class: node.queue ? "queue" : "exchange", href: node.to }, node.name), h("span", { class: "muted small" }, node.queue ? node.kind : `${node.kind} exchange`)];
  /** @param {Node_} node @param {Edge | null} edge @returns {HTMLElement} */
  const item = (node, edge) => {
    const below = edges.filter((each) => each.from === node.id && known.has(each.to));
    const again = !node.queue && shown.has(node.id);
    shown.add(node.id);
    return h(
      "li",
      {},
      h("div", { class: "stop" }, edge ? edge.keys.filter(Boolean).map((key) => h("code", {}, key)) : null, about(node)),
      again && below.length ? h("p", { class: "muted small" }, "Its bindings are shown above.") : null,
      !again && below.length ? h("ul", {}, below.map((each) => item(/** @type {Node_} */ (known.get(each.to)), each))) : null,
    );
  };
  const firsts = nodes.filter((node) => !led.has(node.id)).map((node) => item(node, null));
  const circles = nodes.filter((node) => !node.queue).flatMap((node) => (shown.has(node.id) ? [] : [item(node, null)]));
  return h("ul", { class: "routes", "aria-label": "Exchanges and their bindings" }, firsts, circles);
}
