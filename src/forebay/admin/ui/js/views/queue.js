/** One queue or stream: figures, who reads it, what is in it. */
import { get, items, operation, path, post, remove, through } from "../api.js";
import { Chart } from "../chart.js";
import { askForm, confirm, confirmName } from "../dialog.js";
import { h, put } from "../dom.js";
import { ago, count, duration, moment, octets, rate, several, yes } from "../format.js";
import { Kept } from "../history.js";
import { go, link } from "../router.js";
import { isAdministrator, may, mayHandle } from "../session.js";
import { plainTable } from "../table.js";
import { attempt, tellSum, toast } from "../toast.js";
import { bindingColumns } from "./bindings.js";
import { Browser } from "./browse.js";
import { askPublish } from "./publish.js";
import { button, chooseSpan, exchangeNames, facts, heading, panel, queueNames, queueState, Slot, table } from "./parts.js";

const POLL_MS = 3000;
const LEASES_SHOWN = 8;

/** @type {import("../app.js").Show} */
export async function showQueue(main, life, [vhost, name]) {
  const where = path`/api/queues/${vhost}/${name}`;
  const first = await get(where, { signal: life.signal });
  const stream = first.type === "stream";
  const charts = {
    flow: new Chart("Messages a second", { format: rate }),
    held: new Chart(stream ? "Messages kept" : "Messages held", { format: count, floor: 3 }),
    failed: new Chart("Failed, a second", { format: rate }),
    size: new Chart("Size", { format: octets, floor: 1024, binary: true }),
  };
  const kept = new Kept(path`/api/forebay/queues/${vhost}/${name}/samples`);
  const span = chooseSpan(life);
  const messages = mayHandle(vhost, name) ? new Browser(vhost, name, stream, life) : null;
  const changed = () => Promise.all([life.refresh(), messages?.again()]);
  const slots = Object.fromEntries(["state", "facts", "set", "groups", "consumers", "leases", "bindings"].map((each) => [each, new Slot(each === "state" ? "span" : "div")]));
  put(
    main,
    heading(name, { crumbs: [["Queues and streams", "#/queues"], [`vhost ${vhost}`, "#/queues"]], about: slots.state.element, actions: [span.element, ...actions(vhost, name, stream, changed)] }),
    h("div", { class: "columns" }, Object.values(charts).map((chart) => h("section", { class: "panel" }, chart.element))),
    h("div", { class: "columns" }, panel("Statistics", slots.facts.element, [], true), panel("Declared with", slots.set.element, [], true)),
    panel("Groups", slots.groups.element),
    panel("Consumers", slots.consumers.element),
    stream ? null : panel("Held by consumers", slots.leases.element),
    panel("Bindings to this queue", slots.bindings.element, may("write", vhost, name) ? [button("Bind", () => askBind(vhost, name, life))] : []),
    messages?.element,
  );
  await life.every(POLL_MS, async () => {
    const [queue] = await Promise.all([get(where, { signal: life.signal }), kept.refresh(span.seconds(), life.signal)]);
    for (const chart of Object.values(charts)) chart.spanMs = span.seconds() * 1000;
    drawCharts(charts, kept, stream);
    messages?.seen(queue.forebay?.end);
    slots.state.show(queueStateOf(queue), () => queueState(queue));
    slots.facts.show(figures(queue), () => facts(figures(queue)));
    slots.set.show(settings(queue), () => declared(queue));
    slots.consumers.show(queue.consumer_details, () => consumers(queue.consumer_details ?? []));
    await drawRest(vhost, name, slots, stream, life);
  });
}

/** @param {any} queue */
const queueStateOf = (queue) => [queue.state, queue.idle_since, queue.consumers, queue.messages_ready > 0];

/** @param {Record<string, Chart>} charts @param {Kept} kept @param {boolean} stream */
function drawCharts(charts, kept, stream) {
  charts.flow.show([
    { name: "in", points: kept.rate("publish") },
    { name: "out", points: kept.rate("deliver_get") },
    { name: "acknowledged", points: kept.rate("ack") },
  ]);
  const held = [{ name: "ready", points: kept.level("messages_ready") }];
  if (!stream) held.push({ name: "unacknowledged", points: kept.level("messages_unacknowledged") });
  charts.held.show(held);
  charts.failed.show([
    { name: "returned and redelivered", points: kept.rate("redeliver") },
    { name: "rejected", points: kept.rate("rejected") },
    { name: "dead-lettered or dropped", points: kept.rate("rejected", "expired", "dropped", "limited") },
    { name: "refused: queue full", points: kept.rate("refused") },
  ]);
  charts.size.show([{ name: "on disk and in memory", points: kept.level("message_bytes") }]);
}

/** @param {string} vhost @param {string} name @param {Record<string, Slot>} slots @param {boolean} stream @param {any} life */
async function drawRest(vhost, name, slots, stream, life) {
  const bindings = await get(path`/api/queues/${vhost}/${name}/bindings`, { signal: life.signal });
  const shown = bindings.filter((/** @type {any} */ each) => each.source !== "");
  slots.bindings.show(shown, () => plainTable("Bindings", bindingColumns(vhost, life, "source"), shown, "Only the default exchange, by the queue's name."));
  const [groups, leases] = await Promise.all([
    items("group.list", { vhost, queue: name }, life.signal),
    stream ? [] : items("lease.list", { vhost, queue: name }, life.signal),
  ]);
  slots.groups.show(groups, () => groupTable(groups, vhost, name, life));
  slots.leases.show(leases, () => leaseTable(leases, vhost, name, life));
}

/** @param {any} queue @returns {[string, any][]} */
function figures(queue) {
  const stats = queue.message_stats ?? {};
  const own = queue.forebay ?? {};
  return [
    ["Ready", count(queue.messages_ready)],
    ["Unacknowledged", count(queue.messages_unacknowledged)],
    ["Dead letters that wait", queue.messages_dlx ? `${count(queue.messages_dlx)}, ${octets(queue.message_bytes_dlx)}` : null],
    ["Consumers", count(queue.consumers)],
    ["Size", octets(queue.message_bytes)],
    ["Oldest unsettled", own.oldest_ms > 0 ? ago(own.oldest_ms) : null],
    ["Kept for", own.pinned_by ? keptFor(own.pinned_by) : null],
    ["Offsets", own.end === undefined ? null : own.start < own.end ? `${count(own.start)} to ${count(own.end - 1)}` : `none; ${count(own.end)} is next`],
    ["Published", count(stats.publish)],
    ["Delivered", count(stats.deliver_get)],
    ["Acknowledged", count(stats.ack)],
    ["Returned and redelivered", count(stats.redeliver)],
    ["Rejected by consumers", count(own.rejected)],
    ["Dead-lettered or dropped", deaths(own)],
    ["Refused: queue full", count(own.refused)],
  ];
}

/** How many messages died, and of what. @param {any} own */
function deaths(own) {
  const causes = Object.entries({ rejected: own.rejected, expired: own.expired, "over the limit": own.dropped, "delivered too often": own.limited });
  const told = causes.filter(([, number]) => number > 0).map(([cause, number]) => `${count(number)} ${cause}`);
  return told.join(", ") || "0";
}

/** For whom the log keeps its oldest messages. @param {any} pin */
function keptFor({ queue, group, kind, offset, messages, octets: size, frees_messages, active_ms }) {
  const own = kind === "reader" ? `reader ${group}` : group ? `group ${group}` : "the queue's own group";
  const name = kind === "queue" ? `queue ${queue ?? "itself"}` : queue ? `${own} of queue ${queue}` : own;
  const last = active_ms ? `, last active ${ago(active_ms)}` : "";
  const alone = frees_messages ? `, ${count(frees_messages)} of them only by it` : "";
  return `${name}, from #${offset} on: ${several(messages, "message", "messages")}, ${octets(size)}${alone}${last}`;
}

/** @param {any} queue */
function settings(queue) {
  const { type, durable, auto_delete, exclusive, policy, operator_policy, effective_policy_definition, arguments: given } = queue;
  return { type, durable, auto_delete, exclusive, policy, operator_policy, effective_policy_definition, given };
}

/** @param {any} queue */
function declared(queue) {
  return [
    facts([
      ["Type", queue.type],
      ["Durable", yes(queue.durable)],
      ["Auto-delete", queue.auto_delete ? "yes" : null],
      ["Exclusive", queue.exclusive ? "yes" : null],
      ["Arguments", table(queue.arguments, "none")],
      ["Policy", queue.policy ? h("a", { href: "#/policies" }, queue.policy) : "none"],
      ["Operator policy", queue.operator_policy],
      ["From policies", Object.keys(queue.effective_policy_definition ?? {}).length ? table(queue.effective_policy_definition, "") : null],
    ]),
  ];
}

/** @param {any[]} list */
function consumers(list) {
  /** @type {import("../table.js").Column[]} */
  const columns = [
    { title: "Consumer", lead: true, wrap: true, cell: (row) => row.consumer_tag || "–" },
    { title: "Connection", wrap: true, cell: (row) => connectionOf(row) },
    { title: "User", cell: (row) => row.channel_details?.user ?? "–" },
    { title: "Acknowledges", cell: (row) => yes(row.ack_required) },
    { title: "Prefetch", num: true, cell: (row) => row.prefetch_count || "no limit" },
    { title: "Active", cell: (row) => yes(row.active) },
  ];
  return plainTable("Consumers", columns, list, "No consumers.");
}

/** @param {any} row */
function connectionOf(row) {
  const connection = row.channel_details?.connection_name;
  return connection ? h("a", { href: link("connections", connection) }, row.channel_details.name ?? connection) : "–";
}

/** @param {any[]} groups @param {string} vhost @param {string} queue @param {any} life */
function groupTable(groups, vhost, queue, life) {
  /** @type {import("../table.js").Column[]} */
  const columns = [
    { title: "Group", lead: true, wrap: true, cell: (row) => `${row.group || "(the queue's own)"}${row.filter ? `, only ${row.filter}` : ""}` },
    { title: "Kind", cell: (row) => row.kind },
    { title: "Next offset", num: true, cell: (row) => count(row.cursor) },
    { title: "Lag", num: true, cell: (row) => count(row.ready) },
    { title: "Held", num: true, cell: (row) => (row.leased === undefined ? "–" : count(row.leased)) },
    { title: "Committed", num: true, cell: (row) => (row.committed === undefined ? "–" : count(row.committed)) },
    { title: "Consumers", num: true, cell: (row) => count(row.consumers) },
    { title: "Hold ends", cell: (row) => (row.seconds_left === undefined ? "–" : `in ${duration(row.seconds_left * 1000)}`) },
    { title: "", cell: (row) => groupActions(row, vhost, queue, life) },
  ];
  return plainTable("Groups", columns, groups, "No groups.");
}

/** @param {any} group @param {string} vhost @param {string} queue @param {any} life */
function groupActions(group, vhost, queue, life) {
  if (group.kind !== "reader") return [mayHandle(vhost, queue) ? button("Move", () => askSeek(group, vhost, queue, life)) : null, mayDelete(group, vhost, queue) ? button("Delete", () => askDeleteGroup(group, vhost, queue, life)) : null];
  if (!isAdministrator()) return "";
  const about = "Messages that only this reader keeps are deleted. If it still runs, it holds the rest again.";
  const release = () =>
    confirm({ title: `Release ${group.group}?`, about, submit: "Release" }, async () => {
      await operation("group.release", { vhost, queue, group: group.group });
      await life.refresh();
    });
  return button("Release", release);
}

/** The queue's own group goes with its queue. @param {any} group @param {string} vhost @param {string} queue */
const mayDelete = (group, vhost, queue) => (group.key || group.kind === "stream") && (isAdministrator() || may("configure", vhost, queue));

/** @param {any} group */
const nameOf = (group) => group.key || "the queue's own group";

/** @param {any} group @param {string} vhost @param {string} queue @param {any} life */
function askSeek(group, vhost, queue, life) {
  const form = {
    title: `Move ${nameOf(group)}`,
    about: group.kind === "work" ? "Earlier messages count as settled. Later ones are delivered again, and consumers lose those that they hold." : "",
    submit: "Move",
    fields: [{ name: "to", label: "To", required: true, hint: "first, last, next, an offset, timestamp=<ms since 1970>, or a time ago as 90m", value: String(group.cursor) }],
  };
  return askForm(form, async ({ to }) => {
    const { offset } = await operation("group.seek", { vhost, queue, group: group.key, to });
    toast(`${nameOf(group)} continues at ${offset}`);
    await life.refresh();
  });
}

/** @param {any} group @param {string} vhost @param {string} queue @param {any} life */
function askDeleteGroup(group, vhost, queue, life) {
  const about = `Messages that only it keeps are deleted.${group.consumers ? " Its consumers are cancelled." : ""}`;
  return confirmName({ title: `Delete group ${group.key}?`, about, name: group.key, submit: "Delete" }, async () => {
    await operation("group.delete", { vhost, queue, group: group.key, if_unused: !group.consumers });
    toast(`Group ${group.key} is deleted`);
    await life.refresh();
  });
}

/** @param {any[]} leases @param {string} vhost @param {string} queue @param {any} life */
function leaseTable(leases, vhost, queue, life) {
  /** @type {import("../table.js").Column[]} */
  const columns = [
    { title: "Offsets", lead: true, cell: (row) => (row.count === 1 ? `#${row.first}` : `#${row.first} – #${row.first + row.count - 1}`) },
    { title: "Not settled", num: true, cell: (row) => count(row.left) },
    { title: "Consumer", wrap: true, cell: (row) => row.consumer || "–" },
    { title: "Connection", num: true, cell: (row) => `${row.connection}, channel ${row.channel}` },
    { title: "Deliveries", num: true, cell: (row) => count(row.deliveries) },
    { title: "Until", cell: (row) => (row.until_ms > 0 && row.until_ms < 4e12 ? moment(row.until_ms) : "settled") },
    {
      title: "",
      cell: (row) =>
        row.count === 1 && mayHandle(vhost, queue)
          ? button("Take back", () => attempt(async () => {
              await operation("lease.release", { vhost, queue, group: row.group, offset: row.first });
              await life.refresh();
            }, `#${row.first} returned to the queue`))
          : "",
    },
  ];
  const rest = leases.length - LEASES_SHOWN;
  return [
    plainTable("Held by consumers", columns, leases.slice(0, LEASES_SHOWN), "Consumers hold no messages."),
    rest > 0 ? h("div", { class: "pager" }, `and ${several(rest, "more run", "more runs")} of messages`) : null,
  ];
}

/** @param {string} vhost @param {string} name @param {boolean} stream @param {() => Promise<unknown>} changed */
function actions(vhost, name, stream, changed) {
  return [
    may("write", vhost, "") ? button("Publish", async () => (await askPublish(vhost, "", name)) && changed(), "primary") : null,
    !stream && mayHandle(vhost, name) ? button("Move messages", () => askMove(vhost, name, changed)) : null,
    !stream && mayHandle(vhost, name) ? button("Purge", () => askPurge(vhost, name, changed)) : null,
    may("configure", vhost, name) ? button("Delete", () => askDelete(vhost, name), "danger") : null,
  ];
}

/** @param {string} vhost @param {string} name @param {() => Promise<unknown>} changed */
function askPurge(vhost, name, changed) {
  const filter = mayHandle(vhost, name) ? [{ name: "where", label: "Only messages that match", placeholder: "header.region = 'eu' AND age_ms > 60000", hint: "A filter; empty for all ready messages" }] : [];
  const form = {
    title: `Purge ${name}?`,
    about: "Deletes the ready messages. Messages that consumers hold remain.",
    submit: "Purge",
    danger: true,
    fields: [...filter, { name: "typed", label: `Type ${name} to confirm`, required: true }],
  };
  return askForm(form, async ({ where, typed }) => {
    if (typed !== name) throw new Error(`typed: this is not ${name}`);
    if (where) tellSum(await through("DELETE", path`/api/forebay/queues/${vhost}/${name}/messages`, { where }), "discarded");
    else {
      await remove(path`/api/queues/${vhost}/${name}/contents`);
      toast(`${name} is empty`);
    }
    await changed();
  });
}

/** @param {string} vhost @param {string} name @param {() => Promise<unknown>} changed */
async function askMove(vhost, name, changed) {
  const names = (await queueNames(vhost)).filter((each) => each !== name);
  const form = {
    title: `Move messages from ${name}`,
    about: "Each message is in exactly one queue at any time. Messages that consumers hold remain.",
    submit: "Move",
    fields: [
      { name: "to", label: "To queue", required: true, list: names },
      { name: "where", label: "Only messages that match", placeholder: "header.region = 'eu'", hint: "A filter; empty for all" },
    ],
  };
  return askForm(form, async ({ to, where }) => {
    tellSum(await through("POST", path`/api/forebay/queues/${vhost}/${name}/move`, { to, where }), `moved to ${to}`);
    await changed();
  });
}

/** @param {string} vhost @param {string} name */
function askDelete(vhost, name) {
  const about = "Its messages, groups and bindings are deleted, too.";
  return confirmName({ title: `Delete ${name}?`, about, name, submit: "Delete" }, async () => {
    await remove(path`/api/queues/${vhost}/${name}`);
    toast(`Queue ${name} is deleted`);
    go("#/queues");
  });
}

/** @param {string} vhost @param {string} queue @param {any} life */
async function askBind(vhost, queue, life) {
  const form = {
    title: `Bind ${queue}`,
    submit: "Bind",
    fields: [
      { name: "exchange", label: "Exchange", required: true, list: await exchangeNames(vhost) },
      { name: "routing_key", label: "Routing key" },
      { name: "arguments", label: "Arguments", type: /** @type {const} */ ("json") },
    ],
  };
  return askForm(form, async ({ exchange, ...body }) => {
    await post(path`/api/bindings/${vhost}/e/${exchange}/q/${queue}`, body);
    await life.refresh();
  });
}
