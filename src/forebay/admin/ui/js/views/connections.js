/** Who is connected: connections, their channels, their consumers. */
import { get, path, request } from "../api.js";
import { Chart } from "../chart.js";
import { askForm } from "../dialog.js";
import { h, put } from "../dom.js";
import { ago, count, moment, octets, plain, rate, several, yes } from "../format.js";
import { Kept } from "../history.js";
import { go, link } from "../router.js";
import { chosenVhost, isAdministrator, listPath, user } from "../session.js";
import { Table, localSource, plainTable, remoteSource } from "../table.js";
import { toast } from "../toast.js";
import { button, chooseSpan, connectionState, facts, heading, panel, queueLink, Slot, vhostColumn } from "./parts.js";

const POLL_MS = 5000;

/** Lists of connections and channels of one vhost have paths of their own. @param {string} kind */
const inVhost = (kind) => (chosenVhost() ? path`/api/vhosts/${chosenVhost()}/${kind}` : path`/api/${kind}`);

/** @type {import("../app.js").Show} */
export async function showConnections(main, life) {
  /** @type {Table} */
  const table = new Table({
    label: "Connections",
    columns: [
      { title: "Name", sort: "forebay.title", lead: true, line: "first", wrap: true, cell: (row) => [h("a", { href: link("connections", row.name) }, titleOf(row))] },
      ...vhostColumn(),
      { title: "User", sort: "user", line: "second", cell: (row) => row.user },
      { title: "State", sort: "state", line: "first", wrap: true, cell: stateAndWhy },
      { title: "Client", sort: "forebay.client", wrap: true, cell: (row) => row.forebay?.client || "–" },
      { title: "Protocol", sort: "protocol", line: "second", cell: (row) => `${row.forebay.protocol}${row.ssl ? ", TLS" : ""}` },
      { title: "Channels", sort: "channels", num: true, cell: (row) => count(row.channels ?? 0) },
      { title: "From client", sort: "recv_oct_details.rate", num: true, cell: (row) => `${octets(Math.round(row.recv_oct_details?.rate ?? 0))}/s` },
      { title: "To client", sort: "send_oct_details.rate", num: true, cell: (row) => `${octets(Math.round(row.send_oct_details?.rate ?? 0))}/s` },
      { title: "Since", sort: "connected_at", cell: (row) => ago(row.connected_at) },
    ],
    key: (row) => row.name,
    source: remoteSource(() => inVhost("connections"), () => ({}), "search"),
    signal: life.signal,
    sort: { key: "forebay.title", reverse: false },
    hint: "Filter by anything shown",
    empty: "No connections.",
    actions: (rows) => {
      const own = rows.filter((row) => mayClose(row));
      return own.length ? [button("Close", () => askClose(own, () => table.reload()), "danger")] : [];
    },
  });
  put(main, heading("Connections"), h("section", { class: "panel", "aria-label": "Connections" }, table.element));
  await life.every(POLL_MS, () => table.refresh());
}

/** How a connection is, and why it is not well. @param {any} row */
function stateAndWhy(row) {
  const why = row.forebay?.why;
  return why ? [connectionState({ state: row.state === "running" ? "slow" : row.state }), h("div", { class: "small muted" }, why)] : connectionState(row);
}

/** What a client calls itself, or else its addresses. @param {any} row */
const titleOf = (row) => row.forebay?.title || row.name;

/** @param {any} row */
const mayClose = (row) => isAdministrator() || row.user === user();

/** @param {any[]} rows @param {() => unknown} done */
function askClose(rows, done) {
  const form = {
    title: `Close ${several(rows.length, "connection")}?`,
    about: `${rows.map((row) => row.name).slice(0, 5).join(", ")}${rows.length > 5 ? "…" : ""}. Clients may reconnect.`,
    submit: "Close",
    danger: true,
    fields: [{ name: "reason", label: "Reason for the clients", value: "closed by an administrator" }],
  };
  return askForm(form, async ({ reason }) => {
    const headers = { "X-Reason": reason.replaceAll(/[^\x20-\x7e]/g, "?") }; // a header holds no other letters
    for (const row of rows) await request("DELETE", path`/api/connections/${row.name}`, { headers });
    toast(`${several(rows.length, "connection")} closed`);
    await done();
  });
}

/** @type {import("../app.js").Show} */
export async function showConnection(main, life, [name]) {
  const where = path`/api/connections/${name}`;
  const first = await get(where, { signal: life.signal });
  const [slot, channels, links, consumers] = [new Slot(), new Slot(), new Slot(), new Slot()];
  const about = new Slot("span");
  const mqtt = first.protocol?.startsWith("MQTT");
  const hasLinks = first.forebay.protocol === "AMQP 1.0";
  const charts = {
    octets: new Chart("Network", { format: (value) => `${octets(value)}/s`, floor: 1024, binary: true }),
    messages: new Chart("Messages a second", { format: rate }),
  };
  const kept = new Kept(path`/api/forebay/connections/${name}/samples`);
  const span = chooseSpan(life);
  const shown = mqtt ? [charts.octets] : Object.values(charts);
  const actions = [span.element, mayClose(first) ? button("Close", () => askClose([first], () => go("#/connections")), "danger") : null];
  put(
    main,
    heading(titleOf(first), { crumbs: [["Connections", "#/connections"]], about: about.element, actions }),
    h("div", { class: "columns" }, shown.map((chart) => h("section", { class: "panel" }, chart.element))),
    panel("Connection", slot.element, [], true),
    mqtt ? null : panel(hasLinks ? "Sessions" : "Channels", channels.element),
    hasLinks ? panel("Links", links.element) : null,
    panel("Consumers", consumers.element),
  );
  await life.every(POLL_MS, async () => {
    const [connection] = await Promise.all([get(where, { signal: life.signal }), kept.refresh(span.seconds(), life.signal)]);
    for (const chart of shown) chart.spanMs = span.seconds() * 1000;
    drawCharts(charts, kept);
    about.show([connection.state, connection.forebay?.why], () => stateAndWhy(connection));
    slot.show(connection, () => connectionFacts(connection));
    const [listed, all] = await Promise.all([mqtt ? [] : get(`${where}/channels`, { signal: life.signal }), get(path`/api/consumers/${connection.vhost}`, { signal: life.signal })]);
    channels.show(listed, () => plainTable("Channels", channelColumns(), listed, "No channels."));
    if (hasLinks) {
      const attached = linksOf(await get(`${where}/sessions`, { signal: life.signal }));
      links.show(attached, () => plainTable("Links", linkColumns(connection.vhost), attached, "No links."));
    }
    const own = all.filter((/** @type {any} */ each) => each.channel_details?.connection_name === name);
    consumers.show(own, () => plainTable("Consumers", consumerColumns(), own, "No consumers."));
  });
}

/** @param {{octets: Chart, messages: Chart}} charts @param {Kept} kept */
function drawCharts(charts, kept) {
  charts.octets.show([
    { name: "from client", points: kept.rate("recv_oct") },
    { name: "to client", points: kept.rate("send_oct") },
  ]);
  charts.messages.show([
    { name: "published", points: kept.rate("publish") },
    { name: "delivered", points: kept.rate("deliver_get") },
    { name: "acknowledged", points: kept.rate("ack") },
    { name: "returned", points: kept.rate("return_unroutable") },
  ]);
}

/** @param {any} row */
function connectionFacts(row) {
  const client = row.client_properties ?? {};
  const id = row.variable_map?.client_id ?? row.client_id;
  return h(
    "div",
    { class: "columns" },
    facts([
      ["Name", titleOf(row)],
      ["Addresses", row.name],
      ["User", row.user],
      ["Virtual host", row.vhost],
      ["Protocol", row.forebay.protocol],
      ["MQTT client", id ? h("a", { href: link("sessions", row.vhost, id) }, id) : id],
      ["Login", row.auth_mechanism],
      ["TLS", row.ssl ? `${row.ssl_protocol ?? "yes"} ${row.ssl_cipher ?? ""}` : "no"],
      ["Certificate of", row.peer_cert_subject],
    ]),
    facts([
      ["Since", `${moment(row.connected_at)}, ${ago(row.connected_at)}`],
      ["Heartbeat", row.timeout ? `${row.timeout} s` : "none"],
      ["Frames up to", row.frame_max ? octets(row.frame_max) : null],
      ["From client", `${octets(row.recv_oct)}, ${octets(Math.round(row.recv_oct_details?.rate ?? 0))}/s`],
      ["To client", `${octets(row.send_oct)}, ${octets(Math.round(row.send_oct_details?.rate ?? 0))}/s`],
      ["Client library", [row.forebay?.client, client.platform].filter(Boolean).join(", ") || null],
    ]),
  );
}

/** @returns {import("../table.js").Column[]} */
function channelColumns() {
  const stat = (/** @type {string} */ name) => (/** @type {any} */ row) => rate(row.message_stats?.[`${name}_details`]?.rate ?? 0);
  return [
    { title: "Channel", sort: "name", lead: true, wrap: true, cell: (row) => h("a", { href: link("connections", row.connection_details?.name ?? row.name) }, row.name) },
    { title: "User", sort: "user", cell: (row) => row.user },
    { title: "State", sort: "state", cell: connectionState },
    { title: "Mode", cell: (row) => (row.confirm ? "confirms" : row.transactional ? "transactions" : "–") },
    { title: "Prefetch", sort: "prefetch_count", num: true, cell: (row) => row.prefetch_count || "no limit" },
    { title: "Unacked", sort: "messages_unacknowledged", num: true, cell: (row) => count(row.messages_unacknowledged) },
    { title: "Unconfirmed", sort: "messages_unconfirmed", num: true, cell: (row) => count(row.messages_unconfirmed) },
    { title: "Publish", sort: "message_stats.publish_details.rate", num: true, cell: stat("publish") },
    { title: "Deliver", sort: "message_stats.deliver_get_details.rate", num: true, cell: stat("deliver_get") },
    { title: "Ack", sort: "message_stats.ack_details.rate", num: true, cell: stat("ack") },
  ];
}

/** Return the links of all sessions of a connection over AMQP 1.0. @param {any[]} sessions */
function linksOf(sessions) {
  return sessions.flatMap((session) => [
    ...session.incoming_links.map((/** @type {any} */ each) => ({ ...each, session: session.channel_number, way: "client sends" })),
    ...session.outgoing_links.map((/** @type {any} */ each) => ({ ...each, session: session.channel_number, way: "client receives" })),
  ]);
}

/** @param {string} vhost @returns {import("../table.js").Column[]} */
function linkColumns(vhost) {
  const address = (/** @type {any} */ row) => row.target_address ?? row.source_address ?? "of each message";
  return [
    { title: "Link", lead: true, wrap: true, cell: (row) => row.link_name || "–" },
    { title: "Session", num: true, cell: (row) => count(row.session) },
    { title: "Direction", cell: (row) => row.way },
    { title: "Address", wrap: true, cell: (row) => (row.queue_name ? [queueLink(vhost, row.queue_name)] : address(row)) },
    { title: "Credit", num: true, cell: (row) => count(row.credit) },
    { title: "Deliveries", num: true, cell: (row) => count(row.delivery_count) },
    { title: "Settled at once", cell: (row) => ("send_settled" in row ? yes(row.send_settled) : "–") },
  ];
}

/** @type {import("../app.js").Show} */
export async function showChannels(main, life) {
  const [name, ...rest] = channelColumns();
  /** @type {Table} */
  const table = new Table({
    label: "Channels",
    columns: [name, ...vhostColumn(), ...rest],
    key: (row) => row.name,
    source: remoteSource(() => inVhost("channels")),
    signal: life.signal,
    sort: { key: "name", reverse: false },
    empty: "No channels.",
  });
  put(main, heading("Channels"), h("section", { class: "panel", "aria-label": "Channels" }, table.element));
  await life.every(POLL_MS, () => table.refresh());
}

/** @returns {import("../table.js").Column[]} */
function consumerColumns() {
  return [
    { title: "Consumer", sort: "consumer_tag", lead: true, wrap: true, cell: (row) => row.consumer_tag || "–" },
    { title: "Queue", sort: "queue.name", wrap: true, cell: (row) => [queueLink(row.queue.vhost, row.queue.name)] },
    { title: "Connection", wrap: true, cell: (row) => [h("a", { href: link("connections", row.channel_details?.connection_name ?? "") }, row.channel_details?.name ?? "–")] },
    { title: "User", sort: "channel_details.user", cell: (row) => row.channel_details?.user ?? "–" },
    { title: "Acknowledges", sort: "ack_required", cell: (row) => yes(row.ack_required) },
    { title: "Prefetch", sort: "prefetch_count", num: true, cell: (row) => row.prefetch_count || "no limit" },
    { title: "Active", sort: "active", cell: (row) => (row.active ? "yes" : (row.activity_status ?? "no").replaceAll("_", " ")) },
    { title: "Arguments", wrap: true, cell: (row) => plain(row.arguments) },
  ];
}

/** @type {import("../app.js").Show} */
export async function showConsumers(main, life) {
  /** @type {Table} */
  const table = new Table({
    label: "Consumers",
    columns: consumerColumns(),
    key: (row) => `${row.channel_details?.name} ${row.queue.vhost} ${row.queue.name} ${row.consumer_tag}`,
    source: localSource((signal) => get(listPath("consumers"), { signal })),
    signal: life.signal,
    sort: { key: "queue.name", reverse: false },
    empty: "No consumers.",
  });
  put(main, heading("Consumers"), h("section", { class: "panel", "aria-label": "Consumers" }, table.element));
  await life.every(POLL_MS, () => table.refresh());
}
