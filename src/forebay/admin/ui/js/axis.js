/** Where the axis of a chart ends, so that its thirds are short to write. */
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const SECONDS_MAX = 90_000; // an axis of times that ends later has whole minutes

/** @param {number} highest @param {boolean} times in milliseconds @param {boolean} binary its steps are of 1024 */
export function topOf(highest, times, binary) {
  return times && highest > SECONDS_MAX ? niceTime(highest) : nice(highest, binary ? 1024 : 1000);
}

/** The next value that an axis can end at: its thirds are short to write. @param {number} value @param {number} base of its units */
function nice(value, base) {
  const unit = base ** Math.floor(Math.log(value) / Math.log(base) + 1e-9);
  const power = unit * 10 ** Math.floor(Math.log10(value / unit) + 1e-9);
  return power * ([1.5, 3, 6, 9].find((each) => each * power >= value) ?? 15);
}

/** The next time that an axis can end at: its thirds are whole minutes, hours or days. @param {number} ms */
function niceTime(ms) {
  const unit = ms > 72 * HOUR ? 24 * HOUR : ms > 3 * HOUR ? HOUR : MINUTE;
  const thirds = [1, 2, 5, 10, 20, 30, 60].map((each) => 3 * each * unit);
  return thirds.find((each) => each >= ms) ?? nice(ms, 1000);
}
