/** Who is logged in, which vhost is looked at, and what may be done there. */
import { get, path } from "./api.js";

/** @type {{name: string, tags: Set<string>, permissions: any[], vhost: string, vhosts: string[], listener: () => void}} */
const session = { name: "", tags: new Set(), permissions: [], vhost: "", vhosts: [], listener: () => {} };
const VHOST = "forebay.vhost";

/** @param {any} who what /api/whoami tells */
export async function begin(who) {
  session.name = who.name;
  session.tags = new Set(who.tags);
  session.permissions = who.permissions ?? [];
  await refreshVhosts();
  const kept = localStorage.getItem(VHOST) ?? "";
  session.vhost = session.vhosts.includes(kept) ? kept : "";
}

export async function refreshVhosts() {
  const found = await get("/api/vhosts", { query: { columns: "name" } });
  session.vhosts = found.map((/** @type {any} */ each) => each.name).sort();
  session.listener();
}

/** @param {() => void} listener called when there are other vhosts */
export function onVhosts(listener) {
  session.listener = listener;
}

export const user = () => session.name;
export const vhosts = () => session.vhosts;

/** The vhost that lists are limited to; "" is all of them. */
export const chosenVhost = () => session.vhost;

/** The one that new things are made in. */
export const someVhost = () => session.vhost || (session.vhosts.includes("/") ? "/" : (session.vhosts[0] ?? "/"));

/** Those that a view goes through. */
export const seenVhosts = () => (session.vhost ? [session.vhost] : session.vhosts);

/** @param {string} name */
export function chooseVhost(name) {
  session.vhost = name;
  localStorage.setItem(VHOST, name);
}

/** /api/queues, or /api/queues/{vhost} where one is chosen. @param {string} kind */
export function listPath(kind) {
  return session.vhost ? path`/api/${kind}/${session.vhost}` : path`/api/${kind}`;
}

export const isAdministrator = () => session.tags.has("administrator");
export const isPolicymaker = () => isAdministrator() || session.tags.has("policymaker");
export const isMonitor = () => isAdministrator() || session.tags.has("monitoring");

/**
 * Whether the user may do this to something of that name, as far as its permissions tell.
 * @param {"configure" | "write" | "read"} what
 * @param {string} vhost
 * @param {string} [name] left out: to anything
 */
export function may(what, vhost, name) {
  const given = session.permissions.find((each) => each.vhost === vhost);
  const pattern = given?.[what];
  if (pattern === undefined) return false;
  if (name === undefined) return pattern !== "" && pattern !== "^$";
  try {
    return pattern === "" ? name === "" : new RegExp(pattern, "u").test(name || "amq.default");
  } catch {
    return true; // a pattern that only Python understands: the broker decides
  }
}

/** Whether the user may look at a queue's messages, and settle them. @param {string} vhost @param {string} queue */
export function mayHandle(vhost, queue) {
  return isAdministrator() || may("read", vhost, queue);
}

/** In which of the vhosts that are seen. @param {"configure" | "write" | "read"} what */
export function maySomewhere(what) {
  return seenVhosts().some((vhost) => may(what, vhost));
}
