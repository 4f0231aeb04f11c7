/** Exchanges and queues as a drawing: exchanges on the left, what they lead to on the right. */
import { get, path } from "../api.js";
import { h, put } from "../dom.js";
import { several } from "../format.js";
import { link } from "../router.js";
import { seenVhosts, someVhost } from "../session.js";
import { Graph } from "../graph.js";
import { edgesOf } from "../layout.js";
import { plainTable } from "../table.js";
import { bindingColumns } from "./bindings.js";
import { heading, panel, Slot } from "./parts.js";
import { routes } from "./routes.js";

const POLL_MS = 10_000;
const NODES_MAX = 400;

/** @type {import("../app.js").Show} */
export async function showTopology(main, life) {
  const vhosts = seenVhosts();
  const select = h("select", { "aria-label": "Vhost to draw" }, vhosts.map((each) => h("option", { value: each }, each)));
  select.value = vhosts.includes("/") ? "/" : (vhosts[0] ?? someVhost());
  const idle = h("input", { type: "checkbox", id: "with-unbound" });
  const graph = new Graph();
  const tree = new Slot();
  const list = new Slot();
  const note = h("span", { class: "muted small" });
  const bar = h("div", { class: "bar" }, vhosts.length > 1 ? select : null, h("label", { class: "row small", for: "with-unbound" }, idle, "show unbound exchanges and queues"), h("span", { class: "grow" }), note, graph.controls);
  put(
    main,
    heading("Topology"),
    h("section", { class: "panel", "aria-label": "Drawing" }, bar, graph.element, h("div", { class: "routes-pane" }, tree.element)),
    panel("Bindings as a list", list.element),
  );
  const draw = async () => {
    const vhost = select.value;
    const [bindings, exchanges, queues] = await Promise.all([
      get(path`/api/bindings/${vhost}`, { signal: life.signal }),
      get(path`/api/exchanges/${vhost}`, { query: { columns: "name,type" }, signal: life.signal }),
      get(path`/api/queues/${vhost}`, { query: { columns: "name,type" }, signal: life.signal }),
    ]);
    const shown = bindings.filter((/** @type {any} */ each) => each.source !== "");
    const model = modelOf(vhost, shown, exchanges, queues, idle.checked);
    const left = Math.max(model.nodes.length - NODES_MAX, 0);
    put(note, `${several(model.nodes.length, "node")}, ${several(shown.length, "binding")}${left ? `; the first ${NODES_MAX} are drawn` : ""}`);
    const drawn = model.nodes.slice(0, NODES_MAX);
    graph.show(drawn, model.edges);
    tree.show([drawn, model.edges], () => (drawn.length ? routes(drawn, model.edges) : h("div", { class: "empty" }, "No bindings.")));
    list.show(shown, () => {
      const [to, ...rest] = bindingColumns(vhost, life, "destination");
      return plainTable("Bindings", [{ title: "From", lead: true, wrap: true, cell: (row) => h("a", { href: link("exchanges", vhost, row.source) }, row.source) }, { ...to, lead: false }, ...rest], shown, "No bindings except those of the default exchange.");
    });
  };
  select.addEventListener("change", () => void life.once(draw));
  idle.addEventListener("change", () => void life.once(draw));
  await life.every(POLL_MS, draw);
}

/** @param {string} vhost @param {any[]} bindings @param {any[]} exchanges @param {any[]} queues @param {boolean} all */
function modelOf(vhost, bindings, exchanges, queues, all) {
  const used = new Set(bindings.flatMap((each) => [`e ${each.source}`, `${each.destination_type === "queue" ? "q" : "e"} ${each.destination}`]));
  const nodes = [
    ...exchanges.filter((each) => each.name).map((each) => ({ id: `e ${each.name}`, name: each.name, kind: each.type, queue: false, to: link("exchanges", vhost, each.name) })),
    ...queues.map((each) => ({ id: `q ${each.name}`, name: each.name, kind: each.type, queue: true, to: link("queues", vhost, each.name) })),
  ].filter((each) => all || used.has(each.id));
  const edges = edgesOf(bindings.map((each) => ({ from: `e ${each.source}`, to: `${each.destination_type === "queue" ? "q" : "e"} ${each.destination}`, key: each.routing_key })));
  return { nodes, edges };
}
