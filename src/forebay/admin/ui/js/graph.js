/**
 * Draws nodes in columns and edges between them; moved with the pointer or the arrow keys, zoomed with the wheel or
 * + and -. Each node is a link that Tab reaches. Who points at a node or a line sees where it leads.
 *
 * @typedef {import("./layout.js").Node_} Node_
 * @typedef {import("./layout.js").Edge} Edge
 * @typedef {import("./layout.js").Place} Place
 */
import { h, iconButton, put, svg } from "./dom.js";
import { around, layout, LINE, WIDTH } from "./layout.js";

const NAME_CHARACTERS = 26;
const KEY_CHARACTERS = 22;
const ZOOM = 1.25;
const SCALE_MIN = 0.8;
const SCALE_MAX = 1.6;
const DRAWING_MIN = 200;
const DRAWING_MAX = 620;
const ARROW = 5;
const TURN = 70; // between columns
const BACK = 20; // left of the first, where the margin is small

export class Graph {
  constructor() {
    this.view = { x: 0, y: 0, w: 900, h: 440 };
    this.said = "";
    /** @type {Edge[]} */
    this.edges = [];
    this.below = 0; // where a line may go that leads back
    this.drawing = svg("svg", { role: "group", "aria-label": "Exchanges and queues; arrow keys move, plus and minus zoom" });
    this.none = h("div", { class: "empty", hidden: true }, "No bindings.");
    this.controls = h("div", { class: "zoom" }, iconButton("plus", "Zoom in", () => this.zoom(1 / ZOOM)), iconButton("minus", "Zoom out", () => this.zoom(ZOOM)), h("button", { type: "button", onclick: () => this.fit() }, "Fit"));
    this.element = h("div", { class: "graph" }, this.drawing, this.none);
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
    const drawn = new Set(nodes.map((node) => node.id));
    this.edges = edges.filter((edge) => drawn.has(edge.from) && drawn.has(edge.to));
    const { places, ways } = layout(nodes, this.edges);
    const all = [...places.values()];
    this.below = Math.max(0, ...all.map((place) => place.y + place.h));
    this.lines = this.edges.map((edge) => this.line(edge, places, ways));
    const boxes = nodes.map((node) => this.node(node, /** @type {Place} */ (places.get(node.id))));
    put(this.drawing, this.lines.map((line) => line.group), boxes, this.lines.map((line) => line.label));
    this.size = { w: Math.max(0, ...all.map((place) => place.x)) + WIDTH, h: this.below };
    this.drawing.style.height = `${Math.min(Math.max(this.size.h + 48, DRAWING_MIN), DRAWING_MAX)}px`;
    this.fit();
  }

  /** @param {Node_} node @param {Place} place */
  node(node, place) {
    const near = (/** @type {boolean} */ on) => this.near(on ? around(this.edges, node.id) : new Set());
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
      svg("rect", { width: WIDTH, height: place.h, rx: node.queue ? 4 : 19 }),
      svg("text", { x: 14, y: place.h / 2 - 3, "aria-hidden": "true" }, cut(node.name, NAME_CHARACTERS)),
      svg("text", { class: "kind", x: 14, y: place.h / 2 + 11, "aria-hidden": "true" }, `${node.kind} ${node.queue ? "" : "exchange"}`),
    );
  }

  /** @param {Edge} edge @param {Map<string, Place>} places @param {Map<Edge, string[]>} ways */
  line(edge, places, ways) {
    const placeOf = (/** @type {string} */ id) => /** @type {Place} */ (places.get(id));
    const [from, to] = [placeOf(edge.from), placeOf(edge.to)];
    // Lines that end at one box end one below the other, in the order of where they come from.
    const before = (/** @type {Edge} */ each) => placeOf(ways.get(each)?.at(-1) ?? each.from).y;
    const arriving = this.edges.filter((each) => each.to === edge.to).sort((one, other) => before(one) - before(other));
    const [endX, endY] = [to.x, to.y + to.h / 2 + (arriving.indexOf(edge) - (arriving.length - 1) / 2) * LINE];
    let [x, y] = [from.x + WIDTH, from.y + from.h / 2];
    let d = `M${x} ${y}`;
    const bend = (/** @type {number} */ toX, /** @type {number} */ toY) => {
      const by = Math.max((toX - x) / 2, 40);
      d += `C${x + by} ${y} ${toX - by} ${toY} ${toX} ${toY}`;
      [x, y] = [toX, toY];
    };
    if (endX < x) {
      // It leads back, by which a circle is closed: below all boxes, where nothing is in its way.
      this.below += LINE;
      d += `c${TURN} 0 ${TURN} ${this.below - y} 0 ${this.below - y}H${endX - ARROW}c${-BACK} 0 ${-BACK} ${endY - this.below} 0 ${endY - this.below}`;
    } else {
      for (const id of ways.get(edge) ?? []) {
        const row = placeOf(id);
        bend(row.x, row.y + row.h / 2);
        x += WIDTH;
        d += `H${x}`;
      }
      bend(endX - ARROW, endY);
    }
    const near = (/** @type {boolean} */ on) => this.near(on ? new Set([edge]) : new Set());
    const keys = edge.keys.filter(Boolean).join(", ");
    const group = svg(
      "g",
      { class: "line", onpointerenter: () => near(true), onpointerleave: () => near(false) },
      svg("path", { class: "edge", d }),
      svg("path", { class: "reach", d }),
      svg("path", { class: "arrow", d: `M${endX} ${endY}l${-ARROW - 2} ${-ARROW + 1}v${2 * ARROW - 2}z` }),
      keys ? svg("title", {}, keys) : null,
    );
    const label = svg("text", { class: "key", x: endX - ARROW - 6, y: endY - 3, "text-anchor": "end" }, cut(keys, KEY_CHARACTERS));
    return { edge, group, label };
  }

  /** Shows these lines, and the others faintly; all alike where there are none. @param {Set<Edge>} edges */
  near(edges) {
    this.drawing.classList.toggle("following", edges.size > 0);
    for (const { edge, group, label } of this.lines ?? []) for (const each of [group, label]) each.classList.toggle("near", edges.has(edge));
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

/** @param {string} text @param {number} most */
function cut(text, most) {
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}
