/** Dead letters: where they are, why they died, and the way back. */
import { get, items, operation, path, through } from "../api.js";
import { askForm, confirmName } from "../dialog.js";
import { h, put } from "../dom.js";
import { ago, count, moment, several } from "../format.js";
import { link } from "../router.js";
import { isAdministrator, mayHandle } from "../session.js";
import { Table, localSource, plainTable } from "../table.js";
import { tellSum, toast } from "../toast.js";
import { fateOf } from "./explain.js";
import { messageView } from "./messages.js";
import { button, heading, inVhosts, panel, queueLink, queueNames, Slot, vhostColumn } from "./parts.js";

const POLL_MS = 5000;
const PAGE = 50;
const BODY_OCTETS = 65_536;

/** @type {import("../app.js").Show} */
export async function showDeadLetters(main, life) {
  const table = new Table({
    label: "Dead-letter queues",
    columns: [
      { title: "Queue", sort: "queue", lead: true, wrap: true, cell: (row) => [h("a", { href: link("dead-letters", row.vhost, row.queue) }, row.queue)] },
      ...vhostColumn(),
      { title: "Messages", sort: "messages", num: true, cell: (row) => count(row.messages) },
      { title: "Causes", wrap: true, cell: (row) => tally(row.causes, row) },
      { title: "Died in", wrap: true, cell: (row) => tally(row.origins, row) },
      { title: "Oldest", sort: "oldest_ms", cell: (row) => (row.oldest_ms ? ago(row.oldest_ms) : "–") },
      { title: "Newest", sort: "newest_ms", cell: (row) => (row.newest_ms ? ago(row.newest_ms) : "–") },
    ],
    key: (row) => `${row.vhost} ${row.queue}`,
    source: localSource((signal) => inVhosts((vhost) => items("dlq.list", { vhost }, signal))),
    signal: life.signal,
    sort: { key: "messages", reverse: true },
    empty: "No queue has a dead-letter exchange. Set one by a policy with dead-letter-exchange.",
  });
  put(main, heading("Dead letters"), h("section", { class: "panel", "aria-label": "Dead-letter queues" }, table.element));
  await life.every(POLL_MS, () => table.refresh());
}

/**
 * Counts by name, the highest first; with a plus where not all messages were looked at.
 * @param {Record<string, number>} counts @param {any} row
 */
function tally(counts, row) {
  const more = row.complete === false ? "+" : "";
  const entries = Object.entries(counts ?? {}).sort((one, other) => other[1] - one[1]);
  const said = entries.map(([name, number]) => `${name} ${count(number)}${more}`).join(", ") || "–";
  return more ? `${said} (of the oldest ${count(row.counted)})` : said;
}

/** @type {import("../app.js").Show} */
export async function showLetters(main, life, [vhost, queue]) {
  const chosen = new Set();
  const where = h("input", { type: "search", "aria-label": "Filter dead letters", placeholder: "Filter: death_queue = 'orders' AND death_reason = 'rejected'", spellcheck: "false", "data-filter": "" });
  where.style.flex = "1 1 260px";
  const list = h("div", { class: "messages" });
  const note = h("div", { class: "wrong", role: "alert" });
  const more = h("div", { class: "pager", hidden: true });
  const summary = new Slot();
  const bar = h("span", { class: "row" });

  const drawBar = () =>
    put(bar, chosen.size ? [h("span", { class: "muted small" }, `${count(chosen.size)} chosen`), button("Redrive chosen", () => redrive({ offsets: [...chosen] }, several(chosen.size, "chosen message")))] : []);

  /** @param {Record<string, unknown>} which @param {string} what */
  const redrive = (which, what) => askRedrive(vhost, queue, which, what, again);

  let asked = 0;
  /** @param {number} offset @param {boolean} fresh */
  const look = async (offset, fresh) => {
    const number = (asked += 1);
    put(note);
    try {
      const query = { from: offset, where: where.value, limit: PAGE, body_octets_max: BODY_OCTETS };
      const answer = await get(path`/api/forebay/dead-letters/${vhost}/${queue}`, { query, signal: life.signal });
      if (number !== asked) return; // somebody asked for something else while this was on its way
      const views = answer.items.map((/** @type {any} */ each) => letterView(each));
      if (fresh) put(list, views.length || answer.next !== undefined ? views : h("div", { class: "empty" }, where.value ? "No dead letter matches." : "No dead letters."));
      else list.append(...views);
      more.hidden = answer.next === undefined || answer.next === null;
      put(more, `${several(list.querySelectorAll(".message").length, "message")} shown`, button("More", () => look(answer.next, false)));
    } catch (error) {
      if (!life.signal.aborted && number === asked) put(note, /** @type {Error} */ (error).message);
    }
  };

  /** @param {any} letter */
  const letterView = (letter) => {
    const box = h("input", { type: "checkbox", "aria-label": `Choose #${letter.offset}`, checked: chosen.has(letter.offset) });
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(letter.offset);
      else chosen.delete(letter.offset);
      drawBar();
    });
    const fate = () => fateOf(vhost, queue, letter.offset);
    if (!isAdministrator()) return messageView(letter, { fate });
    const actions = [
      button("Redrive", () => redrive({ offsets: [letter.offset] }, `#${letter.offset}`)),
      typeof letter.body === "string" && !letter.is_cut ? button("Edit", () => askEdit(vhost, queue, letter, again)) : null,
    ];
    return messageView(letter, { chosen: box, actions, fate });
  };

  const again = async () => {
    chosen.clear();
    drawBar();
    await Promise.all([look(0, true), life.refresh()]);
  };
  const form = h("form", { class: "bar", onsubmit: (/** @type {Event} */ event) => (event.preventDefault(), void look(0, true)) }, where, h("button", { type: "submit" }, "Search"), bar, note);
  const actions = [
    !isAdministrator() ? null : button("Redrive all", () => redrive({ where: where.value }, where.value ? "the dead letters that match" : "all"), "primary"),
    !mayHandle(vhost, queue) ? null : button("Discard", () => askDiscard(vhost, queue, where.value, again), "danger"),
  ];
  put(
    main,
    heading(queue, { crumbs: [["Dead letters", "#/dead-letters"], [`vhost ${vhost}`, "#/dead-letters"]], actions, about: queueLink(vhost, queue) }),
    summary.element,
    panel("Dead letters", [form, list, more]),
  );
  void look(0, true);
  await life.every(POLL_MS, async () => {
    const found = (await items("dlq.list", { vhost }, life.signal)).find((each) => each.queue === queue);
    summary.show(found, () => (found ? panel("At a glance", summaryTable(found)) : null));
  });
}

/** @param {any} found */
function summaryTable(found) {
  /** @type {import("../table.js").Column[]} */
  const columns = [
    { title: "Messages", num: true, cell: (row) => count(row.messages) },
    { title: "Held", num: true, cell: (row) => count(row.held) },
    { title: "Causes", wrap: true, cell: (row) => tally(row.causes, row) },
    { title: "Died in", wrap: true, cell: (row) => tally(row.origins, row) },
    { title: "Oldest", cell: (row) => moment(row.oldest_ms) },
    { title: "Newest", cell: (row) => moment(row.newest_ms) },
  ];
  return plainTable("At a glance", columns, [found], "");
}

/** @param {string} vhost @param {string} queue @param {Record<string, unknown>} which @param {string} what @param {() => Promise<void>} done */
async function askRedrive(vhost, queue, which, what, done) {
  const names = (await queueNames(vhost)).filter((each) => each !== queue);
  const form = {
    title: `Redrive ${what}?`,
    about: "Each goes back, once, to the queue where it first died.",
    submit: "Redrive",
    fields: [{ name: "to", label: "Or to this queue", list: names }],
  };
  return askForm(form, async ({ to }) => {
    tellSum(await through("POST", path`/api/forebay/dead-letters/${vhost}/${queue}/redrive`, { to, ...which }), "sent back");
    await done();
  });
}

/** @param {string} vhost @param {string} queue @param {string} where @param {() => Promise<void>} done */
function askDiscard(vhost, queue, where, done) {
  const about = where ? `Deletes the dead letters that match ${where}.` : "Deletes all dead letters of this queue.";
  return confirmName({ title: "Discard dead letters?", about, name: queue, submit: "Discard" }, async () => {
    tellSum(await through("DELETE", path`/api/forebay/queues/${vhost}/${queue}/messages`, { where }), "discarded");
    await done();
  });
}

/** @param {string} vhost @param {string} queue @param {any} letter @param {() => Promise<void>} done */
function askEdit(vhost, queue, letter, done) {
  const form = {
    title: `Edit #${letter.offset}`,
    about: "The changed message replaces it, at the end of this queue.",
    submit: "Save",
    wide: true,
    fields: [
      { name: "routing_key", label: "Routing key", value: letter.routing_key },
      { name: "body", label: "Body", type: /** @type {const} */ ("area"), value: letter.body },
      { name: "headers", label: "Headers to set", type: /** @type {const} */ ("json"), hint: 'JSON, say {"retried-by": "ann"}; null takes one away' },
    ],
  };
  return askForm(form, async (values) => {
    await operation("dlq.edit", { vhost, queue, offset: letter.offset, ...values });
    toast(`#${letter.offset} is changed`);
    await done();
  });
}
