/** Values over time for charts: those that the broker has kept, and those that the page has seen. */

const KEPT_MS = 600_000;

/** @typedef {import("./chart.js").Point} Point */

/**
 * What a count of the API was at each of its samples, oldest first.
 * @param {any} details `messages_details` and the like
 * @returns {Point[]}
 */
export function levels(details) {
  return (details?.samples ?? []).map((/** @type {any} */ each) => [each.timestamp, each.sample]).reverse();
}

/**
 * How fast a count of the API grew between its samples, a second.
 * @param {any} details `publish_details` and the like
 * @returns {Point[]}
 */
export function rates(details) {
  const points = levels(details);
  return points.slice(1).map(([ms, value], at) => {
    const [before, low] = points[at];
    return [ms, Math.max((/** @type {number} */ (value) - /** @type {number} */ (low)) * 1000, 0) / Math.max(ms - before, 1)];
  });
}

/** Several such lines as one: what is not there counts as nothing. @param {Point[][]} lines @returns {Point[]} */
export function sum(lines) {
  const whole = new Map();
  for (const line of lines) for (const [ms, value] of line) whole.set(ms, (whole.get(ms) ?? 0) + (value ?? 0));
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
