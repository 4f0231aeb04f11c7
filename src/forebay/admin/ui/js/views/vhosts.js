/** Virtual hosts. */
import { get, path, remove, replace } from "../api.js";
import { askForm, confirmName } from "../dialog.js";
import { h, put } from "../dom.js";
import { count, plain, rate } from "../format.js";
import { isAdministrator, refreshVhosts } from "../session.js";
import { Table, localSource } from "../table.js";
import { toast } from "../toast.js";
import { button, heading } from "./parts.js";

const POLL_MS = 5000;
const LIMITS = ["max-connections", "max-queues"];

/** @type {import("../app.js").Show} */
export async function showVhosts(main, life) {
  const table = new Table({
    label: "Virtual hosts",
    columns: [
      { title: "Name", sort: "name", lead: true, wrap: true, cell: (row) => (isAdministrator() ? button(row.name, () => askVhost(row, changed), "link") : row.name) },
      { title: "Description", sort: "description", wrap: true, cell: (row) => plain(row.description) },
      { title: "Default type", sort: "default_queue_type", cell: (row) => plain(row.default_queue_type) },
      { title: "Ready", sort: "messages_ready", num: true, cell: (row) => count(row.messages_ready ?? 0) },
      { title: "Unacked", sort: "messages_unacknowledged", num: true, cell: (row) => count(row.messages_unacknowledged ?? 0) },
      { title: "In", sort: "message_stats.publish_details.rate", num: true, cell: (row) => rate(row.message_stats?.publish_details?.rate ?? 0) },
      { title: "Out", sort: "message_stats.deliver_get_details.rate", num: true, cell: (row) => rate(row.message_stats?.deliver_get_details?.rate ?? 0) },
      { title: "Limits", wrap: true, cell: (row) => plain(row.limits) },
      ...(isAdministrator() ? [{ title: "", cell: (/** @type {any} */ row) => button("Delete", () => askDelete(row.name, changed)) }] : []),
    ],
    key: (row) => row.name,
    source: localSource(async (signal) => {
      const [vhosts, limits] = await Promise.all([get("/api/vhosts", { signal }), isAdministrator() ? get("/api/vhost-limits", { signal }) : []]);
      return vhosts.map((/** @type {any} */ each) => ({ ...each, limits: limits.find((/** @type {any} */ one) => one.vhost === each.name)?.value ?? {} }));
    }),
    signal: life.signal,
    sort: { key: "name", reverse: false },
    empty: "No vhost access.",
  });
  const changed = async () => {
    await Promise.all([refreshVhosts(), table.reload()]);
  };
  const actions = isAdministrator() ? [button("New virtual host", () => askVhost(null, changed), "primary")] : [];
  put(main, heading("Virtual hosts", { actions }), h("section", { class: "panel", "aria-label": "Virtual hosts" }, table.element));
  await life.every(POLL_MS, () => table.refresh());
}

/** @param {any} vhost null: a new one @param {() => Promise<void>} done */
function askVhost(vhost, done) {
  const form = {
    title: vhost ? `Virtual host ${vhost.name}` : "New virtual host",
    submit: "Save",
    fields: [
      ...(vhost ? [] : [{ name: "name", label: "Name", required: true }]),
      { name: "description", label: "Description", value: vhost?.description },
      { name: "default_queue_type", label: "Type of queues declared without one", type: /** @type {const} */ ("select"), options: ["classic", "quorum", "stream"], value: vhost?.default_queue_type ?? "classic" },
      ...LIMITS.map((limit) => ({ name: limit, label: `Largest number of ${limit.slice(4)}`, type: /** @type {const} */ ("number"), value: vhost?.limits?.[limit], hint: "Empty for no limit" })),
    ],
  };
  return askForm(form, async ({ name = vhost?.name, description, default_queue_type, ...limits }) => {
    await replace(path`/api/vhosts/${name}`, { description, default_queue_type });
    for (const limit of LIMITS) {
      const where = path`/api/vhost-limits/${name}/${limit}`;
      if (limits[limit] !== undefined) await replace(where, { value: limits[limit] });
      else if (vhost?.limits?.[limit] !== undefined) await remove(where);
    }
    toast(`Virtual host ${name} is saved`);
    await done();
  });
}

/** @param {string} name @param {() => Promise<void>} done */
function askDelete(name, done) {
  const about = "Its queues, exchanges, sessions and messages are deleted, too, and its connections closed.";
  return confirmName({ title: `Delete virtual host ${name}?`, about, name, submit: "Delete" }, async () => {
    await remove(path`/api/vhosts/${name}`);
    toast(`Virtual host ${name} is deleted`);
    await done();
  });
}
