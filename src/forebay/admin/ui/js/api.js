/** Talks to the HTTP API. The session is a cookie that scripts cannot read. */

/** What the API refused, in its own words. */
export class ApiError extends Error {
  /** @param {number} status @param {string} reason */
  constructor(status, reason) {
    super(reason);
    this.status = status;
  }
}

/** The broker did not answer. */
export class Unreachable extends Error {}

/** @typedef {{body?: unknown, query?: Record<string, unknown>, signal?: AbortSignal, headers?: Record<string, string>}} Asked */

/**
 * A path whose values are percent-encoded: path`/api/queues/${vhost}/${name}`.
 * @param {TemplateStringsArray} parts
 * @param {...unknown} values
 */
export function path(parts, ...values) {
  return String.raw({ raw: parts }, ...values.map((value) => encodeURIComponent(String(value))));
}

/**
 * The answer to one request; ApiError or Unreachable otherwise.
 * @param {string} method
 * @param {string} where
 * @param {Asked} [asked]
 * @returns {Promise<any>}
 */
export async function request(method, where, asked = {}) {
  const answer = await send(method, where, asked);
  const text = await answer.text();
  if (answer.ok) {
    return text ? JSON.parse(text) : null;
  }
  const reason = reasonOf(answer.status, text);
  if (answer.status === 401 && where !== "/api/login" && where !== "/api/whoami" && !(await whoami())) {
    window.dispatchEvent(new Event("forebay-logged-out"));
  }
  throw new ApiError(answer.status, reason);
}

/** @param {string} method @param {string} where @param {Asked} asked */
async function send(method, where, { body, query = {}, signal, headers: more = {} }) {
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== "" && value !== null);
  const tail = given.length ? `?${new URLSearchParams(given.map(([name, value]) => [name, String(value)]))}` : "";
  /** @type {Record<string, string>} */
  const headers = { ...more, "X-Requested-With": "forebay", Accept: "application/json" };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  try {
    return await fetch(where + tail, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      cache: "no-store",
      credentials: "same-origin",
    });
  } catch (error) {
    if (signal?.aborted) throw error;
    throw new Unreachable("the broker does not answer");
  }
}

/** @param {number} status @param {string} text */
function reasonOf(status, text) {
  try {
    const found = JSON.parse(text);
    const reason = found.reason ?? found.detail ?? found.error;
    if (reason) return typeof reason === "string" ? reason : JSON.stringify(reason);
  } catch {
    // not JSON: what stands there is shown
  }
  return text.slice(0, 300) || `the broker answered with status ${status}`;
}

/**
 * Has a route go through a queue until it is through: each answer tells where the next goes on.
 * @param {string} method
 * @param {string} where
 * @param {Record<string, unknown>} body
 * @returns {Promise<{done: number, refused: number, refusal: string}>}
 */
export async function through(method, where, body) {
  const sum = { done: 0, refused: 0, refusal: "" };
  let from = 0;
  for (;;) {
    const answer = await request(method, where, { body: { ...body, from } });
    sum.done += answer.done;
    sum.refused += answer.refused ?? 0;
    sum.refusal ||= answer.refusal ?? "";
    if (answer.next === undefined || answer.next === null) return sum;
    from = answer.next;
  }
}

export const get = (/** @type {string} */ where, /** @type {Asked} */ asked = {}) => request("GET", where, asked);
export const post = (/** @type {string} */ where, /** @type {unknown} */ body = {}) => request("POST", where, { body });
export const replace = (/** @type {string} */ where, /** @type {unknown} */ body = {}) => request("PUT", where, { body });
export const remove = (/** @type {string} */ where, /** @type {Record<string, unknown>} */ query = {}) =>
  request("DELETE", where, { query });

/**
 * One of the operations of docs/reference/control.md.
 * @param {string} name
 * @param {Record<string, unknown>} [values]
 * @param {AbortSignal} [signal]
 */
export function operation(name, values = {}, signal = undefined) {
  return request("POST", path`/api/forebay/operations/${name}`, { body: values, signal });
}

/**
 * All items of an operation that lists in pages, up to a number that a page can show.
 * @param {string} name
 * @param {Record<string, unknown>} [values]
 * @param {AbortSignal} [signal]
 */
export async function items(name, values = {}, signal = undefined) {
  const found = [];
  let from = 0;
  while (found.length < ITEMS_MAX) {
    const answer = await operation(name, { ...values, from, limit: 1000 }, signal);
    found.push(...answer.items);
    if (answer.next === undefined || answer.next === null) break;
    from = answer.next;
  }
  return found;
}

const ITEMS_MAX = 10_000;

/** Who is logged in, or null. @returns {Promise<any>} */
export async function whoami() {
  try {
    return await request("GET", "/api/whoami");
  } catch (error) {
    if (error instanceof ApiError && error.status === 401) return null;
    throw error;
  }
}

/** @param {string} username @param {string} password */
export function login(username, password) {
  return post("/api/login", { username, password });
}

export function logout() {
  return post("/api/logout");
}
