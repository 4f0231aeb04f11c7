/** How the broker is doing. */
import { get } from "../api.js";
import { Chart } from "../chart.js";
import { h, put } from "../dom.js";
import { count, duration, octets, rate, several } from "../format.js";
import { added, quantile } from "../histograms.js";
import { Seen, levels, rates, sum } from "../history.js";
import { isMonitor } from "../session.js";
import { heading, panel, Slot } from "./parts.js";

const POLL_MS = 3000;
const SPANS_S = [60, 300, 600];
const SPAN_KEY = "forebay.span";
const STEP_S = 5;
/** @type {any} */
let figuresBefore = null;
const seen = new Seen(); // goes on where it was when somebody comes back to the view

/** @type {import("../app.js").Show} */
export async function showOverview(main, life) {
  const charts = {
    messages: new Chart("Messages a second", { format: rate }),
    queued: new Chart("Queued messages", { format: count, floor: 3 }),
    times: new Chart("Latency", { format: duration, floor: 0.1 }),
    inside: new Chart("p99 latency inside the broker", { format: duration, floor: 0.1 }),
    memory: new Chart("Memory", { format: octets, floor: 1024 * 1024, binary: true }),
    disk: new Chart("Written to disk", { format: (value) => `${octets(value)}/s`, floor: 1024, binary: true }),
    connections: new Chart("Connections", { format: count, floor: 3 }),
  };
  let span = Number(localStorage.getItem(SPAN_KEY)) || SPANS_S[1];
  const spans = h("select", { "aria-label": "Time that charts show" }, SPANS_S.map((each) => h("option", { value: each }, `last ${several(each / 60, "minute")}`)));
  spans.value = String(span);
  spans.addEventListener("change", () => {
    span = Number(spans.value);
    localStorage.setItem(SPAN_KEY, spans.value);
    void life.refresh();
  });
  const alarms = new Slot("div", { role: "alert" });
  const tiles = new Slot();
  const listeners = new Slot();
  const about = h("span", { class: "muted" });
  // What only who sees all vhosts is told of the process is not drawn for others.
  const shown = isMonitor() ? Object.values(charts) : [charts.messages, charts.queued];
  put(
    main,
    heading("Overview", { about, actions: [spans] }),
    alarms.element,
    tiles.element,
    h("div", { class: "columns" }, shown.map((chart) => h("section", { class: "panel" }, chart.element))),
    listeners.element,
  );
  await life.every(POLL_MS, async () => {
    for (const chart of shown) chart.spanMs = span * 1000;
    const samples = { lengths_age: span, lengths_incr: STEP_S, msg_rates_age: span, msg_rates_incr: STEP_S };
    const [overview, nodes, figures] = await Promise.all([
      get("/api/overview", { query: samples, signal: life.signal }),
      isMonitor() ? get("/api/nodes", { signal: life.signal }) : [],
      isMonitor() ? get("/api/forebay/figures", { signal: life.signal }) : null,
    ]);
    const node = nodes[0] ?? {};
    put(about, `${overview.product_name ?? "forebay"} ${overview.product_version ?? ""} on ${overview.node ?? overview.cluster_name ?? ""}`);
    alarms.show(alarmsOf(node), () => alarmsOf(node).map((text) => h("div", { class: "banner" }, h("strong", {}, "Alarm"), text)));
    const figuresShown = tilesOf(overview);
    tiles.show(figuresShown, () => tilesView(figuresShown));
    drawMessages(charts, overview);
    drawNode(charts, overview, node, figures);
    listeners.show(overview.listeners, () => listenersView(overview.listeners ?? []));
  });
}

/** @param {any} node */
function alarmsOf(node) {
  const found = [];
  if (node.mem_alarm) found.push(`Memory: ${octets(node.mem_used)} of ${octets(node.mem_limit)} are in use. Publishers are held until it is less.`);
  if (node.disk_free_alarm) found.push(`Disk: ${octets(node.disk_free)} are free, below the limit of ${octets(node.disk_free_limit)}. Publishers are held.`);
  return found;
}

/** @param {any} overview @returns {[string, string, string, string?][]} name, value, unit, address */
function tilesOf(overview) {
  const stats = overview.message_stats ?? {};
  const totals = overview.queue_totals ?? {};
  const objects = overview.object_totals ?? {};
  const delivered = stats.deliver_get_details?.rate;
  return [
    ["Published", count(Math.round(stats.publish_details?.rate ?? 0)), "/s"],
    ["Delivered", count(Math.round(delivered ?? 0)), "/s"],
    ["Ready", count(totals.messages_ready ?? 0), "", "#/queues"],
    ["Unacknowledged", count(totals.messages_unacknowledged ?? 0), ""],
    ["Queues", count(objects.queues), "", "#/queues"],
    ["Exchanges", count(objects.exchanges), "", "#/exchanges"],
    ["Connections", count(objects.connections), "", "#/connections"],
    ["Consumers", count(objects.consumers), "", "#/consumers"],
  ];
}

/** @param {[string, string, string, string?][]} tiles */
function tilesView(tiles) {
  return h(
    "div",
    { class: "tiles" },
    tiles.map(([name, value, unit, to]) => {
      const inside = [h("span", { class: "name" }, name), h("span", { class: "value" }, value), unit ? h("span", { class: "unit" }, unit) : null];
      return to ? h("a", { href: to }, inside) : h("div", {}, inside);
    }),
  );
}

/** @param {Record<string, Chart>} charts @param {any} overview */
function drawMessages(charts, overview) {
  const stats = overview.message_stats ?? {};
  const totals = overview.queue_totals ?? {};
  charts.messages.show([
    { name: "published", points: rates(stats.publish_details) },
    { name: "delivered", points: sum([rates(stats.deliver_get_details)]) },
    { name: "acknowledged", points: rates(stats.ack_details) },
  ]);
  charts.queued.show([
    { name: "ready", points: levels(totals.messages_ready_details) },
    { name: "unacknowledged", points: levels(totals.messages_unacknowledged_details) },
  ]);
}

/** @param {Record<string, Chart>} charts @param {any} overview @param {any} node @param {any} figures */
function drawNode(charts, overview, node, figures) {
  seen.add(Date.now(), { memory: node.mem_used, connections: overview.object_totals?.connections, ...timesOf(figures, figuresBefore) });
  figuresBefore = figures;
  charts.memory.show([{ name: "in use", points: seen.line("memory") }], limitOf(node));
  charts.connections.show([{ name: "open", points: seen.line("connections") }]);
  charts.times.show([
    { name: "confirm p50", points: seen.line("confirm50") },
    { name: "confirm p99", points: seen.line("confirm99") },
    { name: "delivery p50", points: seen.line("delivery50") },
    { name: "delivery p99", points: seen.line("delivery99") },
  ]);
  charts.inside.show([
    { name: "sync to disk", points: seen.line("sync") },
    { name: "turn of the broker", points: seen.line("turn") },
  ]);
  charts.disk.show([{ name: "commits", points: seen.line("written") }]);
}

/** A limit that is far away would flatten the line. @param {any} node */
function limitOf(node) {
  return node.mem_limit && node.mem_used > node.mem_limit / 4 ? { value: node.mem_limit, name: "limit" } : undefined;
}

/** @param {any} now the figures @param {any} before those of the poll before */
function timesOf(now, before) {
  const [new_, old] = [now?.histograms ?? {}, before?.histograms ?? {}];
  const ms = (/** @type {string} */ name, part = 0.99) => {
    const us = quantile(new_[name], old[name], part);
    return us === null ? null : us / 1000;
  };
  const octets_ = added(new_.commit, old.commit);
  const seconds = (now?.time_us - before?.time_us) / 1e6;
  const clients = { confirm50: ms("confirm", 0.5), confirm99: ms("confirm"), delivery50: ms("delivery", 0.5), delivery99: ms("delivery") };
  return { ...clients, sync: ms("sync"), turn: ms("turn"), written: octets_ === null ? null : octets_ / seconds };
}

/** @param {any[]} listeners */
function listenersView(listeners) {
  if (!listeners.length) return null;
  const rows = listeners.map((each) => h("li", {}, h("b", {}, each.protocol), ` ${each.ip_address ?? ""}:${each.port}`));
  return panel("Listeners", h("ul", { class: "inline" }, rows), [], true);
}
