/** How the broker is doing. */
import { get } from "../api.js";
import { Chart } from "../chart.js";
import { h, put } from "../dom.js";
import { count, duration, octets, rate } from "../format.js";
import { Kept, Seen } from "../history.js";
import { isMonitor } from "../session.js";
import { chooseSpan, heading, panel, Slot } from "./parts.js";

const POLL_MS = 3000;
const US = 0.001; // milliseconds
const seen = new Seen(); // goes on where it was when somebody comes back to the view

/** @type {import("../app.js").Show} */
export async function showOverview(main, life) {
  const charts = {
    messages: new Chart("Messages a second", { format: rate }),
    queued: new Chart("Queued messages", { format: count, floor: 3 }),
    failed: new Chart("Not delivered, a second", { format: rate }),
    times: new Chart("Latency, logarithmic", { format: duration, floor: 0.1, logarithmic: true }),
    inside: new Chart("p99 latency inside the broker, logarithmic", { format: duration, floor: 0.1, logarithmic: true }),
    traffic: new Chart("Network", { format: (value) => `${octets(value)}/s`, floor: 1024, binary: true }),
    memory: new Chart("Memory", { format: octets, floor: 1024 * 1024, binary: true }),
    free: new Chart("Free on disk", { format: octets, floor: 1024 * 1024, binary: true }),
    disk: new Chart("Written to disk", { format: (value) => `${octets(value)}/s`, floor: 1024, binary: true }),
    connections: new Chart("Connections", { format: count, floor: 3 }),
  };
  const kept = isMonitor() ? new Kept("/api/forebay/samples") : null;
  const span = chooseSpan(life);
  const alarms = new Slot("div", { role: "alert" });
  const tiles = new Slot();
  const listeners = new Slot();
  const about = h("span", { class: "muted" });
  // What only who sees all vhosts is told of the process is not drawn for others.
  const shown = isMonitor() ? Object.values(charts) : [charts.messages, charts.queued];
  put(
    main,
    heading("Overview", { about, actions: kept ? [span.element] : [] }),
    alarms.element,
    tiles.element,
    h("div", { class: "columns" }, shown.map((chart) => h("section", { class: "panel" }, chart.element))),
    listeners.element,
  );
  await life.every(POLL_MS, async () => {
    for (const chart of shown) chart.spanMs = (kept ? span.seconds() : 600) * 1000;
    const [overview, nodes] = await Promise.all([
      get("/api/overview", { signal: life.signal }),
      isMonitor() ? get("/api/nodes", { signal: life.signal }) : [],
      kept?.refresh(span.seconds(), life.signal),
    ]);
    const node = nodes.find((/** @type {any} */ each) => each.name === overview.node) ?? {};
    put(about, `${overview.product_name ?? "forebay"} ${overview.product_version ?? ""} on ${overview.node ?? overview.cluster_name ?? ""}`);
    alarms.show(alarmsOf(node), () => alarmsOf(node).map((text) => h("div", { class: "banner" }, h("strong", {}, "Alarm"), text)));
    const figuresShown = tilesOf(overview);
    tiles.show(figuresShown, () => tilesView(figuresShown));
    if (kept) drawKept(charts, kept, node);
    else drawSeen(charts, overview);
    listeners.show(overview.listeners, () => listenersView(overview.listeners ?? []));
  });
}

/** @param {any} node */
function alarmsOf(node) {
  const found = [];
  if (node.mem_alarm) found.push(`Memory: ${octets(node.mem_used)} of ${octets(node.mem_limit)} are in use. Publishers wait until it is less.`);
  if (node.disk_free_alarm) found.push(`Disk: ${octets(node.disk_free)} are free, below the limit of ${octets(node.disk_free_limit)}. Publishers wait.`);
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

/** Of who sees some vhosts only, the broker keeps no samples. @param {Record<string, Chart>} charts @param {any} overview */
function drawSeen(charts, overview) {
  const stats = overview.message_stats ?? {};
  const totals = overview.queue_totals ?? {};
  const [published, delivered] = [stats.publish_details?.rate, stats.deliver_get_details?.rate];
  seen.add(Date.now(), { published, delivered, ready: totals.messages_ready, unacknowledged: totals.messages_unacknowledged });
  const line = (/** @type {string} */ name) => ({ name, points: seen.line(name) });
  charts.messages.show([line("published"), line("delivered")]);
  charts.queued.show([line("ready"), line("unacknowledged")]);
}

/** @param {Record<string, Chart>} charts @param {Kept} kept @param {any} node */
function drawKept(charts, kept, node) {
  charts.messages.show([
    { name: "published", points: kept.rate("publish") },
    { name: "delivered", points: kept.rate("deliver_get") },
    { name: "acknowledged", points: kept.rate("ack") },
  ]);
  charts.queued.show([
    { name: "ready", points: kept.level("messages_ready") },
    { name: "unacknowledged", points: kept.level("messages_unacknowledged") },
  ]);
  charts.failed.show([
    { name: "rejected", points: kept.rate("rejected") },
    { name: "returned", points: kept.rate("return_unroutable") },
    { name: "dead-lettered or dropped", points: kept.rate("rejected", "expired", "dropped", "limited") },
  ]);
  charts.memory.show([{ name: "in use", points: kept.level("mem_used") }], limitOf(node));
  charts.free.show([{ name: "free", points: kept.level("disk_free") }]);
  charts.connections.show([{ name: "open", points: kept.level("connections") }]);
  charts.traffic.show([
    { name: "from clients", points: kept.rate("recv_oct") },
    { name: "to clients", points: kept.rate("send_oct") },
  ]);
  charts.times.show([
    { name: "confirm p50", points: kept.level("confirm_p50_us", US) },
    { name: "confirm p99", points: kept.level("confirm_p99_us", US) },
    { name: "delivery p50", points: kept.level("delivery_p50_us", US) },
    { name: "delivery p99", points: kept.level("delivery_p99_us", US) },
  ]);
  charts.inside.show([
    { name: "sync to disk", points: kept.level("sync_p99_us", US) },
    { name: "turn of the broker", points: kept.level("turn_p99_us", US) },
  ]);
  charts.disk.show([{ name: "commits", points: kept.rate("written_oct") }]);
}

/** A limit that is far away would flatten the line. @param {any} node */
function limitOf(node) {
  return node.mem_limit && node.mem_used > node.mem_limit / 4 ? { value: node.mem_limit, name: "limit" } : undefined;
}

/** @param {any[]} listeners */
function listenersView(listeners) {
  if (!listeners.length) return null;
  const rows = listeners.map((each) => h("li", {}, h("b", {}, each.protocol), ` ${each.ip_address ?? ""}:${each.port}`));
  return panel("Listeners", h("ul", { class: "inline" }, rows), [], true);
}
