/** What MQTT topics retain. */
import { items, operation } from "../api.js";
import { confirm, open } from "../dialog.js";
import { h, put } from "../dom.js";
import { moment, octets, several } from "../format.js";
import { isAdministrator } from "../session.js";
import { Table, localSource } from "../table.js";
import { complain, toast } from "../toast.js";
import { bodyOf, bodyView } from "./messages.js";
import { button, facts, heading, inVhosts, table as argumentsTable, vhostColumn } from "./parts.js";

const POLL_MS = 5000;

/** @type {import("../app.js").Show} */
export async function showRetained(main, life) {
  const filter = h("input", { type: "text", "aria-label": "Topic filter", placeholder: "Topic filter, such as plant/+/temperature", spellcheck: "false", "data-filter": "" });
  const table = new Table({
    label: "Retained messages",
    columns: [
      { title: "Topic", sort: "topic", lead: true, wrap: true, cell: (row) => (isAdministrator() ? button(row.topic, () => show(row), "link") : row.topic) },
      ...vhostColumn(),
      { title: "QoS", sort: "qos", num: true, cell: (row) => row.qos },
      { title: "Size", sort: "octets", num: true, cell: (row) => octets(row.octets) },
      { title: "Stored", sort: "stored_ms", cell: (row) => moment(row.stored_ms) },
      { title: "Expires", sort: "expires_ms", cell: (row) => (row.expires_ms ? moment(row.expires_ms) : "never") },
    ],
    key: (row) => `${row.vhost} ${row.topic}`,
    source: localSource((signal) => inVhosts((vhost) => items("retained.list", { vhost, filter: filter.value.trim() || "#" }, signal))),
    signal: life.signal,
    sort: { key: "topic", reverse: false },
    filter: false,
    bar: [filter],
    empty: "No retained messages.",
    actions: !isAdministrator() ? undefined : (rows) => [
      button("Delete", () => confirm({ title: `Delete ${several(rows.length, "retained message")}?`, about: "Later subscribers do not get them.", submit: "Delete" }, async () => {
        for (const row of rows) await operation("retained.delete", { vhost: row.vhost, topic: row.topic });
        toast(`${several(rows.length, "retained message")} deleted`);
        await table.reload();
      }), "danger"),
    ],
  });
  filter.addEventListener("change", () => void table.restart());
  put(main, heading("Retained"), h("section", { class: "panel", "aria-label": "Retained messages" }, table.element));
  await life.every(POLL_MS, () => table.refresh());
}

/** @param {any} row */
async function show(row) {
  try {
    const found = await operation("retained.show", { vhost: row.vhost, topic: row.topic, body_octets_max: 65_536 });
    const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
    const known = facts([
      ["Stored", moment(found.stored_ms)],
      ["QoS", found.qos],
      ["Protocol", found.protocol],
      ["Content type", found.content_type],
      ["Headers", argumentsTable(found.headers, "none")],
    ]);
    const dialog = open(h("div", {}, h("header", {}, h("h2", { class: "wrap" }, row.topic)), h("div", { class: "body" }, known, bodyView(bodyOf(found), found.is_cut)), h("footer", {}, close)), row.topic, () => {}, true);
  } catch (error) {
    complain(error);
  }
}
