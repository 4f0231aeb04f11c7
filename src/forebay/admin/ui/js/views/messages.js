/** Messages as they are shown: facts, headers, and a body as text, JSON or octets. */
import { h, nodes } from "../dom.js";
import { moment, octets, several } from "../format.js";
import { button, facts, table } from "./parts.js";

const PREVIEW_CHARACTERS = 160;
const HEADERS_MAX = 12; // shown without scrolling
const HEX_COLUMNS = 16;
const HEX_OCTETS_MAX = 8192;

/**
 * A message that opens to all that is known of it.
 * @param {any} message as `queue.messages` shows it
 * @param {{chosen?: any, actions?: any[], fate?: () => any}} [options] a box to choose it by; buttons for it; what else is known, asked for when it is opened
 */
export function messageView(message, { chosen = null, actions = [], fate = () => null } = {}) {
  const body = bodyOf(message);
  const size = several(body.octets.length, "octet");
  const preview = !body.octets.length ? "empty" : isReadable(body) ? body.text?.slice(0, PREVIEW_CHARACTERS) : size;
  const inside = h("div", { class: "inside" });
  const element = h(
    "details",
    { class: "message", "data-offset": message.offset },
    h(
      "summary",
      {},
      message.offset === undefined ? null : h("span", { class: "offset" }, `#${message.offset}`),
      h("span", {}, message.routing_key || message.topic || "–"),
      message.deliveries > 0 ? h("span", { class: "tag" }, several(message.deliveries, "delivery", "deliveries")) : null,
      message.death?.death_reason ? h("span", { class: "tag" }, `died: ${message.death.death_reason}`) : null,
      h("span", { class: "preview" }, preview),
      h("span", { class: "muted small" }, moment(message.stored_ms)),
    ),
    inside,
  );
  // Made when it is opened: a page of a hundred messages is long.
  element.addEventListener("toggle", () => {
    if (element.open && !inside.firstChild) inside.append(...nodes([messageInside(message, body), fate(), h("div", { class: "row" }, actions)]));
  });
  return chosen ? h("div", { class: "picked" }, chosen, element) : element;
}

/** @param {any} message @param {{text: string | null, octets: Uint8Array}} body */
function messageInside(message, body) {
  return [
    h(
      "div",
      { class: "columns" },
      facts([
        ["Exchange", message.exchange === undefined ? null : message.exchange || "(default)"],
        ["Routing key", message.routing_key],
        ["Topic", message.topic],
        ["QoS", message.qos],
        ["Protocol", message.protocol],
        ["Stored", moment(message.stored_ms)],
        ["Size", octets(message.octets ?? body.octets.length)],
        ["Deliveries", message.deliveries],
        ["Failures", message.failures],
        ...named(message.death),
      ]),
      h(
        "div",
        {},
        h("h3", {}, "Properties"),
        table(message.properties, "none"),
        h("h3", {}, "Headers"),
        headers(message.headers),
      ),
    ),
    bodyView(body, message.is_cut),
  ];
}

/** Headers; many of them scroll, so that the body is not far below. @param {Record<string, unknown>} headers */
function headers(headers) {
  const many = Object.keys(headers ?? {}).length > HEADERS_MAX;
  const shown = table(headers, "none");
  return many ? h("div", { class: "many", tabindex: "0", role: "region", "aria-label": "Headers" }, shown) : shown;
}

/** @param {Record<string, unknown> | undefined} death @returns {[string, any][]} */
function named(death) {
  return Object.entries(death ?? {}).map(([name, value]) => {
    const shown = name.endsWith("_ms") ? moment(Number(value)) : String(value);
    return [`Death: ${name.replace(/^death_/, "").replace(/_ms$/, "").replaceAll("_", " ")}`, shown];
  });
}

/** @param {any} message @returns {{text: string | null, octets: Uint8Array}} */
export function bodyOf(message) {
  if (typeof message.body === "string") return { text: message.body, octets: new TextEncoder().encode(message.body) };
  const raw = atob(message.body_base64 ?? "");
  return { text: null, octets: Uint8Array.from(raw, (character) => character.charCodeAt(0)) };
}

/** Whether it is text that shows what is in it: no control characters but tabs and ends of lines. @param {{text: string | null}} body */
function isReadable(body) {
  return body.text !== null && !/[\x00-\x08\x0b\x0e-\x1f\x7f]/.test(body.text);
}

/** The body in the forms that fit it. @param {{text: string | null, octets: Uint8Array}} body @param {boolean} cut */
export function bodyView(body, cut) {
  if (!body.octets.length) return h("div", {}, h("h3", {}, "Body"), h("span", { class: "muted" }, "empty"));
  const pretty = body.text === null ? null : prettyJson(body.text);
  /** @type {[string, () => any][]} */
  const forms = [];
  if (pretty !== null) forms.push(["JSON", () => h("pre", { tabindex: "0" }, pretty)]);
  if (body.text !== null) forms.push(["Text", () => h("pre", { tabindex: "0" }, body.text)]);
  forms.push(["Hex", () => h("pre", { class: "hex", tabindex: "0" }, hexDump(body.octets))]);
  if (!isReadable(body)) forms.reverse(); // as hex at first
  const shown = h("div");
  const buttons = forms.map(([name, make], at) => {
    const choose = () => {
      buttons.forEach((each, index) => each.setAttribute("aria-pressed", String(index === at)));
      shown.replaceChildren(make());
    };
    return button(name, choose);
  });
  buttons[0].click();
  const note = cut ? h("span", { class: "muted small" }, "Only the beginning is shown.") : null;
  return h("div", {}, h("div", { class: "row" }, h("h3", {}, "Body"), buttons, note), shown);
}

/** @param {string} text */
function prettyJson(text) {
  if (!/^\s*[[{]/.test(text)) return null;
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return null;
  }
}

/** Octets as numbers and letters, sixteen a line. @param {Uint8Array} all */
export function hexDump(all) {
  const lines = [];
  for (let at = 0; at < Math.min(all.length, HEX_OCTETS_MAX); at += HEX_COLUMNS) {
    const line = [...all.subarray(at, at + HEX_COLUMNS)];
    const numbers = line.map((octet) => octet.toString(16).padStart(2, "0")).join(" ");
    const letters = line.map((octet) => (octet >= 32 && octet < 127 ? String.fromCharCode(octet) : ".")).join("");
    lines.push(`${at.toString(16).padStart(6, "0")}  ${numbers.padEnd(HEX_COLUMNS * 3 - 1)}  ${letters}`);
  }
  return lines.join("\n") || "no octets";
}
