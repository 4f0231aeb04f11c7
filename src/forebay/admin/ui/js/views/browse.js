/** Looks at messages where they are: nothing is delivered, and nobody waits for it. */
import { get, path } from "../api.js";
import { h, put } from "../dom.js";
import { count, moment, several } from "../format.js";
import { askExplain, fateOf } from "./explain.js";
import { messageView } from "./messages.js";
import { button, panel } from "./parts.js";
import { Tail, fromQueue } from "./tail.js";

const PAGE = 50;
const BODY_OCTETS = 65_536;

/** The part of a view that shows a queue's messages. */
export class Browser {
  /** @param {string} vhost @param {string} queue @param {boolean} stream @param {any} life */
  constructor(vhost, queue, stream, life) {
    this.vhost = vhost;
    this.queue = queue;
    this.life = life;
    this.end = -1; // the offset that comes next, when the messages were asked for; -1: not known
    this.newest = -1; // and now
    this.asked = 0;
    this.where = h("input", { type: "search", "aria-label": "Filter messages", placeholder: "Filter: /total > 100 AND header.region = 'eu'", spellcheck: "false" });
    this.where.style.flex = "1 1 240px";
    this.from = h("input", { type: "text", "aria-label": stream ? "From offset or time" : "From offset", placeholder: stream ? "From offset or 2026-01-31 12:00" : "From offset", size: 18 });
    this.list = h("div", { class: "messages" });
    this.note = h("div", { class: "wrong", role: "alert" });
    this.more = h("div", { class: "pager", hidden: true });
    this.news = h("div", { class: "pager", role: "status", hidden: true });
    this.tail = new Tail(life);
    const live = button("Live tail", () => this.live());
    const form = h("form", { class: "bar", onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), void this.again()) }, this.where, this.from, h("button", { type: "submit" }, "Search"), this.note);
    this.element = panel("Messages", [form, this.tail.element, this.news, this.list, this.more], [live, button("Explain a message", () => askExplain(vhost, queue))]);
    void this.again();
  }

  /** Asks anew, from where the form says. */
  async again() {
    this.tail.close();
    this.end = this.newest;
    this.tellNews();
    try {
      await this.look(startOf(this.from.value.trim()), true);
    } catch (error) {
      put(this.note, /** @type {Error} */ (error).message);
    }
  }

  /** What comes from now on, instead of what is there. */
  live() {
    this.asked += 1;
    put(this.list);
    this.more.hidden = true;
    this.tellNews();
    void this.tail.run(fromQueue(this.vhost, this.queue));
  }

  /** @param {number | undefined} end the offset that the next message of the queue will have */
  seen(end) {
    if (end === undefined) return;
    this.newest = end;
    if (this.end < 0) this.end = end;
    if (end > this.end && this.list.querySelector(".empty")) void this.again();
    else this.tellNews();
  }

  tellNews() {
    const count_ = this.newest - this.end;
    this.news.hidden = count_ <= 0 || !this.tail.element.hidden;
    if (!this.news.hidden && this.news.dataset.count !== String(count_)) put(this.news, `${count(count_)} new`, button("Show", () => this.again()));
    this.news.dataset.count = String(count_);
  }

  /** @param {{from?: number, time_ms?: number}} at @param {boolean} fresh */
  async look(at, fresh) {
    const number = (this.asked += 1);
    put(this.note);
    const open = new Set([...this.list.querySelectorAll("details[open]")].map((each) => /** @type {HTMLElement} */ (each).dataset.offset));
    try {
      const query = { ...at, where: this.where.value, limit: PAGE, body_octets_max: BODY_OCTETS };
      const answer = await get(path`/api/forebay/queues/${this.vhost}/${this.queue}/messages`, { query, signal: this.life.signal });
      if (number !== this.asked) return; // somebody asked for something else while this was on its way
      const views = answer.items.map((/** @type {any} */ each) => messageView(each, { fate: () => fateOf(this.vhost, this.queue, each.offset) }));
      for (const view of views) if (open.has(view.dataset.offset)) view.open = true;
      if (fresh) put(this.list, views.length || answer.next !== undefined ? views : h("div", { class: "empty" }, this.where.value ? "No message matches." : "No messages."));
      else this.list.append(...views);
      this.more.hidden = answer.next === undefined || answer.next === null;
      put(this.more, `${several(this.list.querySelectorAll(".message").length, "message")} shown`, button("More", () => this.look({ from: answer.next }, false)));
    } catch (error) {
      if (!this.life.signal.aborted && number === this.asked) put(this.note, /** @type {Error} */ (error).message);
    }
  }
}

/** @param {string} text an offset or a time */
function startOf(text) {
  if (text === "") return { from: 0 };
  if (/^\d+$/.test(text)) return { from: Number(text) };
  const ms = new Date(text.replace(" ", "T")).getTime();
  if (Number.isNaN(ms)) throw new Error(`${text} is neither an offset nor a time such as ${moment(Date.now()).slice(0, 16)}`);
  return { time_ms: ms };
}
