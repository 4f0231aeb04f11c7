/** Messages that wait for their time. */
import { items, operation } from "../api.js";
import { confirm } from "../dialog.js";
import { h, put } from "../dom.js";
import { duration, moment, octets, several } from "../format.js";
import { isAdministrator } from "../session.js";
import { Table, localSource } from "../table.js";
import { attempt, toast } from "../toast.js";
import { button, heading, inVhosts, vhostColumn } from "./parts.js";

const POLL_MS = 3000;

/** @type {import("../app.js").Show} */
export async function showDelayed(main, life) {
  const table = new Table({
    label: "Delayed messages",
    columns: [
      { title: "Due", sort: "due_ms", lead: true, cell: (row) => moment(row.due_ms) },
      { title: "In", cell: (row) => duration(Math.max(row.due_ms - Date.now(), 0)) },
      ...vhostColumn(),
      { title: "Exchange", sort: "exchange", wrap: true, cell: (row) => row.exchange || "(default)" },
      { title: "Routing key", sort: "topic", wrap: true, cell: (row) => row.topic },
      { title: "Key", sort: "key", wrap: true, cell: (row) => row.key || "–" },
      { title: "Size", sort: "octets", num: true, cell: (row) => octets(row.octets) },
    ],
    key: (row) => `${row.vhost} #${row.number}`,
    source: localSource((signal) => inVhosts((vhost) => items("delayed.list", { vhost }, signal))),
    signal: life.signal,
    sort: { key: "due_ms", reverse: false },
    empty: "No delayed messages.",
    actions: !isAdministrator() ? undefined : (rows) => [
      button("Publish now", () => attempt(async () => {
        for (const row of rows) await operation("delayed.publish", { vhost: row.vhost, name: String(row.number) });
        await table.reload();
      }, `${several(rows.length, "message")} published`)),
      button("Cancel", () => confirm({ title: `Cancel ${several(rows.length, "message")}?`, about: "They will not be published.", submit: "Cancel them" }, async () => {
        for (const row of rows) await operation("delayed.cancel", { vhost: row.vhost, name: String(row.number) });
        toast(`${several(rows.length, "message")} cancelled`);
        await table.reload();
      }), "danger"),
    ],
  });
  put(main, heading("Delayed"), h("section", { class: "panel", "aria-label": "Delayed messages" }, table.element));
  await life.every(POLL_MS, () => table.refresh());
}
