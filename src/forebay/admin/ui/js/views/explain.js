/** Why a message is where it is, in sentences. */
import { operation } from "../api.js";
import { makeField, open } from "../dialog.js";
import { h, put } from "../dom.js";
import { moment, plain } from "../format.js";
import { plainTable } from "../table.js";
import { facts } from "./parts.js";

/** @param {any} answer of `message.explain` */
export function explainView(answer) {
  const none = h("p", { class: "muted" }, answer.complete ? "No queue has the message." : "Not found among the newest messages.");
  return h("div", { class: "explained" }, answer.found.length ? answer.found.map(found) : none);
}

/** What is said of the message in one queue. @param {any} each */
function found(each) {
  return [
    h("p", {}, `In ${each.queue} at offset ${each.offset}: `, h("strong", {}, each.state.replaceAll("_", " "))),
    each.reasons.length ? h("ol", { class: "reasons" }, each.reasons.map(reason)) : h("p", {}, each.summary),
  ];
}

/** @param {any} each */
function reason({ code, text, ...facts_ }) {
  const rest = Object.entries(facts_).filter(([, value]) => value !== null && value !== "");
  return h(
    "li",
    {},
    text,
    rest.length ? h("details", { class: "small" }, h("summary", {}, "Facts"), facts([["code", code], ...rest.map(([name, value]) => /** @type {[string, any]} */ ([name.replace(/_ms$/, "").replaceAll("_", " "), name.endsWith("_ms") ? moment(value) : plain(value)]))])) : null,
  );
}

/** What is known of what happened to a message. @param {any} answer of `message.history` */
export function historyView(answer) {
  /** @type {import("../table.js").Column[]} */
  const columns = [
    { title: "When", lead: true, cell: (row) => moment(row.time_ms) },
    { title: "What", cell: (row) => row.type },
    { title: "Facts", wrap: true, cell: ({ type, time_ms, source, ...rest }) => plain(rest) },
  ];
  return answer.found.map((/** @type {any} */ each) => [
    plainTable("History", columns, each.events, "No history."),
    each.not_kept?.length ? h("p", { class: "muted small" }, `Not kept: ${each.not_kept.join("; ")}.`) : null,
  ]);
}

/**
 * Why a message is where it is, and what happened to it: asked for at once.
 * @param {string} vhost @param {string} queue @param {number} offset
 */
export function fateOf(vhost, queue, offset) {
  /** @param {string} name of an operation @param {(answer: any) => any} view */
  const part = (name, view) => {
    const answer = h("div", { "aria-live": "polite", class: "muted" }, "…");
    const show = async () => {
      try {
        const said = view(await operation(name, { vhost, queue, offset }));
        answer.classList.remove("muted");
        put(answer, said);
      } catch (error) {
        put(answer, /** @type {Error} */ (error).message);
      }
    };
    void show();
    return answer;
  };
  return h(
    "div",
    { class: "columns fate" },
    h("section", {}, h("h3", {}, "Why it is here"), part("message.explain", explainView)),
    h("section", {}, h("h3", {}, "History"), part("message.history", historyView)),
  );
}

/** Asks for a message by its offset or its id. @param {string} vhost @param {string} queue */
export function askExplain(vhost, queue) {
  const which = makeField({ name: "which", label: "Offset or message id", required: true });
  const answer = h("div", { "aria-live": "polite" });
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    which.complain("");
    try {
      const text = String(which.read()).replace(/^#/, "");
      const by = /^\d+$/.test(text) ? { offset: Number(text) } : { message_id: text };
      put(answer, explainView(await operation("message.explain", { vhost, queue, ...by })));
    } catch (error) {
      which.complain(/** @type {Error} */ (error).message);
    }
  };
  const form = h(
    "form",
    { novalidate: true, onsubmit: submit },
    h("header", {}, h("h2", {}, "Explain a message")),
    h("div", { class: "body" }, which.element, answer),
    h("footer", {}, h("button", { type: "button", onclick: () => dialog.close() }, "Close"), h("button", { type: "submit", class: "primary" }, "Explain")),
  );
  const dialog = open(form, "Explain a message", () => {}, true);
  which.input.focus();
}
