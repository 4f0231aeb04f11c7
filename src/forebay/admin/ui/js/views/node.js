/** The broker's process and its options. */
import { get, items, operation } from "../api.js";
import { h, put } from "../dom.js";
import { count, duration, meter, octets, plain, several, state, yes } from "../format.js";
import { isAdministrator } from "../session.js";
import { Table, localSource } from "../table.js";
import { complain } from "../toast.js";
import { button, facts, heading, panel, Slot } from "./parts.js";

const POLL_MS = 5000;

/** @type {import("../app.js").Show} */
export async function showNode(main, life) {
  const [node, limits] = [new Slot(), new Slot()];
  const answer = h("div", { "aria-live": "polite" });
  const options = isAdministrator() ? optionTable(life) : null;
  const reload = button("Reload the configuration", async () => {
    try {
      put(answer, reloaded(await operation("config.reload")));
      await options?.reload();
    } catch (error) {
      complain(error);
    }
  });
  put(
    main,
    heading("Node", { actions: isAdministrator() ? [reload] : [] }),
    answer,
    h("div", { class: "columns" }, panel("Process", node.element, [], true), panel("Resources", limits.element, [], true)),
    options ? panel("Options", options.element) : null,
  );
  if (options) void options.reload();
  await life.every(POLL_MS, async () => {
    const nodes = await get("/api/nodes", { signal: life.signal });
    const found = nodes.find((/** @type {any} */ each) => each.os_pid); // in a cluster the one that answers
    node.show(found, () => processFacts(found));
    limits.show(found, () => resourceFacts(found));
  });
}

/** @param {any} node */
function processFacts(node) {
  return facts([
    ["Name", node.name],
    ["State", node.being_drained ? state("warn", "draining") : state(node.running ? "ok" : "bad", node.running ? "running" : "stopped")],
    ["Up for", duration(node.uptime)],
    ["Process", node.os_pid],
    ["Processors", node.processors],
    ["Data", plain(node.db_dir)],
    ["Configuration", plain(node.config_files)],
  ]);
}

/** @param {any} node */
function resourceFacts(node) {
  const open = node.fd_total ? meter(node.fd_used, node.fd_total, `${count(node.fd_used)} of ${count(node.fd_total)}`) : count(node.fd_used);
  return facts([
    ["Memory", meter(node.mem_used, node.mem_limit, `${octets(node.mem_used)} of ${octets(node.mem_limit)}`)],
    ["Memory alarm", node.mem_alarm ? state("bad", "set") : state("ok", "no")],
    ["Disk free", `${octets(node.disk_free)}, alarm below ${octets(node.disk_free_limit)}`],
    ["Disk alarm", node.disk_free_alarm ? state("bad", "set") : state("ok", "no")],
    ["Open files", open],
    ["Sockets", count(node.sockets_used)],
  ]);
}

/** @param {any} life */
function optionTable(life) {
  return new Table({
    label: "Options",
    columns: [
      { title: "Option", sort: "name", lead: true, wrap: true, cell: (row) => row.name },
      { title: "Value", sort: "value", wrap: true, cell: (row) => [h("code", {}, plain(row.value))] },
      { title: "From", sort: "origin", wrap: true, cell: (row) => plain(row.origin) },
      { title: "Reloadable", sort: "reloadable", cell: (row) => yes(row.reloadable) },
    ],
    key: (row) => row.name,
    source: localSource(async (signal) => {
      return items("config.show", {}, signal);
    }),
    signal: life.signal,
    sort: { key: "name", reverse: false },
    empty: "No options.",
  });
}

/** @param {any} result */
function reloaded(result) {
  const applied = result.applied ?? [];
  const restart = result.restart ?? [];
  const lines = [
    applied.length ? `Applied: ${applied.map((/** @type {any} */ each) => `${each.name} ${plain(each.old)} → ${plain(each.new)}`).join("; ")}.` : "No reloadable option has changed.",
    restart.length ? `${several(restart.length, "option")} wait for a restart: ${restart.map((/** @type {any} */ each) => each.name ?? each).join(", ")}.` : null,
  ];
  return h("div", { class: restart.length ? "banner warn" : "banner ok" }, lines.filter(Boolean).join(" "));
}
