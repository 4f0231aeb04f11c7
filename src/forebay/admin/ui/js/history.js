/** Values over time for charts: those that the broker keeps, and where it keeps none those that the page has seen. */
import { get } from "./api.js";

const KEPT_MS = 600_000;

/** @typedef {import("./chart.js").Point} Point */

/** The charts' spans of time, in seconds: up to ten minutes in steps of five seconds, beyond of five minutes. */
export const SPANS = new Map([
  [60, "last minute"],
  [300, "last 5 minutes"],
  [600, "last 10 minutes"],
  [3600, "last hour"],
  [21_600, "last 6 hours"],
  [86_400, "last 24 hours"],
]);

/** How fast a count grew between its points, a second. @param {Point[]} points @returns {Point[]} */
function growth(points) {
  return points.slice(1).map(([ms, value], at) => {
    const [before, low] = points[at];
    return [ms, value === null || low === null ? null : Math.max((value - low) * 1000, 0) / Math.max(ms - before, 1)];
  });
}

/** How fast a count grew between the samples in an answer. @param {any} details `publish_in_details` and the like @returns {Point[]} */
export function rates(details) {
  return growth((details?.samples ?? []).map((/** @type {any} */ each) => [each.timestamp, each.sample]).reverse());
}

/** The samples that the broker keeps of one thing: asked for once, then only what is new. */
export class Kept {
  /** @param {string} where its address */
  constructor(where) {
    this.where = where;
    this.age = 0;
    this.after = 0;
    /** @type {Map<string, Point[]>} */
    this.lines = new Map();
  }

  /** @param {number} age seconds @param {AbortSignal} [signal] */
  async refresh(age, signal) {
    const after = age === this.age ? this.after : 0;
    const answer = await get(this.where, { query: { age, after }, signal });
    if (age !== this.age) this.lines.clear();
    this.age = age;
    for (const [name, details] of Object.entries(answer)) {
      if (details?.samples) this.add(name.replace(/_details$/, ""), details.samples, after);
    }
  }

  /** @param {string} name @param {{sample: number | null, timestamp: number}[]} samples the newest first @param {number} after */
  add(name, samples, after) {
    const old = (this.lines.get(name) ?? []).filter(([ms]) => ms <= after);
    /** @type {Point[]} */
    const line = [...old, ...samples.map((each) => /** @type {Point} */ ([each.timestamp, each.sample])).reverse()];
    const newest = line.at(-1)?.[0] ?? 0;
    while (line.length && line[0][0] < newest - this.age * 1000) line.shift();
    this.lines.set(name, line);
    // Of a day's points the newest is of now, and gives way to the next.
    if (line.length > 1) this.after = line[line.length - 2][0];
  }

  /** @param {string} name @param {number} [scale] @returns {Point[]} */
  level(name, scale = 1) {
    const line = this.lines.get(name) ?? [];
    return scale === 1 ? line : line.map(([ms, value]) => [ms, value === null ? null : value * scale]);
  }

  /** @param {...string} names counters, which are added up @returns {Point[]} */
  rate(...names) {
    return sum(names.map((name) => growth(this.lines.get(name) ?? [])));
  }
}

/** Several such lines as one: what is not there counts as nothing. @param {Point[][]} lines @returns {Point[]} */
function sum(lines) {
  if (lines.length === 1) return lines[0];
  const whole = new Map();
  for (const line of lines) for (const [ms, value] of line) whole.set(ms, value === null ? null : (whole.get(ms) ?? 0) + value);
  return [...whole].sort((one, other) => one[0] - other[0]);
}

/** What the page has seen of values that the broker keeps no samples of. */
export class Seen {
  constructor() {
    /** @type {Map<string, Point[]>} */
    this.lines = new Map();
  }

  /** @param {number} ms @param {Record<string, number | null | undefined>} values */
  add(ms, values) {
    for (const [name, value] of Object.entries(values)) {
      const line = this.lines.get(name) ?? [];
      line.push([ms, value ?? null]);
      while (line.length && line[0][0] < ms - KEPT_MS) line.shift();
      this.lines.set(name, line);
    }
  }

  /** @param {string} name @returns {Point[]} */
  line(name) {
    return this.lines.get(name) ?? [];
  }
}
