/** Spark queries: those that read from queues, and those that publish in transactions. */
import { items, operation } from "../api.js";
import { confirm } from "../dialog.js";
import { put } from "../dom.js";
import { count, duration, octets, several, state } from "../format.js";
import { isAdministrator } from "../session.js";
import { Table, localSource } from "../table.js";
import { button, heading, inVhosts, panel, queueLink, vhostColumn } from "./parts.js";

const POLL_MS = 4000;
const HOLD_SHORT_S = 30;

/** @type {import("../app.js").Show} */
export async function showPipelines(main, life) {
  const readers = new Table({
    label: "Readers",
    columns: [
      { title: "Query", sort: "group", lead: true, wrap: true, cell: (row) => row.group },
      ...vhostColumn(),
      { title: "Queue", sort: "queue", wrap: true, cell: (row) => [queueLink(row.vhost, row.queue)] },
      { title: "Next offset", sort: "cursor", num: true, cell: (row) => count(row.cursor) },
      { title: "Lag", sort: "ready", num: true, cell: (row) => count(row.ready) },
      { title: "Kept for it", sort: "octets", num: true, cell: (row) => octets(row.octets) },
      { title: "Hold ends", sort: "seconds_left", cell: (row) => state(row.seconds_left < HOLD_SHORT_S ? "warn" : "ok", `in ${duration(row.seconds_left * 1000)}`) },
      ...(isAdministrator() ? [{ title: "", cell: (/** @type {any} */ row) => button("Release", () => askRelease(row, life)) }] : []),
    ],
    key: (row) => `${row.vhost} ${row.queue} ${row.group}`,
    source: localSource((signal) => inVhosts(async (vhost) => (await items("group.list", { vhost }, signal)).filter((each) => each.kind === "reader"))),
    signal: life.signal,
    sort: { key: "group", reverse: false },
    empty: "No Spark query reads from a queue.",
  });
  const sinks = new Table({
    label: "Sinks",
    columns: [
      { title: "Query", sort: "query", lead: true, wrap: true, cell: (row) => row.query },
      ...vhostColumn(),
      { title: "Last batch", sort: "batch", num: true, cell: (row) => (row.batch < 0 ? "none" : count(row.batch)) },
      { title: "State", sort: "state", cell: (row) => (row.state ? state(row.state === "committed" ? "ok" : "warn", row.state) : "–") },
      { title: "Rows", sort: "rows", num: true, cell: (row) => count(row.rows) },
      { title: "Unroutable", sort: "unroutable", num: true, cell: (row) => count(row.unroutable) },
      { title: "Staged", wrap: true, cell: (row) => row.staged.map((/** @type {any} */ each) => `batch ${each.batch}: ${several(each.rows, "row")} in ${several(each.parts, "part")}`).join("; ") || "–" },
    ],
    key: (row) => `${row.vhost} ${row.query}`,
    source: localSource((signal) => inVhosts((vhost) => items("transaction.list", { vhost }, signal))),
    signal: life.signal,
    sort: { key: "query", reverse: false },
    empty: "No Spark query has published.",
  });
  put(main, heading("Pipelines"), panel("Queries that read", readers.element), panel("Queries that publish", sinks.element));
  await life.every(POLL_MS, async () => {
    await Promise.all([readers.refresh(), sinks.refresh()]);
  });
}

/** @param {any} row @param {any} life */
function askRelease(row, life) {
  const about = "Messages that only this query keeps are deleted. If it still runs, it holds the rest again.";
  return confirm({ title: `Release ${row.group}?`, about, submit: "Release" }, async () => {
    await operation("group.release", { vhost: row.vhost, queue: row.queue, group: row.group });
    await life.refresh();
  });
}
