/** Finds any view, queue or exchange by a part of its name, and goes there. */
import { get } from "./api.js";
import { open } from "./dialog.js";
import { h, put } from "./dom.js";
import { go, link } from "./router.js";
import { listPath } from "./session.js";

const SHOWN_MAX = 40;
const TYPING_MS = 150;

/** @typedef {{name: string, kind: string, to: string}} Entry */

/** @param {Entry[]} views */
export function openPalette(views) {
  if (document.querySelector("dialog[open]")) return;
  const list = h("ul", { role: "listbox", id: "palette-list", "aria-label": "Found" });
  const input = h("input", {
    type: "text",
    placeholder: "Search views, queues and exchanges",
    "aria-label": "Search",
    role: "combobox",
    "aria-expanded": "true",
    "aria-controls": "palette-list",
    autocomplete: "off",
    spellcheck: "false",
  });
  const dialog = open(h("div", {}, input, list), "Search");
  dialog.classList.add("palette");
  /** @type {Entry[]} */
  let found = [];
  let at = 0;
  let asked = 0;
  /** @param {Entry[]} entries */
  const draw = (entries) => {
    found = entries.slice(0, SHOWN_MAX);
    at = Math.min(at, Math.max(found.length - 1, 0));
    const rows = found.map((entry, index) =>
      h(
        "li",
        { role: "option", id: `palette-${index}`, "aria-selected": String(index === at), onclick: () => choose(entry) },
        h("span", {}, entry.name),
        h("span", { class: "muted small" }, entry.kind),
      ),
    );
    put(list, rows.length ? rows : h("li", { class: "muted" }, "No name contains this"));
    input.setAttribute("aria-activedescendant", found.length ? `palette-${at}` : "");
    list.children[at]?.scrollIntoView({ block: "nearest" });
  };
  /** @param {Entry} entry */
  const choose = (entry) => {
    dialog.close();
    go(entry.to);
  };
  const search = async () => {
    const text = input.value.trim().toLowerCase();
    const number = (asked += 1);
    const fitting = views.filter((view) => view.name.toLowerCase().includes(text));
    at = 0;
    draw(fitting);
    if (!text) return;
    await new Promise((resolve) => setTimeout(resolve, TYPING_MS));
    if (number !== asked) return;
    const [queues, exchanges] = await Promise.all([named("queues", text), named("exchanges", text)]);
    if (number === asked) draw([...queues, ...exchanges, ...fitting]);
  };
  input.addEventListener("input", () => void search().catch(() => {}));
  input.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by !== undefined && found.length) {
      at = (at + by + found.length) % found.length;
      draw(found);
      event.preventDefault();
    } else if (event.key === "Enter" && found[at]) {
      choose(found[at]);
      event.preventDefault();
    }
  });
  draw(views);
  input.focus();
}

/** @param {string} kind @param {string} text @returns {Promise<Entry[]>} */
async function named(kind, text) {
  const query = { page: 1, page_size: 20, name: text, columns: "name,vhost", disable_stats: true };
  const found = await get(listPath(kind), { query });
  return found.items
    .filter((/** @type {any} */ each) => each.name)
    .map((/** @type {any} */ each) => ({ name: each.name, kind: `${kind.slice(0, -1)} in ${each.vhost}`, to: link(kind, each.vhost, each.name) }));
}
