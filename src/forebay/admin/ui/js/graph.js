/**
 * Draws nodes in layers and edges between them; moved with the pointer or the arrow keys, zoomed with the wheel or
 * + and -. Each node is a link that Tab reaches.
 *
 * @typedef {{id: string, name: string, kind: string, queue: boolean, to: string}} Node_
 * @typedef {{from: string, to: string, key: string}} Edge
 */
import { h, iconButton, put, svg } from "./dom.js";

const WIDTH = 190;
const HEIGHT = 38;
const COLUMN = 330;
const LINE = 52;
const NAME_CHARACTERS = 26;
const KEY_CHARACTERS = 22;
const ZOOM = 1.25;
const SCALE_MIN = 0.8;
const SCALE_MAX = 1.6;
const SWEEPS = 6;

export class Graph {
  constructor() {
    this.view = { x: 0, y: 0, w: 900, h: 440 };
    this.said = "";
    this.drawing = svg("svg", { role: "group", "aria-label": "Exchanges and queues; arrow keys move, plus and minus zoom" });
    this.none = h("div", { class: "empty", hidden: true }, "Nothing is bound to anything.");
    const zoom = h("div", { class: "zoom" }, iconButton("plus", "Zoom in", () => this.zoom(1 / ZOOM)), iconButton("minus", "Zoom out", () => this.zoom(ZOOM)), h("button", { type: "button", onclick: () => this.fit() }, "Fit"));
    this.element = h("div", { class: "graph" }, this.drawing, zoom, this.none);
    this.drawing.addEventListener("wheel", (/** @type {WheelEvent} */ event) => this.wheel(event), { passive: false });
    this.drawing.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => this.drag(event));
    this.element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.key(event));
    new ResizeObserver(() => this.fit()).observe(this.drawing);
  }

  /** @param {Node_[]} nodes @param {Edge[]} edges */
  show(nodes, edges) {
    const said = JSON.stringify([nodes, edges]);
    if (said === this.said) return; // where somebody has moved it to stays
    this.said = said;
    this.none.hidden = nodes.length > 0;
    const places = layout(nodes, edges);
    this.lines = edges.filter((edge) => places.has(edge.from) && places.has(edge.to)).map((edge) => this.edge(edge, places));
    const boxes = nodes.map((node) => this.node(node, /** @type {any} */ (places.get(node.id))));
    put(this.drawing, this.lines.map((line) => line.path), boxes, this.lines.map((line) => line.label));
    const all = [...places.values()];
    this.size = { w: Math.max(0, ...all.map((place) => place.x)) + WIDTH, h: Math.max(0, ...all.map((place) => place.y)) + HEIGHT };
    this.fit();
  }

  /** @param {Node_} node @param {{x: number, y: number}} place */
  node(node, place) {
    const near = (/** @type {boolean} */ on) => this.near(node.id, on);
    return svg(
      "a",
      {
        class: `node ${node.queue ? "queue" : "exchange"}`,
        href: node.to,
        transform: `translate(${place.x} ${place.y})`,
        onfocus: () => near(true),
        onblur: () => near(false),
        onpointerenter: () => near(true),
        onpointerleave: () => near(false),
      },
      svg("title", {}, `${node.queue ? "queue" : "exchange"} ${node.name}, ${node.kind}`),
      svg("rect", { width: WIDTH, height: HEIGHT, rx: node.queue ? 4 : HEIGHT / 2 }),
      svg("text", { x: 14, y: 16, "aria-hidden": "true" }, cut(node.name, NAME_CHARACTERS)),
      svg("text", { class: "kind", x: 14, y: 30, "aria-hidden": "true" }, `${node.kind} ${node.queue ? "" : "exchange"}`),
    );
  }

  /** @param {Edge} edge @param {Map<string, {x: number, y: number}>} places */
  edge(edge, places) {
    const from = /** @type {any} */ (places.get(edge.from));
    const to = /** @type {any} */ (places.get(edge.to));
    const [x1, y1, x2, y2] = [from.x + WIDTH, from.y + HEIGHT / 2, to.x, to.y + HEIGHT / 2];
    const bend = Math.max((x2 - x1) / 2, 40);
    const path = svg("path", { class: "edge", d: `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}` });
    // Keys stand where lines arrive: there they are apart, while they all begin at one point.
    const label = svg("text", { class: "key", x: x2 - 8, y: y2 - 5, "text-anchor": "end" }, cut(edge.key, KEY_CHARACTERS));
    return { ...edge, path, label };
  }

  /** @param {string} id @param {boolean} on */
  near(id, on) {
    for (const line of this.lines ?? []) if (line.from === id || line.to === id) line.path.classList.toggle("near", on);
  }

  fit() {
    const box = this.drawing.getBoundingClientRect();
    if (!box.width || !this.size) return;
    const whole = Math.max(this.size.w / (box.width - 32), this.size.h / (box.height - 32), SCALE_MIN);
    const scale = Math.min(whole, SCALE_MAX); // what does not fit can still be read, and is reached by moving
    const [w, hh] = [box.width * scale, box.height * scale];
    const at = (/** @type {number} */ all, /** @type {number} */ seen) => (seen >= all ? (all - seen) / 2 : -16);
    this.view = { x: at(this.size.w, w), y: at(this.size.h, hh), w, h: hh };
    this.look();
  }

  look() {
    const { x, y, w, h: hh } = this.view;
    this.drawing.setAttribute("viewBox", `${x} ${y} ${w} ${hh}`);
  }

  /** @param {number} by @param {number} [atX] a part of the width @param {number} [atY] */
  zoom(by, atX = 0.5, atY = 0.5) {
    const { x, y, w, h: hh } = this.view;
    this.view = { x: x + w * (1 - by) * atX, y: y + hh * (1 - by) * atY, w: w * by, h: hh * by };
    this.look();
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!event.ctrlKey && !event.shiftKey && document.activeElement !== event.target) {
      // The page scrolls over the drawing; with Ctrl or Shift the wheel zooms.
      return;
    }
    event.preventDefault();
    const box = this.drawing.getBoundingClientRect();
    this.zoom(event.deltaY > 0 ? 1.1 : 1 / 1.1, (event.clientX - box.left) / box.width, (event.clientY - box.top) / box.height);
  }

  /** @param {PointerEvent} event */
  drag(event) {
    if (/** @type {Element} */ (event.target).closest(".node")) return;
    const box = this.drawing.getBoundingClientRect();
    const start = { ...this.view };
    this.drawing.setPointerCapture(event.pointerId);
    const move = (/** @type {PointerEvent} */ now) => {
      this.view = { ...start, x: start.x - ((now.clientX - event.clientX) * start.w) / box.width, y: start.y - ((now.clientY - event.clientY) * start.h) / box.height };
      this.look();
    };
    this.drawing.addEventListener("pointermove", move);
    this.drawing.addEventListener("pointerup", () => this.drawing.removeEventListener("pointermove", move), { once: true });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) {
      this.view.x += (step[0] * this.view.w) / 12;
      this.view.y += (step[1] * this.view.h) / 12;
      this.look();
    } else if (event.key === "+" || event.key === "=") this.zoom(1 / ZOOM);
    else if (event.key === "-") this.zoom(ZOOM);
    else return;
    event.preventDefault();
  }
}

/**
 * Columns by how far from a source something is, queues all in the last; within a column by where its sources are, so
 * that lines cross little.
 * @param {Node_[]} nodes @param {Edge[]} edges
 * @returns {Map<string, {x: number, y: number}>}
 */
export function layout(nodes, edges) {
  const depth = new Map(nodes.map((node) => [node.id, 0]));
  for (let round = 0; round < SWEEPS; round += 1) {
    for (const { from, to } of edges) {
      if (to.startsWith("e ") && depth.has(from) && depth.has(to) && from !== to) {
        depth.set(to, Math.min(Math.max(/** @type {number} */ (depth.get(to)), /** @type {number} */ (depth.get(from)) + 1), SWEEPS));
      }
    }
  }
  const last = Math.max(0, ...nodes.filter((node) => !node.queue).map((node) => depth.get(node.id) ?? 0)) + 1;
  /** @type {Node_[][]} */
  const columns = Array.from({ length: last + 1 }, () => []);
  for (const node of nodes) columns[node.queue ? last : /** @type {number} */ (depth.get(node.id))].push(node);
  const rows = new Map(columns.flatMap((column) => column.map((node, at) => /** @type {[string, number]} */ ([node.id, at]))));
  for (let round = 0; round < SWEEPS; round += 1) {
    for (const column of columns) {
      const wanted = new Map(column.map((node) => [node.id, middle(node.id, edges, rows)]));
      column.sort((one, other) => /** @type {number} */ (wanted.get(one.id)) - /** @type {number} */ (wanted.get(other.id)));
      column.forEach((node, at) => rows.set(node.id, at - column.length / 2));
    }
  }
  const height = Math.max(...columns.map((column) => column.length)) * LINE;
  return new Map(
    columns.flatMap((column, at) => {
      const top = (height - column.length * LINE) / 2;
      return column.map((node, row) => /** @type {[string, {x: number, y: number}]} */ ([node.id, { x: at * COLUMN, y: top + row * LINE }]));
    }),
  );
}

/** Where a node's neighbours are on average. @param {string} id @param {Edge[]} edges @param {Map<string, number>} rows */
function middle(id, edges, rows) {
  const near = edges.flatMap((edge) => (edge.to === id ? [rows.get(edge.from)] : edge.from === id ? [rows.get(edge.to)] : [])).filter((row) => row !== undefined);
  return near.length ? near.reduce((all, row) => all + row, 0) / near.length : (rows.get(id) ?? 0);
}

/** @param {string} text @param {number} most */
function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
