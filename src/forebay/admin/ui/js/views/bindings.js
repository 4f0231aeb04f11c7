/** Bindings as lines of a table. */
import { path, remove } from "../api.js";
import { confirm } from "../dialog.js";
import { h } from "../dom.js";
import { plain } from "../format.js";
import { may } from "../session.js";
import { button, destinationLink, exchangeLink } from "./parts.js";

/**
 * @param {string} vhost @param {any} life
 * @param {"source" | "destination"} other which end is not the view's own
 * @returns {import("../table.js").Column[]}
 */
export function bindingColumns(vhost, life, other) {
  const end = (/** @type {any} */ row) => (other === "source" ? exchangeLink(vhost, row.source) : destinationLink(vhost, row.destination_type, row.destination));
  return [
    { title: other === "source" ? "From" : "To", lead: true, wrap: true, cell: end },
    { title: "Kind", cell: (row) => (other === "source" ? "exchange" : row.destination_type) },
    { title: "Routing key", wrap: true, cell: (row) => h("code", {}, row.routing_key) },
    { title: "Arguments", wrap: true, cell: (row) => plain(row.arguments) },
    { title: "", cell: (row) => (row.source && may("write", vhost, row.destination) ? button("Unbind", () => askUnbind(vhost, row, life)) : "") },
  ];
}

/** @param {string} vhost @param {any} row @param {any} life */
function askUnbind(vhost, row, life) {
  const kind = row.destination_type === "queue" ? "q" : "e";
  const about = `${row.destination} gets nothing more from ${row.source} with ${row.routing_key ? `the key ${row.routing_key}` : "an empty key"}.`;
  return confirm({ title: "Unbind?", about, submit: "Unbind" }, async () => {
    await remove(path`/api/bindings/${vhost}/e/${row.source}/${kind}/${row.destination}/${row.properties_key}`);
    await life.refresh();
  });
}
