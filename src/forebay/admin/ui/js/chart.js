/**
 * Line charts over time. Lines differ by dashes as well as by colour; the summary of a chart is its label, its values
 * are a table, and the arrow keys walk through its points.
 *
 * @typedef {[number, number | null]} Point milliseconds and a value
 * @typedef {{name: string, points: Point[]}} Series
 */
import { linearAxis, logarithmicAxis } from "./axis.js";
import { h, put, svg } from "./dom.js";
import { clock, duration, short } from "./format.js";
import { Zoom } from "./zoom.js";

const HEIGHT = 150;
const LEFT = 62;
const RIGHT = 8;
const TOP = 8;
const BOTTOM = 20;
const TABLE_ROWS_MAX = 60;

export class Chart {
  /**
   * @param {string} title
   * @param {{format?: (value: any) => string, spanMs?: number, floor?: number, binary?: boolean, logarithmic?: boolean}} [options]
   *        floor: the least value that the axis reaches up to; binary: its steps are of 1024; logarithmic: of times
   */
  constructor(title, { format = short, spanMs = 600_000, floor = 1, binary = false, logarithmic = false } = {}) {
    this.title = title;
    this.format = format;
    this.spanMs = spanMs;
    this.floor = floor;
    this.binary = binary;
    this.logarithmic = logarithmic;
    /** @type {Series[]} */
    this.series = [];
    /** @type {number | null} */
    this.at = null;
    this.width = 0;
    this.when = h("span", { class: "when" });
    this.legend = h("ul");
    this.plot = svg("svg", { class: "plot", role: "img", tabindex: "0" });
    this.zoom = new Zoom(this);
    this.rows = h("tbody");
    this.columns = h("tr");
    this.details = h(
      "details",
      { ontoggle: () => this.drawTable() },
      h("summary", {}, "Values"),
      h("div", { class: "scroll" }, h("table", {}, h("thead", {}, this.columns), this.rows)),
    );
    this.element = h(
      "figure",
      { class: "chart" },
      h("figcaption", {}, h("h2", {}, title), this.zoom.reset, this.when, this.legend),
      this.plot,
      this.details,
    );
    this.plot.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => this.point(event));
    this.plot.addEventListener("pointerleave", () => this.look(null));
    this.plot.addEventListener("blur", () => this.look(null));
    this.plot.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.step(event));
    new ResizeObserver(() => this.resized()).observe(this.plot);
  }

  resized() {
    const width = Math.round(this.plot.getBoundingClientRect().width);
    if (width && width !== this.width) {
      this.width = width;
      this.draw();
    }
  }

  /** @param {Series[]} series @param {{value: number, name: string}} [limit] a line that should not be crossed */
  show(series, limit = undefined) {
    this.series = series;
    this.limit = limit;
    this.draw();
  }

  times() {
    return [...new Set(this.series.flatMap((each) => each.points.map(([ms]) => ms)))].sort((a, b) => a - b);
  }

  wholeSpan() {
    const end = this.times().at(-1) ?? Date.now();
    return { start: end - this.spanMs, end };
  }

  shownSpan() {
    return this.zoom.span ?? this.wholeSpan();
  }

  bounds() {
    const { start, end } = this.shownSpan();
    const values = this.series.flatMap((each) => each.points.filter(([ms]) => ms >= start && ms <= end).map(([, value]) => value ?? 0));
    if (this.logarithmic) return { start, end, axis: logarithmicAxis(values, this.floor) };
    const highest = Math.max(this.floor, this.limit?.value ?? 0, ...values);
    return { start, end, axis: linearAxis(highest, this.format === duration, this.binary) };
  }

  draw() {
    this.drawLegend();
    if (this.details.open) this.drawTable();
    if (!this.width) return;
    const { start, end, axis } = this.bounds();
    const x = (/** @type {number} */ ms) => LEFT + ((ms - start) / (end - start)) * (this.width - LEFT - RIGHT);
    const y = (/** @type {number} */ value) => HEIGHT - BOTTOM - axis.place(value) * (HEIGHT - TOP - BOTTOM);
    this.plot.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
    this.plot.setAttribute("aria-label", `${this.title}. ${this.summary()}`);
    const lines = this.series.map((each, index) => svg("path", { class: `s${index + 1}`, d: pathOf(each.points, start, end, x, y) }));
    put(this.plot, this.axes(start, end, axis.ticks, x, y), lines, this.limitLine(y), this.zoom.mark(x, TOP, HEIGHT - BOTTOM), this.cursor(x, y));
  }

  /** @param {number} start @param {number} end @param {number[]} ticks @param {(ms: number) => number} x @param {(v: number) => number} y */
  axes(start, end, ticks, x, y) {
    const parts = [];
    for (const value of ticks) {
      parts.push(svg("line", { class: "grid", x1: LEFT, x2: this.width - RIGHT, y1: y(value), y2: y(value) }));
      parts.push(svg("text", { x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, this.format(value)));
    }
    const steps = this.width < 360 ? 2 : 4;
    for (let step = 0; step <= steps; step += 1) {
      const ms = start + ((end - start) * step) / steps;
      const anchor = step === 0 ? "start" : step === steps ? "end" : "middle";
      parts.push(svg("text", { x: x(ms), y: HEIGHT - 5, "text-anchor": anchor }, clock(ms).slice(0, end - start > 120_000 ? 5 : 8)));
    }
    return parts;
  }

  /** @param {(v: number) => number} y */
  limitLine(y) {
    if (!this.limit) return [];
    const at = y(this.limit.value);
    return [
      svg("path", { class: "limit", d: `M${LEFT} ${at}H${this.width - RIGHT}` }),
      svg("text", { x: this.width - RIGHT, y: at + 12, "text-anchor": "end" }, this.limit.name),
    ];
  }

  /** @param {(ms: number) => number} x @param {(v: number) => number} y */
  cursor(x, y) {
    if (this.at === null) return [];
    const at = x(this.at);
    return [svg("line", { class: "cursor", x1: at, x2: at, y1: TOP, y2: HEIGHT - BOTTOM })].concat(
      this.series.flatMap((each, index) => {
        const value = valueAt(each.points, /** @type {number} */ (this.at));
        return value === null ? [] : [svg("circle", { class: `s${index + 1}`, cx: at, cy: y(value), r: 3, fill: "currentColor" })];
      }),
    );
  }

  drawLegend() {
    const at = this.at ?? this.times().at(-1) ?? 0;
    put(this.when, this.at === null ? "" : clock(this.at));
    const entries = this.series.map((each, index) => {
      const value = valueAt(each.points, at);
      const line = svg("svg", { viewBox: "0 0 18 8", "aria-hidden": "true" }, svg("path", { class: `s${index + 1}`, d: "M0 4H18" }));
      return h("li", {}, line, h("span", {}, `${each.name} `, h("b", {}, value === null ? "–" : this.format(value))));
    });
    put(this.legend, entries);
  }

  summary() {
    const parts = this.series.map((each) => {
      const values = each.points.flatMap(([, value]) => (value === null ? [] : [value]));
      if (!values.length) return `${each.name}: no values yet`;
      const [now, low, high] = [values.at(-1), Math.min(...values), Math.max(...values)].map((value) => this.format(value));
      return `${each.name}: now ${now}, between ${low} and ${high}`;
    });
    return parts.join("; ");
  }

  drawTable() {
    if (!this.details.open) return;
    put(this.columns, h("th", { scope: "col" }, "Time"), this.series.map((each) => h("th", { scope: "col", class: "num" }, each.name)));
    const rows = this.times()
      .slice(-TABLE_ROWS_MAX)
      .reverse()
      .map((ms) => {
        const values = this.series.map((each) => valueAt(each.points, ms));
        return h("tr", {}, h("td", {}, clock(ms)), values.map((value) => h("td", { class: "num" }, value === null ? "–" : this.format(value))));
      });
    put(this.rows, rows);
  }

  /** @param {PointerEvent} event */
  point(event) {
    const { start, end } = this.shownSpan();
    const wanted = this.timeAt(event.offsetX);
    const times = this.times().filter((ms) => ms >= start && ms <= end);
    this.look(times.reduce((/** @type {number | null} */ best, ms) => (best === null || Math.abs(ms - wanted) < Math.abs(best - wanted) ? ms : best), null));
  }

  /** The time at a place of the drawing. @param {number} x */
  timeAt(x) {
    const { start, end } = this.shownSpan();
    const part = (x - LEFT) / (this.width - LEFT - RIGHT);
    return start + Math.min(Math.max(part, 0), 1) * (end - start);
  }

  /** @param {KeyboardEvent} event */
  step(event) {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    const { start, end } = this.shownSpan();
    const times = this.times().filter((ms) => ms >= start && ms <= end);
    const now = this.at === null ? times.length : times.indexOf(this.at);
    this.look(times[Math.max(0, Math.min(times.length - 1, now + by))] ?? null);
    event.preventDefault();
  }

  /** @param {number | null} ms */
  look(ms) {
    if (ms === this.at) return;
    this.at = ms;
    this.draw();
  }
}

/** @param {Point[]} points @param {number} start @param {number} end @param {(ms: number) => number} x @param {(v: number) => number} y */
function pathOf(points, start, end, x, y) {
  let drawing = false;
  const parts = points.map(([ms, value]) => {
    if (value === null || ms < start || ms > end) {
      drawing = false;
      return "";
    }
    // One point alone has no length: h0 makes it a dot.
    const part = `${drawing ? "L" : "M"}${x(ms).toFixed(1)} ${y(value).toFixed(1)}${drawing ? "" : "h0"}`;
    drawing = true;
    return part;
  });
  return parts.join("");
}

/** @param {Point[]} points @param {number} ms */
function valueAt(points, ms) {
  return points.find((each) => each[0] === ms)?.[1] ?? null;
}
