/** Exchanges, one of them, and where they lead. */
import { get, path, post, remove, replace } from "../api.js";
import { Chart } from "../chart.js";
import { askForm, confirmName } from "../dialog.js";
import { h, put } from "../dom.js";
import { count, rate, yes } from "../format.js";
import { rates } from "../history.js";
import { go, link, named } from "../router.js";
import { listPath, may, maySomewhere, someVhost } from "../session.js";
import { Table, plainTable, remoteSource } from "../table.js";
import { toast } from "../toast.js";
import { bindingColumns } from "./bindings.js";
import { askPublish } from "./publish.js";
import { button, exchangeLink, exchangeNames, facts, heading, panel, queueNames, Slot, table, vhostColumn, vhostField } from "./parts.js";

const POLL_MS = 5000;
const SPAN_S = 60;
const SAMPLES = { msg_rates_age: SPAN_S, msg_rates_incr: 5 };
const TYPES = ["direct", "fanout", "topic", "headers", "x-consistent-hash"];

/** @type {import("../app.js").Show} */
export async function showExchanges(main, life) {
  const list = new Table({
    label: "Exchanges",
    columns: [
      { title: "Name", sort: "name", lead: true, wrap: true, cell: (row) => [exchangeLink(row.vhost, row.name)] },
      ...vhostColumn(),
      { title: "Type", sort: "type", cell: (row) => row.type },
      { title: "Durable", sort: "durable", cell: (row) => yes(row.durable) },
      { title: "Internal", sort: "internal", cell: (row) => yes(row.internal) },
      { title: "In", sort: "message_stats.publish_in_details.rate", num: true, cell: (row) => rate(row.message_stats?.publish_in_details?.rate ?? 0) },
      { title: "Out", sort: "message_stats.publish_out_details.rate", num: true, cell: (row) => rate(row.message_stats?.publish_out_details?.rate ?? 0) },
      { title: "Policy", sort: "policy", cell: (row) => row.policy ?? "–" },
    ],
    key: (row) => `${row.vhost} ${row.name}`,
    source: remoteSource(() => listPath("exchanges")),
    signal: life.signal,
    sort: { key: "name", reverse: false },
    empty: "No exchanges.",
  });
  const declare = maySomewhere("configure") ? [button("New exchange", () => askDeclare(), "primary")] : [];
  put(main, heading("Exchanges", { actions: [h("a", { class: "button", href: "#/topology" }, "Topology"), ...declare] }), h("section", { class: "panel", "aria-label": "Exchanges" }, list.element));
  await life.every(POLL_MS, () => list.refresh());
}

function askDeclare() {
  const form = {
    title: "New exchange",
    submit: "Declare",
    fields: [
      vhostField(someVhost()),
      { name: "name", label: "Name", required: true },
      { name: "type", label: "Type", type: /** @type {const} */ ("select"), options: TYPES, value: "topic" },
      { name: "durable", label: "Durable: survives a restart", type: /** @type {const} */ ("check"), value: true },
      { name: "auto_delete", label: "Auto-delete: deleted with its last binding", type: /** @type {const} */ ("check") },
      { name: "internal", label: "Internal: clients cannot publish to it", type: /** @type {const} */ ("check") },
      { name: "arguments", label: "Arguments", type: /** @type {const} */ ("json"), hint: 'JSON, say {"alternate-exchange": "lost"}' },
    ],
  };
  return askForm(form, async ({ vhost, name, ...body }) => {
    await replace(path`/api/exchanges/${vhost}/${name}`, body);
    go(link("exchanges", vhost, name));
    toast(`Exchange ${name} declared`);
  });
}

/** @type {import("../app.js").Show} */
export async function showExchange(main, life, [vhost, part]) {
  const name = named(part);
  const where = path`/api/exchanges/${vhost}/${name || "amq.default"}`;
  const first = await get(where, { query: SAMPLES, signal: life.signal });
  const chart = new Chart("Messages a second", { format: rate, spanMs: SPAN_S * 1000 });
  const [out, into] = [new Slot(), new Slot()];
  const plain = name === "" || name.startsWith("amq.");
  const actions = [
    may("write", vhost, name) && !first.internal ? button("Publish", () => askPublish(vhost, name, ""), "primary") : null,
    !plain && may("configure", vhost, name) ? button("Delete", () => askDelete(vhost, name), "danger") : null,
  ];
  put(
    main,
    heading(name || "(default exchange)", { crumbs: [["Exchanges", "#/exchanges"], [`vhost ${vhost}`, "#/exchanges"]], actions }),
    h("div", { class: "columns" }, h("section", { class: "panel" }, chart.element), panel("Declared with", declared(first), [], true)),
    panel("Leads to", out.element, name && may("read", vhost, name) ? [button("Bind", () => askBind(vhost, name, life))] : []),
    panel("Bound to", into.element),
  );
  await life.every(POLL_MS, async () => {
    const [exchange, sources, destinations] = await Promise.all([
      get(where, { query: SAMPLES, signal: life.signal }),
      get(`${where}/bindings/source`, { signal: life.signal }),
      get(`${where}/bindings/destination`, { signal: life.signal }),
    ]);
    const stats = exchange.message_stats ?? {};
    chart.show([
      { name: "in", points: rates(stats.publish_in_details) },
      { name: "out", points: rates(stats.publish_out_details) },
    ]);
    const none = name ? "No bindings: messages published here are dropped." : "No queues.";
    out.show(sources, () => plainTable("Leads to", bindingColumns(vhost, life, "destination"), sources, none));
    into.show(destinations, () => plainTable("Bound to", bindingColumns(vhost, life, "source"), destinations, "No exchange is bound to it."));
  });
}

/** @param {any} exchange */
function declared(exchange) {
  return facts([
    ["Type", exchange.type],
    ["Durable", yes(exchange.durable)],
    ["Auto-delete", exchange.auto_delete ? "yes" : null],
    ["Internal", exchange.internal ? "yes" : null],
    ["Arguments", table(exchange.arguments, "none")],
    ["Policy", exchange.policy ?? "none"],
    ["Published in", count(exchange.message_stats?.publish_in ?? 0)],
    ["Routed out", count(exchange.message_stats?.publish_out ?? 0)],
  ]);
}

/** @param {string} vhost @param {string} source @param {any} life */
async function askBind(vhost, source, life) {
  const [queues, exchanges] = await Promise.all([queueNames(vhost), exchangeNames(vhost)]);
  const form = {
    title: `Bind to ${source}`,
    submit: "Bind",
    fields: [
      { name: "kind", label: "What", type: /** @type {const} */ ("select"), options: /** @type {[string, string][]} */ ([["q", "queue"], ["e", "exchange"]]), value: "q" },
      { name: "destination", label: "Its name", required: true, list: [...queues, ...exchanges] },
      { name: "routing_key", label: "Routing key" },
      { name: "arguments", label: "Arguments", type: /** @type {const} */ ("json"), hint: 'JSON; of headers exchanges, say {"x-match": "any", "region": "eu"}' },
    ],
  };
  return askForm(form, async ({ kind, destination, ...body }) => {
    const to = kind === "q" ? path`/q/${destination}` : path`/e/${destination}`;
    await post(path`/api/bindings/${vhost}/e/${source}` + to, body);
    await life.refresh();
  });
}

/** @param {string} vhost @param {string} name */
function askDelete(vhost, name) {
  const about = "Its bindings are deleted, too. Publishers to it get an error.";
  return confirmName({ title: `Delete ${name}?`, about, name, submit: "Delete" }, async () => {
    await remove(path`/api/exchanges/${vhost}/${name}`);
    toast(`Exchange ${name} is deleted`);
    go("#/exchanges");
  });
}
