/**
 * What the histograms of /api/forebay/figures say of the time between two answers.
 *
 * @typedef {{bounds: number[], counts: number[], total: {count: number, mean: number}}} Histogram
 *          counts[i] is of values up to bounds[i], the last of those beyond
 */

/**
 * What that part of the values counted since then stay below; null where none were.
 * @param {Histogram | undefined} now
 * @param {Histogram | undefined} before
 * @param {number} part
 */
export function quantile(now, before, part) {
  if (!now || !before) return null;
  const counts = now.counts.map((count, at) => Math.max(count - before.counts[at], 0));
  let left = counts.reduce((all, count) => all + count, 0) * part;
  if (left === 0) return null;
  for (const [at, count] of counts.entries()) {
    if (left <= count) {
      const low = at === 0 ? 0 : now.bounds[at - 1];
      const high = now.bounds[at] ?? low * 2;
      return low + ((high - low) * left) / count;
    }
    left -= count;
  }
  return null;
}

/** How much all values counted since then are together. @param {Histogram | undefined} now @param {Histogram | undefined} before */
export function added(now, before) {
  if (!now || !before) return null;
  return Math.max(now.total.count * now.total.mean - before.total.count * before.total.mean, 0);
}
