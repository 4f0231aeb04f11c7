/** What views are put together from. */
import { get, path } from "../api.js";
import { h, nodes, put } from "../dom.js";
import { plain, state } from "../format.js";
import { SPANS } from "../history.js";
import { link } from "../router.js";
import { seenVhosts, vhosts } from "../session.js";

/**
 * The head of a view: where it is, its name, its buttons.
 * @param {string} title
 * @param {{crumbs?: [string, string][], actions?: any[], about?: any}} [options] crumbs: names with addresses
 */
export function heading(title, { crumbs = [], actions = [], about = null } = {}) {
  const trail = crumbs.length
    ? h("nav", { class: "crumbs", "aria-label": "Where this is" }, crumbs.map(([name, to], at) => [at ? h("span", { "aria-hidden": "true" }, "›") : null, h("a", { href: to }, name)]))
    : null;
  return h("div", { class: "title" }, trail, h("h1", {}, title), about, h("span", { class: "grow" }), actions);
}

const SPAN_KEY = "forebay.span";

/** The time that charts show, the same in all views. @param {import("../router.js").Life} life */
export function chooseSpan(life) {
  const element = h("select", { "aria-label": "Time that charts show" }, [...SPANS].map(([seconds, name]) => h("option", { value: seconds }, name)));
  const wanted = Number(localStorage.getItem(SPAN_KEY));
  element.value = String(SPANS.has(wanted) ? wanted : 600);
  element.addEventListener("change", () => {
    localStorage.setItem(SPAN_KEY, element.value);
    void life.refresh();
  });
  return { element, seconds: () => Number(element.value) };
}

/** @param {string} title @param {any} body @param {any[]} [actions] @param {boolean} [padded] */
export function panel(title, body, actions = [], padded = false) {
  return h(
    "section",
    { class: "panel", "aria-label": title },
    h("header", {}, h("h2", {}, title), actions),
    padded ? h("div", { class: "body" }, body) : body,
  );
}

/** @param {string} text @param {() => unknown} onclick @param {string} [kind] */
export function button(text, onclick, kind = "") {
  return h("button", { type: "button", class: kind || null, onclick: () => void onclick() }, text);
}

/** Names and values; what is not there is left out. @param {[string, any][]} pairs */
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return h("dl", { class: "facts" }, shown.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));
}

/** An object of arguments as facts. @param {Record<string, unknown>} table @param {string} none */
export function table(table, none) {
  const entries = Object.entries(table ?? {});
  if (!entries.length) return h("span", { class: "muted" }, none);
  return facts(entries.map(([name, value]) => [name, h("code", {}, plain(value))]));
}

// While the pointer is down nothing is filled anew: the button under it would be gone before the click.
let pressed = false;
window.addEventListener("pointerdown", () => (pressed = true), true);
for (const end of ["pointerup", "pointercancel"]) window.addEventListener(end, () => setTimeout(() => (pressed = false)), true);

/** A place that is filled again and again, but only when it says something else. */
export class Slot {
  /** @param {string} [tag] @param {Record<string, any>} [attributes] */
  constructor(tag = "div", attributes = {}) {
    this.element = h(tag, attributes);
    this.said = "";
  }

  /** @param {unknown} what what it shows, to tell changes by @param {() => any} make */
  show(what, make) {
    const said = JSON.stringify(what);
    if (said === this.said || pressed) return;
    this.said = said;
    const buttons = () => [...this.element.querySelectorAll("a, button")];
    const at = buttons().indexOf(/** @type {any} */ (document.activeElement));
    put(this.element, nodes([make()]));
    if (at >= 0) /** @type {HTMLElement | undefined} */ (buttons()[at])?.focus();
  }
}

/** A queue's link. @param {string} vhost @param {string} name */
export function queueLink(vhost, name) {
  return h("a", { href: link("queues", vhost, name) }, name);
}

/** @param {string} vhost @param {string} name */
export function exchangeLink(vhost, name) {
  return h("a", { href: link("exchanges", vhost, name) }, name || "(default)");
}

/** @param {string} vhost @param {string} kind @param {string} name */
export function destinationLink(vhost, kind, name) {
  return kind === "queue" ? queueLink(vhost, name) : exchangeLink(vhost, name);
}

/** The column that says the vhost, where there are several. @returns {import("../table.js").Column[]} */
export function vhostColumn() {
  return seenVhosts().length > 1 ? [{ title: "Vhost", sort: "vhost", cell: (row) => row.vhost }] : [];
}

/** The field of a form that says where. @param {string} value @returns {import("../dialog.js").Field} */
export function vhostField(value) {
  return { name: "vhost", label: "Virtual host", type: "select", options: vhosts(), value };
}

/**
 * What an operation lists in each vhost that is looked at, with that vhost.
 * @param {(vhost: string) => Promise<any[]>} list
 */
export async function inVhosts(list) {
  const found = await Promise.all(seenVhosts().map(async (vhost) => (await list(vhost)).map((each) => ({ ...each, vhost }))));
  return found.flat();
}

/** Names of queues to suggest. @param {string} vhost @returns {Promise<string[]>} */
export async function queueNames(vhost) {
  const found = await get(path`/api/queues/${vhost}`, { query: { columns: "name", disable_stats: true } });
  return found.map((/** @type {any} */ each) => each.name).sort();
}

/** @param {string} vhost @returns {Promise<string[]>} */
export async function exchangeNames(vhost) {
  const found = await get(path`/api/exchanges/${vhost}`, { query: { columns: "name" } });
  return found.map((/** @type {any} */ each) => each.name).filter(Boolean).sort();
}

/** How a queue is. @param {any} queue */
export function queueState(queue) {
  const word = queue.state ?? "running";
  if (word === "running" && queue.type !== "stream" && queue.messages_ready > 0 && queue.consumers === 0) return state("warn", "no consumers");
  if (queue.idle_since && word === "running") return state("idle", "idle");
  const kind = { running: "ok", idle: "idle", flow: "warn" }[/** @type {string} */ (word)] ?? "bad";
  return state(/** @type {any} */ (kind), word);
}

/** How a connection or channel is. @param {any} row */
export function connectionState(row) {
  const word = row.state ?? "running";
  const kind = { running: "ok", idle: "idle", blocked: "bad", blocking: "warn", flow: "warn" }[/** @type {string} */ (word)] ?? "warn";
  return state(/** @type {any} */ (kind), word);
}
