/** The nodes of a cluster: who leads, who is in sync, how far each is behind. A broker that stands alone is one row. */
import { Unreachable, get, operation } from "../api.js";
import { confirm } from "../dialog.js";
import { h, put } from "../dom.js";
import { ago, count, duration, octets, plain, state } from "../format.js";
import { isAdministrator } from "../session.js";
import { Table, localSource } from "../table.js";
import { toast } from "../toast.js";
import { button, heading, Slot } from "./parts.js";

const POLL_MS = 2000;
const STORE_SHOWN = 8;

/** @type {import("../app.js").Show} */
export async function showNodes(main, life) {
  const banner = new Slot("div", { role: "status" });
  const about = h("span", { class: "muted" });
  /** @type {() => Promise<void>} */
  const changed = () => table.reload();
  const table = new Table({
    label: "Nodes",
    columns: [
      { title: "Node", sort: "member", lead: true, cell: (row) => row.member },
      { title: "Role", sort: "forebay.role", cell: roleOf },
      { title: "In sync", sort: "forebay.in_sync", wrap: true, cell: inSync },
      ...(isAdministrator() ? [{ title: "", cell: (/** @type {any} */ row) => actionsOf(row, changed) }] : []),
      { title: "Behind, frames", sort: "forebay.frames_behind", num: true, cell: (row) => known(row, "frames_behind", count) },
      { title: "Behind, ms", sort: "forebay.behind_ms", num: true, cell: (row) => known(row, "behind_ms", count) },
      { title: "Epoch", sort: "forebay.epoch", num: true, cell: (row) => known(row, "epoch", count) },
      { title: "Disk free", sort: "disk_free", num: true, cell: (row) => (row.disk_free === undefined ? "–" : octets(row.disk_free)) },
      { title: "Link", sort: "forebay.link.up", wrap: true, cell: linkOf },
      { title: "Store", cell: (row) => (row.forebay?.store ? h("code", { title: row.forebay.store }, row.forebay.store.slice(0, STORE_SHOWN)) : "–") },
      { title: "Since", sort: "forebay.since_ms", cell: (row) => known(row, "since_ms", ago) },
    ],
    key: (row) => row.name,
    source: localSource(async (signal) => {
      const found = await get("/api/nodes", { signal });
      const nodes = found.map((/** @type {any} */ each) => ({ ...each, member: each.name.replace(/^forebay@/, "") }));
      const said = troubleOf(nodes);
      banner.show(said, () => said.map(([kind, text]) => h("div", { class: `banner ${kind}` }, text)));
      put(about, nodes[0]?.forebay ? `${count(nodes.length)} members, epoch ${nodes[0].forebay.epoch}` : "a broker that stands alone");
      return nodes;
    }),
    signal: life.signal,
    sort: { key: "member", reverse: false },
    empty: "No nodes.",
  });
  put(main, heading("Nodes", { about }), banner.element, h("section", { class: "panel", "aria-label": "Nodes" }, table.element));
  await life.every(POLL_MS, () => table.refresh());
}

/** What is wrong with a cluster. @param {any[]} nodes @returns {[string, string][]} class of the banner, and text */
export function troubleOf(nodes) {
  /** @type {[string, string][]} */
  const found = [];
  const members = nodes.filter((node) => node.forebay?.role);
  if (members.some((node) => node.forebay.too_few_in_sync)) found.push(["bad", "Nothing is confirmed: too few nodes in sync answer. Publishers wait; no message is lost."]);
  const out = members.filter((node) => !node.forebay.in_sync);
  for (const node of out) found.push(["warn", `Node ${node.name.replace(/^forebay@/, "")} is out of sync${node.forebay.why ? `: it ${node.forebay.why}` : ""}.`]);
  return found;
}

/** @param {any} row */
function roleOf(row) {
  if (!row.forebay?.role) return state("ok", "alone");
  if (!row.running) return state("bad", "away");
  return state(row.forebay.role === "learner" ? "warn" : "ok", row.forebay.role);
}

/** @param {any} row */
function inSync(row) {
  if (!row.forebay?.role) return "–";
  return row.forebay.in_sync ? state("ok", "in sync") : state("warn", row.forebay.why || "out of sync");
}

/** @param {any} row */
function linkOf(row) {
  const link = row.forebay?.link;
  if (!link) return "–";
  return link.up ? state("ok", `up for ${duration(link.for_ms)}`) : state("bad", link.why || "down");
}

/** @param {any} row @param {string} name @param {(value: any) => any} show */
function known(row, name, show) {
  const value = row.forebay?.[name];
  return value === undefined || value === null ? "–" : show(value);
}

/** @param {any} row @param {() => Promise<void>} done */
function actionsOf(row, done) {
  if (!row.forebay?.role || row.forebay.role === "leader") return "";
  return h(
    "span",
    { class: "row" },
    button("Have it lead", () => askTransfer(row.member, done)),
    button("Remove", () => askRemove(row.member, done)),
  );
}

/** @param {string} node @param {() => Promise<void>} done */
function askTransfer(node, done) {
  const about = "All clients, including this page, are disconnected and reconnect to it.";
  return confirm({ title: `Have ${node} lead?`, about, submit: "Have it lead" }, async () => {
    try {
      await operation("cluster.transfer", { node });
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error; // the node that was asked leads no more, and cannot answer
    }
    toast(`${plain(node)} is to lead`);
    await done().catch(() => {});
  });
}

/** @param {string} node @param {() => Promise<void>} done */
function askRemove(node, done) {
  const about = "It no longer stores messages for the cluster. While it runs, it joins again as a new member if there is room.";
  return confirm({ title: `Remove ${node} from the cluster?`, about, submit: "Remove" }, async () => {
    await operation("cluster.remove", { node });
    toast(`${plain(node)} removed from the cluster`);
    await done();
  });
}
