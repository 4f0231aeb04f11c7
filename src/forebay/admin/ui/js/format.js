/** How figures, sizes, times and states are written. One way each. */
import { h } from "./dom.js";

const GROUPS = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const UNITS = ["B", "KiB", "MiB", "GiB", "TiB"];

/** A count with groups of digits. @param {unknown} value */
export function count(value) {
  return typeof value === "number" && Number.isFinite(value) ? GROUPS.format(value) : "–";
}

/** Events a second. @param {unknown} value */
export function rate(value) {
  return typeof value === "number" && Number.isFinite(value) ? `${short(value)}/s` : "–";
}

/** A figure in at most five characters: 12, 3.4, 12k. @param {number} value */
export function short(value) {
  const size = Math.abs(value);
  if (size >= 1e9) return `${trim(value / 1e9)}G`;
  if (size >= 1e6) return `${trim(value / 1e6)}M`;
  if (size >= 1e4) return `${trim(value / 1e3)}k`;
  return size === 0 || size >= 10 ? GROUPS.format(value) : trim(value);
}

/** @param {number} value */
function trim(value) {
  const size = Math.abs(value);
  const text = value.toFixed(size >= 100 ? 0 : size >= 1 || size === 0 ? 1 : 2);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
}

/** Octets. @param {unknown} value */
export function octets(value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return "–";
  let size = value;
  let unit = 0;
  while (Math.abs(size) >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 ? size : trim(size)} ${UNITS[unit]}`;
}

/** A length of time. @param {unknown} ms */
export function duration(ms) {
  if (typeof ms !== "number" || !Number.isFinite(ms)) return "–";
  if (ms === 0) return "0 s";
  if (ms < 1) return `${trim(ms * 1000)} µs`;
  if (ms < 1000) return `${trim(ms)} ms`;
  const seconds = ms / 1000;
  if (seconds < 60) return `${trim(seconds)} s`;
  if (seconds < 3600) return two(seconds, 60, "min", 1, "s");
  if (seconds < 86400) return two(seconds, 3600, "h", 60, "min");
  return two(seconds, 86400, "d", 3600, "h");
}

/** 5 min 20 s, or 5 min. @param {number} seconds @param {number} large @param {string} unit @param {number} small @param {string} next */
function two(seconds, large, unit, small, next) {
  const rest = Math.floor((seconds % large) / small);
  return `${Math.floor(seconds / large)} ${unit}${rest ? ` ${rest} ${next}` : ""}`;
}

/** How long ago. @param {unknown} ms */
export function ago(ms) {
  if (typeof ms !== "number") return "–";
  const seconds = Math.floor((Date.now() - ms) / 1000);
  return seconds < 1 ? "just now" : `${duration(seconds * 1000)} ago`;
}

/** A point in time, as the reader's clock has it. @param {unknown} ms */
export function moment(ms) {
  if (typeof ms !== "number" || !Number.isFinite(ms)) return "–";
  const at = new Date(ms);
  if (Number.isNaN(at.getTime())) return "–";
  const pad = (/** @type {number} */ n) => String(n).padStart(2, "0");
  const day = `${at.getFullYear()}-${pad(at.getMonth() + 1)}-${pad(at.getDate())}`;
  return `${day} ${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
}

/** @param {number} ms */
export function clock(ms) {
  return moment(ms).slice(11);
}

/** A state as a shape and a word. @param {"ok" | "idle" | "warn" | "bad"} kind @param {string} word */
export function state(kind, word) {
  return h("span", { class: `state ${kind}` }, word);
}

/** @param {unknown} flag */
export function yes(flag) {
  return flag ? "yes" : "no";
}

/** What a value is as text, for facts and arguments. @param {unknown} value @returns {string} */
export function plain(value) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value === "boolean") return yes(value);
  if (Array.isArray(value)) return value.length ? value.map(plain).join(", ") : "–";
  if (typeof value === "object") {
    const entries = Object.entries(value);
    return entries.length ? entries.map(([key, each]) => `${key}: ${plain(each)}`).join(", ") : "–";
  }
  return String(value);
}

/** A part of a whole as a bar and a word. @param {number} used @param {number} limit @param {string} text */
export function meter(used, limit, text) {
  const part = limit > 0 ? Math.min(used / limit, 1) : 0;
  const fill = h("span");
  fill.style.width = `${(part * 100).toFixed(1)}%`;
  const kind = part >= 1 ? "bad" : part >= 0.8 ? "warn" : "";
  return [h("span", { class: `meter ${kind}`, "aria-hidden": "true" }, fill), text];
}

/** Several of something. @param {number} n @param {string} one @param {string} [many] */
export function several(n, one, many = `${one}s`) {
  return `${count(n)} ${n === 1 ? one : many}`;
}
