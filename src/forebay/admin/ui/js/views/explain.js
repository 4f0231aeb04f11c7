/** Why a message is where it is, in sentences. */
import { operation } from "../api.js";
import { makeField, open } from "../dialog.js";
import { h, put } from "../dom.js";
import { plain } from "../format.js";
import { facts } from "./parts.js";

/** @param {any} answer of `message.explain` */
export function explainView(answer) {
  const reasons = answer.reasons ?? [];
  const summary = answer.summary ?? answer.sentence;
  return h(
    "div",
    { class: "explained" },
    summary ? h("p", {}, h("strong", {}, summary)) : null,
    reasons.length ? h("ol", { class: "reasons" }, reasons.map(reason)) : h("p", { class: "muted" }, "Nothing keeps it."),
  );
}

/** @param {any} each */
function reason(each) {
  const said = each.sentence ?? each.text ?? each.reason ?? plain(each);
  const rest = Object.entries(each.facts ?? {}).filter(([, value]) => value !== null && value !== "");
  return h(
    "li",
    {},
    said,
    rest.length ? h("details", { class: "small" }, h("summary", {}, "Facts"), facts(rest.map(([name, value]) => [name.replaceAll("_", " "), plain(value)]))) : null,
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
