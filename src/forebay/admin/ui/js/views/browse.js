/** Looks at messages where they are: nothing is handed out, and nobody waits for it. */
import { get, operation, path } from "../api.js";
import { h, put } from "../dom.js";
import { moment, several } from "../format.js";
import { complain } from "../toast.js";
import { askExplain, explainView, historyView } from "./explain.js";
import { messageView } from "./messages.js";
import { button, panel } from "./parts.js";

const PAGE = 50;
const BODY_OCTETS = 65_536;

/**
 * The part of a view that shows a queue's messages.
 * @param {string} vhost @param {string} queue @param {boolean} stream @param {any} life
 */
export function browser(vhost, queue, stream, life) {
  const where = h("input", { type: "search", "aria-label": "Filter messages", placeholder: "Filter: /total > 100 AND header.region = 'eu'", spellcheck: "false" });
  where.style.flex = "1 1 240px";
  const from = h("input", { type: "text", "aria-label": stream ? "From offset or time" : "From offset", placeholder: stream ? "From offset or 2026-01-31 12:00" : "From offset", size: 18 });
  const list = h("div", { class: "messages" });
  const note = h("div", { class: "wrong", role: "alert" });
  const more = h("div", { class: "pager", hidden: true });

  /** @param {{from?: number, time_ms?: number}} at @param {boolean} fresh */
  const look = async (at, fresh) => {
    put(note);
    try {
      const query = { ...at, where: where.value, limit: PAGE, body_octets_max: BODY_OCTETS };
      const answer = await get(path`/api/forebay/queues/${vhost}/${queue}/messages`, { query, signal: life.signal });
      const views = answer.items.map((/** @type {any} */ each) => messageView(each, { actions: messageActions(vhost, queue, each) }));
      if (fresh) put(list, views.length || answer.next !== undefined ? views : h("div", { class: "empty" }, where.value ? "No message for which this holds." : "No messages."));
      else list.append(...views);
      more.hidden = answer.next === undefined || answer.next === null;
      put(more, `${several(list.querySelectorAll(".message").length, "message")} shown`, button("More", () => look({ from: answer.next }, false)));
    } catch (error) {
      if (!life.signal.aborted) put(note, /** @type {Error} */ (error).message);
    }
  };
  const begin = async () => {
    try {
      await look(startOf(from.value.trim()), true);
    } catch (error) {
      put(note, /** @type {Error} */ (error).message);
    }
  };
  const form = h("form", { class: "bar", onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), void begin()) }, where, from, h("button", { type: "submit" }, "Search"), note);
  void begin();
  return panel("Messages", [form, list, more], [explainButton(vhost, queue)]);
}

/** @param {string} text an offset or a time */
function startOf(text) {
  if (text === "") return { from: 0 };
  if (/^\d+$/.test(text)) return { from: Number(text) };
  const ms = new Date(text.replace(" ", "T")).getTime();
  if (Number.isNaN(ms)) throw new Error(`${text} is neither an offset nor a time such as ${moment(Date.now()).slice(0, 16)}`);
  return { time_ms: ms };
}

/** @param {string} vhost @param {string} queue @param {any} message */
function messageActions(vhost, queue, message) {
  const answer = h("div", { "aria-live": "polite" });
  answer.style.flexBasis = "100%";
  const explain = async () => {
    try {
      put(answer, explainView(await operation("message.explain", { vhost, queue, offset: message.offset })));
    } catch (error) {
      complain(error);
    }
  };
  const history = async () => {
    try {
      put(answer, historyView(await operation("message.history", { vhost, queue, offset: message.offset })));
    } catch (error) {
      complain(error);
    }
  };
  return [button("Why is it still here?", explain), button("History", history), answer];
}

/** @param {string} vhost @param {string} queue */
function explainButton(vhost, queue) {
  return button("Explain a message", () => askExplain(vhost, queue));
}
