/** Traces: what happens to the messages of some queues, written down from now on. */
import { items, operation } from "../api.js";
import { askForm, confirm } from "../dialog.js";
import { h, put } from "../dom.js";
import { clock, count, plain, state } from "../format.js";
import { go, link } from "../router.js";
import { someVhost } from "../session.js";
import { Table, localSource } from "../table.js";
import { toast } from "../toast.js";
import { button, heading, inVhosts, queueLink, vhostColumn, vhostField } from "./parts.js";

const POLL_MS = 3000;
const EVENTS_MAX = 1000; // kept of a trace that is started here
const KINDS = { published: "ok", delivered: "ok", acked: "idle", returned: "warn", rejected: "warn", died: "bad" };

/** @type {import("../app.js").Show} */
export async function showTraces(main, life) {
  /** @type {Table} */
  const table = new Table({
    label: "Traces",
    columns: [
      { title: "Name", sort: "name", lead: true, wrap: true, cell: (row) => [h("a", { href: link("traces", row.vhost, row.name) }, row.name)] },
      ...vhostColumn(),
      { title: "Queues", sort: "pattern", wrap: true, cell: (row) => [h("code", {}, row.pattern)] },
      { title: "Only", wrap: true, cell: (row) => [h("code", {}, plain(row.where))] },
      { title: "Seen", sort: "seen", num: true, cell: (row) => count(row.seen) },
      { title: "Kept", sort: "events", num: true, cell: (row) => `${count(row.events)} of ${count(row.events_max)}` },
      { title: "", cell: (row) => button("Stop", () => askStop(row, () => table.reload())) },
    ],
    key: (row) => `${row.vhost} ${row.name}`,
    source: localSource((signal) => inVhosts((vhost) => items("trace.list", { vhost }, signal))),
    signal: life.signal,
    sort: { key: "name", reverse: false },
    empty: "No traces.",
  });
  put(main, heading("Traces", { actions: [button("New trace", askStart, "primary")] }), h("section", { class: "panel", "aria-label": "Traces" }, table.element));
  await life.every(POLL_MS, () => table.refresh());
}

function askStart() {
  const form = {
    title: "New trace",
    about: `Records the events of messages in memory: the latest ${count(EVENTS_MAX)} events.`,
    submit: "Start",
    fields: [
      vhostField(someVhost()),
      { name: "name", label: "Name", value: "trace", required: true },
      { name: "pattern", label: "Queues", value: ".*", required: true, hint: "A regular expression that matches anywhere in a queue's name" },
      { name: "where", label: "Only messages that match", placeholder: "header.region = 'eu'", hint: "A filter; empty for all" },
    ],
  };
  return askForm(form, async ({ vhost, name, ...rest }) => {
    await operation("trace.start", { vhost, name, events_max: EVENTS_MAX, ...rest });
    go(link("traces", vhost, name));
  });
}

/** @param {any} row @param {() => unknown} done */
function askStop(row, done) {
  return confirm({ title: `Stop ${row.name}?`, about: "Its events are deleted, too.", submit: "Stop" }, async () => {
    await operation("trace.stop", { vhost: row.vhost, name: row.name });
    toast(`${row.name} is stopped`);
    await done();
  });
}

/** @type {import("../app.js").Show} */
export async function showTrace(main, life, [vhost, name]) {
  const table = new Table({
    label: "Events",
    columns: [
      { title: "When", lead: true, cell: (row) => `${clock(row.time_ms)}.${String(row.time_ms % 1000).padStart(3, "0")}` },
      { title: "What", cell: (row) => [state(/** @type {any} */ (KINDS)[row.type] ?? "idle", row.type)] },
      { title: "Queue", wrap: true, cell: (row) => [queueLink(vhost, row.queue)] },
      { title: "Offset", num: true, cell: (row) => `#${row.offset}` },
      { title: "Message", wrap: true, cell: (row) => plain(row.message_id) },
      { title: "By", wrap: true, cell: (row) => (row.connection ? `connection ${row.connection}, ${row.consumer ?? `channel ${row.channel}`}` : plain(row.detail)) },
    ],
    key: (row) => row.key,
    // The latest first: that is what somebody waits for.
    source: localSource(async (signal) => (await items("trace.show", { vhost, name }, signal)).map(keyed).reverse()),
    signal: life.signal,
    empty: "No events yet.",
  });
  const stop = button("Stop", () => askStop({ vhost, name }, () => go("#/traces")), "danger");
  put(main, heading(name, { crumbs: [["Traces", "#/traces"], [`vhost ${vhost}`, "#/traces"]], actions: [stop] }), h("section", { class: "panel", "aria-label": "Events" }, table.element));
  await life.every(POLL_MS, () => table.refresh());
}

/** @param {any} event */
const keyed = (event) => ({ ...event, key: [event.time_ms, event.type, event.queue, event.group, event.offset].join(" ") });
