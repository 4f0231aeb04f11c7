/** Zooms a chart: dragging over it chooses a span of time, + and - halve and double it, Escape shows all again. */
import { h, svg } from "./dom.js";

const SPAN_MS_MIN = 10_000;
const DRAGGED_MIN = 6; // pixels: less is a click

export class Zoom {
  /** @param {import("./chart.js").Chart} chart */
  constructor(chart) {
    this.chart = chart;
    /** @type {{start: number, end: number} | null} */
    this.span = null;
    /** @type {{x: number, from: number, to: number} | null} */
    this.drag = null;
    this.reset = h("button", { type: "button", class: "link small", hidden: true, onclick: () => this.show(null) }, "Show all");
    chart.plot.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => this.begin(event));
    chart.plot.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => this.move(event));
    chart.plot.addEventListener("pointerup", (/** @type {PointerEvent} */ event) => this.end(event));
    chart.plot.addEventListener("pointercancel", () => this.forget());
    chart.plot.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => this.key(event));
  }

  /** @param {{start: number, end: number} | null} span null: all of it */
  show(span) {
    this.span = span;
    this.reset.hidden = span === null;
    const { at } = this.chart;
    if (span && at !== null && (at < span.start || at > span.end)) this.chart.at = null; // it is not shown any more
    this.chart.draw();
  }

  /** @param {PointerEvent} event */
  begin(event) {
    if (event.button !== 0 || event.pointerType === "touch") return; // a finger scrolls
    const ms = this.chart.timeAt(event.offsetX);
    this.drag = { x: event.offsetX, from: ms, to: ms };
    this.chart.plot.setPointerCapture(event.pointerId);
  }

  /** @param {PointerEvent} event */
  move(event) {
    if (!this.drag) return;
    this.drag.to = this.chart.timeAt(event.offsetX);
    this.chart.draw();
  }

  /** @param {PointerEvent} event */
  end(event) {
    const drag = this.drag;
    this.forget();
    if (!drag || Math.abs(event.offsetX - drag.x) < DRAGGED_MIN) return;
    this.around((drag.from + drag.to) / 2, Math.abs(drag.to - drag.from));
  }

  forget() {
    this.drag = null;
    this.chart.draw();
  }

  /** @param {number} middle @param {number} wanted milliseconds */
  around(middle, wanted) {
    const all = this.chart.wholeSpan();
    const span = Math.max(wanted, SPAN_MS_MIN);
    if (span >= all.end - all.start) return this.show(null);
    const start = Math.min(Math.max(middle - span / 2, all.start), all.end - span);
    this.show({ start, end: start + span });
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const by = { "+": 0.5, "=": 0.5, "-": 2 }[event.key];
    if (by !== undefined) {
      const { start, end } = this.chart.shownSpan();
      this.around(this.chart.at ?? (start + end) / 2, (end - start) * by);
    } else if (event.key === "Escape" && this.span) this.show(null);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  /** What is being chosen. @param {(ms: number) => number} x @param {number} top @param {number} bottom */
  mark(x, top, bottom) {
    if (!this.drag) return [];
    const [one, other] = [x(this.drag.from), x(this.drag.to)];
    return [svg("rect", { class: "chosen", x: Math.min(one, other), width: Math.abs(other - one), y: top, height: bottom - top })];
  }
}
