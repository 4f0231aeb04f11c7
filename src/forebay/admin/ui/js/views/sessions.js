/** MQTT sessions: who is there, what waits for whom. */
import { items, operation } from "../api.js";
import { confirm, confirmName } from "../dialog.js";
import { h, put } from "../dom.js";
import { ago, count, duration, moment, octets, plain, state, several, yes } from "../format.js";
import { go, link } from "../router.js";
import { isAdministrator } from "../session.js";
import { Table, localSource, plainTable } from "../table.js";
import { toast } from "../toast.js";
import { messageView } from "./messages.js";
import { button, facts, heading, inVhosts, panel, Slot, vhostColumn } from "./parts.js";

const POLL_MS = 5000;
const MESSAGES = 100;

/** @type {import("../app.js").Show} */
export async function showSessions(main, life) {
  /** @type {Table} */
  const table = new Table({
    label: "MQTT sessions",
    columns: [
      { title: "Client", sort: "client_id", lead: true, wrap: true, cell: (row) => [h("a", { href: link("sessions", row.vhost, row.client_id) }, row.client_id)] },
      ...vhostColumn(),
      { title: "State", sort: "connected", cell: stateOf },
      { title: "Kept", sort: "durable", cell: (row) => (row.durable ? (row.expiry_s === null ? "for ever" : duration(row.expiry_s * 1000)) : "while connected") },
      { title: "Subscriptions", sort: "subscriptions", num: true, cell: (row) => count(row.subscriptions) },
      { title: "Waiting", sort: "waiting", num: true, cell: (row) => count(row.waiting) },
      { title: "In flight", sort: "inflight", num: true, cell: (row) => count(row.inflight) },
      { title: "Dropped", sort: "dropped", num: true, cell: (row) => count(row.dropped) },
    ],
    key: (row) => `${row.vhost} ${row.client_id}`,
    source: localSource((signal) => inVhosts((vhost) => items("session.list", { vhost }, signal))),
    signal: life.signal,
    sort: { key: "client_id", reverse: false },
    empty: "No MQTT sessions.",
    actions: !isAdministrator() ? undefined : (rows) => {
      const connected = rows.filter((row) => row.connected);
      return [
        connected.length ? button("Close", () => askClose(connected, () => table.reload())) : null,
        button("Delete", () => askDelete(rows, () => table.reload()), "danger"),
      ];
    },
  });
  put(main, heading("MQTT sessions"), h("section", { class: "panel", "aria-label": "MQTT sessions" }, table.element));
  await life.every(POLL_MS, () => table.refresh());
}

/** @param {any} row */
function stateOf(row) {
  if (row.connected) return row.paused ? state("warn", "does not read") : state("ok", "connected");
  return state("idle", row.ended_ms ? `gone, ${ago(row.ended_ms)}` : "gone");
}

/** @param {any[]} rows @param {() => unknown} done */
function askClose(rows, done) {
  const about = "Their clients may reconnect; durable sessions remain.";
  return confirm({ title: `Close ${several(rows.length, "session")}?`, about, submit: "Close" }, async () => {
    for (const row of rows) await operation("session.close", { vhost: row.vhost, client_id: row.client_id });
    toast(`${several(rows.length, "session")} closed`);
    await done();
  });
}

/** @param {any[]} rows @param {() => unknown} done */
function askDelete(rows, done) {
  const name = rows.length === 1 ? rows[0].client_id : `delete ${rows.length}`;
  const about = "A session's subscriptions and waiting messages are deleted; its will is published.";
  return confirmName({ title: `Delete ${several(rows.length, "session")}?`, about, name, submit: "Delete" }, async () => {
    for (const row of rows) await operation("session.delete", { vhost: row.vhost, client_id: row.client_id });
    toast(`${several(rows.length, "session")} deleted`);
    await done();
  });
}

/** @type {import("../app.js").Show} */
export async function showSession(main, life, [vhost, client_id]) {
  const first = await operation("session.show", { vhost, client_id }, life.signal);
  const [about, slot, subscriptions, inflight] = [new Slot("span"), new Slot(), new Slot(), new Slot()];
  const list = h("div");
  const row = { ...first, vhost, client_id };
  const actions = !isAdministrator() ? [] : [
    first.connected ? button("Close", () => askClose([row], () => life.refresh())) : null,
    button("Delete", () => askDelete([row], () => go("#/sessions")), "danger"),
  ];
  put(
    main,
    heading(client_id, { crumbs: [["MQTT sessions", "#/sessions"], [`vhost ${vhost}`, "#/sessions"]], about: about.element, actions }),
    panel("Session", slot.element, [], true),
    panel("Subscriptions", subscriptions.element),
    panel("In flight", inflight.element),
    isAdministrator() ? panel("Waiting", list, [button("Reload", () => look())]) : null,
  );
  const look = async () => {
    const found = await operation("session.messages", { vhost, client_id, limit: MESSAGES, body_octets_max: 4096 }, life.signal);
    put(list, found.items.length ? found.items.map((/** @type {any} */ each) => messageView(each)) : h("div", { class: "empty" }, "No messages wait."));
  };
  if (isAdministrator()) void life.once(look);
  await life.every(POLL_MS, async () => {
    const session = await operation("session.show", { vhost, client_id }, life.signal);
    const listed = session.subscriptions_list;
    const flying = session.inflight_list;
    about.show([session.connected, session.paused], () => stateOf(session));
    slot.show(session, () => sessionFacts(session));
    subscriptions.show(listed, () => plainTable("Subscriptions", subscriptionColumns(), listed, "No subscriptions."));
    inflight.show(flying, () => plainTable("In flight", inflightColumns(), flying, "No messages in flight."));
  });
}

/** @param {any} session */
function sessionFacts(session) {
  const will = session.will;
  return facts([
    ["Connected", yes(session.connected)],
    ["Kept", session.durable ? (session.expiry_s === null ? "for ever" : `${duration(session.expiry_s * 1000)} after its connection`) : "while it is connected"],
    ["Gone since", session.ended_ms ? moment(session.ended_ms) : null],
    ["Waiting", count(session.waiting)],
    ["Dropped", count(session.dropped)],
    ["Does not read", session.paused ? "yes: nothing more is sent until it reads" : null],
    ["Will", will ? `${will.topic}, QoS ${will.qos}, ${octets(will.octets)}${will.due_ms ? `, published ${moment(will.due_ms)}` : ""}` : null],
  ]);
}

/** @returns {import("../table.js").Column[]} */
function subscriptionColumns() {
  return [
    { title: "Filter", lead: true, wrap: true, cell: (row) => row.filter },
    { title: "QoS", num: true, cell: (row) => row.qos },
    { title: "Identifier", num: true, cell: (row) => row.identifier ?? "–" },
    { title: "No local", cell: (row) => yes(row.no_local) },
    { title: "Arguments", wrap: true, cell: (row) => plain(row.arguments) },
  ];
}

/** @returns {import("../table.js").Column[]} */
function inflightColumns() {
  return [
    { title: "Packet", num: true, cell: (row) => row.packet_id },
    { title: "Awaits", cell: (row) => row.awaits },
    { title: "Topic", wrap: true, cell: (row) => row.topic ?? "–" },
    { title: "Stored", cell: (row) => moment(row.stored_ms) },
  ];
}
