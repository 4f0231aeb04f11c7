/** Messages as they come: a sample of them, for a while. */
import { ApiError, get, path } from "../api.js";
import { h, put } from "../dom.js";
import { clock, several } from "../format.js";
import { Life } from "../router.js";
import { chosenVhost, someVhost, vhosts } from "../session.js";
import { messageView } from "./messages.js";
import { button, heading, panel } from "./parts.js";

const RUN_MS = 300_000; // then it stops by itself
const KEPT = 100; // shown at one time
const SHOWN_MAX = 2000; // then it stops by itself
const STEP_MS = 1000;
const STEP_MESSAGES = 20; // shown of those of a step
const BODY_OCTETS = 16_384;
const TOPIC = "forebay.topic";

/** @typedef {(tell: (items: any[], skipped: boolean | number) => void, life: Life) => Promise<void>} Listen tells what came, and whether or how much did that is not shown */

/** A list that fills from above until it is stopped, or stops. */
export class Tail {
  /** @param {Life} life of the view */
  constructor(life) {
    this.life = life;
    this.own = new Life();
    this.own.end();
    this.said = h("span", { role: "status" });
    this.stop = button("Stop", () => this.finish("Stopped."));
    this.list = h("div", { class: "messages" });
    this.element = h("div", { hidden: true }, h("div", { class: "bar" }, this.said, h("span", { class: "grow" }), this.stop), this.list);
    life.signal.addEventListener("abort", () => this.own.end());
    document.addEventListener("visibilitychange", () => document.hidden && this.finish("Stopped, since the tab was hidden."), { signal: life.signal });
  }

  /** @param {Listen} listen */
  async run(listen) {
    this.own.end();
    const own = (this.own = new Life());
    let [shown, skipped, some] = [0, 0, false];
    const until = Date.now() + RUN_MS;
    const tell = (/** @type {any[]} */ items, /** @type {boolean | number} */ more) => {
      if (own.signal.aborted) return;
      shown += items.length;
      if (typeof more === "number") skipped += more;
      else some ||= more;
      this.list.prepend(...items.map((each) => messageView(each)).reverse());
      while (this.list.children.length > KEPT) this.list.lastElementChild?.remove();
      const rest = skipped ? `, ${several(skipped, "more")} not shown`.replace("mores", "more") : some ? ", a sample of them" : "";
      put(this.said, `Live: ${several(shown, "message")}${rest}. It stops at ${clock(until)}.`);
      if (shown >= SHOWN_MAX) this.finish(`Stopped after ${several(shown, "message")}.`);
    };
    put(this.list);
    this.element.hidden = false;
    this.stop.hidden = false;
    tell([], 0);
    const timer = setTimeout(() => this.finish(`Stopped after ${RUN_MS / 60_000} minutes.`), RUN_MS);
    try {
      while (!own.signal.aborted) await listen(tell, own);
    } catch (error) {
      if (!own.signal.aborted) this.finish(/** @type {Error} */ (error).message);
    } finally {
      clearTimeout(timer);
    }
  }

  /** @param {string} why */
  finish(why) {
    if (this.own.signal.aborted) return;
    this.own.end();
    this.stop.hidden = true;
    put(this.said, why);
  }

  close() {
    this.own.end();
    this.element.hidden = true;
  }
}

/** What comes to a queue; the newest of each second. @param {string} vhost @param {string} queue @returns {Listen} */
export function fromQueue(vhost, queue) {
  /** @type {number | undefined} */
  let from;
  return async (tell, life) => {
    const query = { from, limit: STEP_MESSAGES, body_octets_max: BODY_OCTETS };
    const answer = await get(path`/api/forebay/queues/${vhost}/${queue}/tail`, { query, signal: life.signal });
    from = answer.next;
    tell(answer.items, answer.skipped);
    await life.pause(STEP_MS);
  };
}

/** What is published on topics: subscribed until a second has brought enough, and again in the next. @param {string} vhost @param {string} filter @returns {Listen} */
export function fromTopics(vhost, filter) {
  return async (tell, life) => {
    const controller = new AbortController();
    const end = () => controller.abort();
    life.signal.addEventListener("abort", end);
    try {
      const events = await subscribed(vhost, filter, controller.signal);
      for (let begun = 0, seen = 0; ; ) {
        const found = await events();
        if (found === null) break;
        if (Date.now() - begun > STEP_MS) [begun, seen] = [Date.now(), 0];
        tell(found.slice(0, STEP_MESSAGES - seen), found.length > STEP_MESSAGES - seen);
        seen += found.length;
        if (seen >= STEP_MESSAGES) break;
      }
    } finally {
      life.signal.removeEventListener("abort", end);
      end();
    }
    await life.pause(STEP_MS);
  };
}

/** A subscription: each call waits for messages; null at its end. @param {string} vhost @param {string} filter @param {AbortSignal} signal */
async function subscribed(vhost, filter, signal) {
  const where = `/subscribe/${filter.split("/").map(encodeURIComponent).join("/")}?${new URLSearchParams({ vhost, retained: "false" })}`;
  const answer = await fetch(where, { signal, cache: "no-store", headers: { "X-Requested-With": "forebay" } });
  if (!answer.ok || !answer.body) throw new ApiError(answer.status, (await answer.json()).reason ?? "refused");
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  return async () => {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return null;
      const events = (rest + value).split("\n\n");
      rest = events.pop() ?? "";
      const found = events.filter((each) => !/^event:/m.test(each)).flatMap(messageOf);
      if (found.length) return found;
    }
  };
}

/** What `messageView` shows, of an event. @param {string} event */
function messageOf(event) {
  const data = /^data: (.*)$/m.exec(event)?.[1];
  if (!data) return [];
  const { payload, payload_base64, content_type, message_id, ...rest } = JSON.parse(data);
  const properties = Object.fromEntries(Object.entries({ content_type, message_id }).filter(([, value]) => value !== undefined));
  return [{ ...rest, body: payload, body_base64: payload_base64, properties, stored_ms: Date.now() }];
}

/** @type {import("../app.js").Show} */
export function showTail(main, life) {
  const tail = new Tail(life);
  const filter = h("input", { type: "text", "aria-label": "Topic filter", placeholder: "Topic filter, such as plant/+/temperature", spellcheck: "false", "data-filter": "", value: localStorage.getItem(TOPIC) ?? "" });
  const vhost = h("select", { "aria-label": "Vhost" }, vhosts().map((name) => h("option", { value: name }, name)));
  vhost.value = chosenVhost() || someVhost();
  const begin = (/** @type {Event} */ event) => {
    event.preventDefault();
    localStorage.setItem(TOPIC, filter.value);
    void tail.run(fromTopics(vhost.value, filter.value.trim() || "#"));
  };
  const form = h("form", { class: "bar", onsubmit: begin }, filter, vhosts().length > 1 ? vhost : null, h("button", { type: "submit", class: "primary" }, "Start"));
  const about = h("div", { class: "empty" }, `New messages on topics, at most ${STEP_MESSAGES} a second. No message is taken from anyone. A queue's view has a live tail of its own.`);
  put(main, heading("Live tail"), panel("Topics", [form, tail.element, about]));
}
