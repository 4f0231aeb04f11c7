/** All queues and streams. */
import { get, path, remove, replace } from "../api.js";
import { askForm, confirm, confirmName } from "../dialog.js";
import { h, put } from "../dom.js";
import { count, octets, rate, several } from "../format.js";
import { go, link } from "../router.js";
import { listPath, may, maySomewhere, someVhost } from "../session.js";
import { Table, localSource, remoteSource } from "../table.js";
import { attempt } from "../toast.js";
import { button, heading, queueLink, queueState, vhostColumn, vhostField } from "./parts.js";
import { settingFields, settingsOf, showSettings } from "./settings.js";

const POLL_MS = 5000;
const TYPES = ["classic", "quorum", "stream"];
const PAGE_SIZE = 500;

/** @type {import("../app.js").Show} */
export async function showQueues(main, life, _path, query) {
  let type = query.get("type") ?? "";
  const all = localSource(async (signal) => (await everyQueue(signal)).filter((each) => each.type === type));
  const paged = remoteSource(() => listPath("queues"));
  const select = h("select", { "aria-label": "Type" }, h("option", { value: "" }, "all types"), TYPES.map((each) => h("option", {}, each)));
  select.value = type;
  /** @type {Table} */
  const table = new Table({
    label: "Queues and streams",
    columns: columns(),
    key: (row) => `${row.vhost} ${row.name}`,
    source: (wanted, signal) => (type ? all : paged)(wanted, signal),
    signal: life.signal,
    sort: { key: "name", reverse: false },
    empty: "No queues.",
    bar: [select],
    actions: maySomewhere("configure") || maySomewhere("read") ? (rows) => actions(rows, () => table.reload()) : undefined,
  });
  select.addEventListener("change", () => {
    type = select.value;
    void table.restart();
  });
  const declare = maySomewhere("configure") ? [button("New queue", () => askDeclare(), "primary")] : [];
  put(main, heading("Queues and streams", { actions: declare }), panelOf(table));
  await life.every(POLL_MS, () => table.refresh());
}

/** @param {Table} table */
function panelOf(table) {
  return h("section", { class: "panel", "aria-label": table.options.label }, table.element);
}

/** @returns {import("../table.js").Column[]} */
function columns() {
  const stat = (/** @type {string} */ name) => (/** @type {any} */ row) => rate(row.message_stats?.[`${name}_details`]?.rate ?? 0);
  return [
    { title: "Name", sort: "name", lead: true, line: "first", wrap: true, cell: (row) => [queueLink(row.vhost, row.name)] },
    ...vhostColumn(),
    { title: "Type", sort: "type", cell: (row) => `${row.type}${row.exclusive ? ", exclusive" : ""}${row.durable ? "" : ", not durable"}` },
    { title: "State", sort: "state", line: "first", cell: queueState },
    { title: "Ready", sort: "messages_ready", num: true, line: "second", cell: (row) => count(row.messages_ready) },
    { title: "Unacked", sort: "messages_unacknowledged", num: true, line: "second", cell: (row) => count(row.messages_unacknowledged) },
    { title: "Consumers", sort: "consumers", num: true, cell: (row) => count(row.consumers) },
    { title: "In", sort: "message_stats.publish_details.rate", num: true, line: "second", cell: stat("publish") },
    { title: "Out", sort: "message_stats.deliver_get_details.rate", num: true, line: "second", cell: stat("deliver_get") },
    { title: "Size", sort: "message_bytes", num: true, cell: (row) => octets(row.message_bytes) },
    { title: "Policy", sort: "policy", cell: (row) => row.policy ?? "–" },
  ];
}

/** @param {AbortSignal} signal */
async function everyQueue(signal) {
  const found = [];
  for (let page = 1; ; page += 1) {
    const answer = await get(listPath("queues"), { query: { page, page_size: PAGE_SIZE }, signal });
    found.push(...answer.items);
    if (page >= answer.page_count) return found;
  }
}

/** @param {any[]} rows @param {() => Promise<void>} changed */
function actions(rows, changed) {
  const purgeable = rows.filter((row) => row.type !== "stream" && may("read", row.vhost, row.name));
  const deletable = rows.filter((row) => may("configure", row.vhost, row.name));
  const names = (/** @type {any[]} */ list) => list.map((row) => row.name).slice(0, 10).join(", ") + (list.length > 10 ? "…" : "");
  return [
    purgeable.length
      ? button("Purge", () => {
          const about = `Deletes all ready messages of ${names(purgeable)}.`;
          return confirm({ title: `Purge ${several(purgeable.length, "queue")}?`, about, submit: "Purge" }, async () => {
            for (const row of purgeable) await remove(path`/api/queues/${row.vhost}/${row.name}/contents`);
            await changed();
          });
        })
      : null,
    deletable.length
      ? button(
          "Delete",
          () => {
            const name = deletable.length === 1 ? deletable[0].name : `delete ${deletable.length}`;
            const about = `${names(deletable)}: their messages are deleted, too, ${count(deletable.reduce((all, row) => all + (row.messages ?? 0), 0))} in all.`;
            return confirmName({ title: `Delete ${several(deletable.length, "queue")}?`, about, name, submit: "Delete" }, async () => {
              for (const row of deletable) await remove(path`/api/queues/${row.vhost}/${row.name}`);
              await changed();
            });
          },
          "danger",
        )
      : null,
  ];
}

function askDeclare() {
  return askForm(
    {
      title: "New queue",
      submit: "Declare",
      fields: [
        vhostField(someVhost()),
        { name: "queue", label: "Name", required: true },
        { name: "type", label: "Type", type: "select", options: TYPES, value: "classic" },
        { name: "durable", label: "Durable: survives a restart", type: "check", value: true },
        { name: "auto_delete", label: "Auto-delete: deleted with its last consumer", type: "check" },
        ...settingFields("argument"),
        { name: "arguments", label: "Other arguments", type: "json", hint: 'JSON, say {"x-priority-mode": "strict"}' },
      ],
      wide: true,
      change: (values, fields) => showSettings("argument", fields, values.type),
    },
    async ({ vhost, queue, type, durable, auto_delete, arguments: given, ...rest }) => {
      const body = { durable, auto_delete, arguments: { "x-queue-type": type, ...settingsOf("argument", rest, type), ...given } };
      await replace(path`/api/queues/${vhost}/${queue}`, body);
      await attempt(async () => go(link("queues", vhost, queue)), `Queue ${queue} declared`);
    },
  );
}
