/**
 * Places for nodes in columns and for lines between them, so that no line passes behind a box.
 *
 * @typedef {{id: string, name: string, kind: string, queue: boolean, to: string}} Node_
 * @typedef {{from: string, to: string, keys: string[]}} Edge one line; several bindings between the same two have several keys
 * @typedef {{x: number, y: number, h: number}} Place
 */

export const WIDTH = 190;
export const LINE = 15; // between two lines that end at one box
const HEIGHT = 38;
const COLUMN = 340;
const GAP = 16;
const SWEEPS = 6;

/** One edge for each pair. @param {{from: string, to: string, key: string}[]} bindings @returns {Edge[]} */
export function edgesOf(bindings) {
  /** @type {Map<string, Edge>} */
  const found = new Map();
  for (const { from, to, key } of bindings) {
    const pair = JSON.stringify([from, to]);
    const edge = found.get(pair) ?? { from, to, keys: [] };
    edge.keys.push(key);
    found.set(pair, edge);
  }
  return [...found.values()];
}

/**
 * Columns by the longest way from a source, queues all in the last; within a column by where neighbours are, so that
 * lines cross little. An edge that passes a column has a row of its own there.
 * @param {Node_[]} nodes @param {Edge[]} edges
 * @returns {{places: Map<string, Place>, ways: Map<Edge, string[]>}} ways: the rows that an edge passes, by their ids
 */
export function layout(nodes, edges) {
  const depths = depthsOf(nodes, edges);
  const columns = /** @type {string[][]} */ (Array.from({ length: Math.max(0, ...depths.values()) + 1 }, () => []));
  for (const { id } of nodes) columns[/** @type {number} */ (depths.get(id))].push(id);
  /** @type {Map<Edge, string[]>} */
  const ways = new Map();
  /** @type {[string, string][]} */
  const links = [];
  edges.forEach((edge, number) => {
    const [first, last] = [depths.get(edge.from) ?? 0, depths.get(edge.to) ?? 0];
    const way = Array.from({ length: Math.max(last - first - 1, 0) }, (_, at) => `w ${number} ${at}`);
    way.forEach((id, at) => columns[first + 1 + at].push(id));
    ways.set(edge, way);
    const all = [edge.from, ...way, edge.to];
    all.slice(1).forEach((id, at) => links.push([all[at], id]));
  });
  const arriving = new Map(nodes.map(({ id }) => [id, edges.filter((edge) => edge.to === id).length]));
  const heights = new Map(columns.flat().map((id) => [id, id.startsWith("w ") ? LINE : Math.max(HEIGHT, LINE * (arriving.get(id) ?? 0) + 8)]));
  return { places: placed(sorted(columns, links), heights), ways };
}

/** @param {Node_[]} nodes @param {Edge[]} edges @returns {Map<string, number>} */
function depthsOf(nodes, edges) {
  const exchanges = new Set(nodes.filter((node) => !node.queue).map((node) => node.id));
  /** @type {Map<string, string[]>} */
  const sources = new Map();
  for (const { from, to } of edges) if (exchanges.has(from) && exchanges.has(to)) sources.set(to, [...(sources.get(to) ?? []), from]);
  /** @type {Map<string, number>} */
  const depths = new Map();
  const open = new Set();
  /** @param {string} id @returns {number} */
  const depthOf = (id) => {
    const known = depths.get(id);
    if (known !== undefined) return known;
    open.add(id); // an edge back into what is open closes a circle, and counts for nothing
    const depth = Math.max(-1, ...(sources.get(id) ?? []).filter((each) => !open.has(each)).map(depthOf)) + 1;
    open.delete(id);
    depths.set(id, depth);
    return depth;
  };
  for (const id of exchanges) depthOf(id);
  const last = Math.max(-1, ...depths.values()) + 1;
  for (const node of nodes) if (node.queue) depths.set(node.id, last);
  return depths;
}

/** @param {string[][]} columns @param {[string, string][]} links */
function sorted(columns, links) {
  /** @type {Map<string, string[]>} */
  const near = new Map();
  for (const [one, other] of links) {
    near.set(one, [...(near.get(one) ?? []), other]);
    near.set(other, [...(near.get(other) ?? []), one]);
  }
  const rows = new Map(columns.flatMap((column) => column.map((id, at) => /** @type {[string, number]} */ ([id, at - column.length / 2]))));
  const middle = (/** @type {string} */ id) => {
    const found = (near.get(id) ?? []).map((each) => rows.get(each) ?? 0);
    return found.length ? found.reduce((all, row) => all + row, 0) / found.length : (rows.get(id) ?? 0);
  };
  for (let round = 0; round < SWEEPS; round += 1) {
    for (const column of columns) {
      const wanted = new Map(column.map((id) => [id, middle(id)]));
      column.sort((one, other) => /** @type {number} */ (wanted.get(one)) - /** @type {number} */ (wanted.get(other)));
      column.forEach((id, at) => rows.set(id, at - column.length / 2));
    }
  }
  return columns;
}

/** @param {string[][]} columns @param {Map<string, number>} heights @returns {Map<string, Place>} */
function placed(columns, heights) {
  const height = (/** @type {string} */ id) => /** @type {number} */ (heights.get(id));
  const total = (/** @type {string[]} */ column) => column.reduce((all, id) => all + height(id) + GAP, 0);
  const tallest = Math.max(0, ...columns.map(total));
  return new Map(
    columns.flatMap((column, at) => {
      let y = (tallest - total(column)) / 2;
      return column.map((id) => {
        const place = { x: at * COLUMN, y, h: height(id) };
        y += height(id) + GAP;
        return /** @type {[string, Place]} */ ([id, place]);
      });
    }),
  );
}

/**
 * All that leads to a node and all that it leads to: the edges, which may go in circles.
 * @param {Edge[]} edges @param {string} id @returns {Set<Edge>}
 */
export function around(edges, id) {
  /** @type {Set<Edge>} */
  const found = new Set();
  const follow = (/** @type {"from" | "to"} */ end, /** @type {"from" | "to"} */ other) => {
    const seen = new Set([id]);
    for (const at of seen) {
      for (const edge of edges) {
        if (edge[end] !== at) continue;
        found.add(edge);
        seen.add(edge[other]); // a set that grows is gone through to its end
      }
    }
  };
  follow("from", "to");
  follow("to", "from");
  return found;
}
