/** Short messages in the corner; screen readers hear them. */
import { h, iconButton } from "./dom.js";
import { several } from "./format.js";

const SHOWN_MS = 6000;
const box = h("div", { class: "toasts", role: "status", "aria-live": "polite" });

export function mount() {
  document.body.append(box);
}

/** @param {string} text @param {"ok" | "bad"} [kind] */
export function toast(text, kind = "ok") {
  const line = h("div", { class: `toast ${kind}` }, h("div", {}, text));
  line.append(iconButton("close", "Dismiss", () => line.remove()));
  box.append(line);
  // What went wrong stays until somebody has read it.
  if (kind === "ok") setTimeout(() => line.remove(), SHOWN_MS);
}

/** @param {unknown} error */
export function complain(error) {
  toast(error instanceof Error ? error.message : String(error), "bad");
}

/** What became of the messages that something was done to. @param {{done: number, refused: number, refusal: string}} sum @param {string} how */
export function tellSum({ done, refused, refusal }, how) {
  toast(`${several(done, "message")} ${how}`);
  if (refused) toast(`${several(refused, "message")} not moved: ${refusal}`, "bad");
}

/**
 * Does something, and says how that went.
 * @template T
 * @param {() => Promise<T>} work
 * @param {string | ((result: T) => string)} done
 * @returns {Promise<T | undefined>} undefined if it failed
 */
export async function attempt(work, done) {
  try {
    const result = await work();
    toast(typeof done === "string" ? done : done(result));
    return result ?? /** @type {any} */ (true);
  } catch (error) {
    complain(error);
    return undefined;
  }
}
