/** The axis of a chart: its ends and ticks, which are short to write, and the place of each value between its ends. */
const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const SECONDS_MAX = 90_000; // an axis of times that ends later has whole minutes

const TICKS = 3;
const LOGARITHMIC_TICKS_MAX = 6;
// Milliseconds at which a logarithmic axis of times has a tick: ten times the one before, or nearly so.
const DECADES = [0.001, 0.01, 0.1, 1, 10, 100, 1000, 10_000, MINUTE, 10 * MINUTE, HOUR, 10 * HOUR, 96 * HOUR, 960 * HOUR, 9600 * HOUR, 96_000 * HOUR, 960_000 * HOUR];

/**
 * @typedef {{ticks: number[], place: (value: number) => number}} Axis place: 0 at the lower end, 1 at the upper one
 */

/** An axis from 0 on. @param {number} highest @param {boolean} times @param {boolean} binary @returns {Axis} */
export function linearAxis(highest, times, binary) {
  const top = topOf(highest, times, binary);
  return { ticks: [0, 1, 2, 3].map((tick) => (top * tick) / TICKS), place: (value) => value / top };
}

/**
 * An axis of times on which each step is about ten times the one before: one slow message does not flatten the rest.
 * Its lower end is the highest tick that nothing measured is below; 0, which has no place, is drawn there.
 * @param {number[]} values @param {number} floor that it reaches up to at least @returns {Axis}
 */
export function logarithmicAxis(values, floor) {
  const shown = values.filter((each) => each > 0);
  const first = Math.max(0, DECADES.findLastIndex((each) => each <= Math.min(floor, ...shown)));
  const highest = Math.max(floor, ...shown);
  const end = DECADES.findIndex((each, index) => each >= highest && index > first);
  const last = end < 0 ? DECADES.length - 1 : end;
  const step = Math.ceil((last - first + 1) / LOGARITHMIC_TICKS_MAX);
  const ticks = DECADES.filter((_, index) => index >= first && index < last + step && (index - first) % step === 0);
  const [low, high] = [Math.log(ticks[0]), Math.log(ticks[ticks.length - 1])];
  return { ticks, place: (value) => Math.min(1, Math.max(0, (Math.log(Math.max(value, ticks[0])) - low) / (high - low))) };
}

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
