/** What can be set for queues, as fields with their meaning: by arguments of their declaration, and by policies. */

/**
 * @typedef {{key: string, label: string, hint: string, group: string, type?: "text" | "number" | "select" | "check", options?: string[], on?: string[], by?: "argument" | "policy" | "user"}} Setting
 *          on: the types of queue that know it; by: who alone can set it, "user" being a policy that is not an operator's, or an argument
 */

const WORK = ["classic", "quorum"];
const [EXPIRY, DEAD, CONSUMERS] = ["Expiry and limits", "Dead letters and retries", "Consumers and priorities"];

/** @type {Setting[]} */
const SETTINGS = [
  { key: "message-ttl", label: "Message TTL, ms", hint: "Older messages expire", group: EXPIRY, type: "number" },
  { key: "expires", label: "Queue TTL, ms", hint: "A queue that is unused for this time is deleted", group: EXPIRY, type: "number", on: WORK },
  { key: "max-length", label: "Max length", hint: "The largest number of messages", group: EXPIRY, type: "number" },
  { key: "max-length-bytes", label: "Max size, bytes", hint: "All messages together", group: EXPIRY, type: "number" },
  { key: "overflow", label: "Overflow", hint: "A full queue drops its oldest message, or refuses new ones", group: EXPIRY, type: "select", options: ["", "drop-head", "reject-publish", "reject-publish-dlx"], on: WORK },
  { key: "max-age", label: "Max age", hint: "A stream drops older messages: 12h, 7D", group: EXPIRY, on: ["stream"], by: "user" },
  { key: "dead-letter-exchange", label: "Dead-letter exchange", hint: "Gets rejected, expired and dropped messages", group: DEAD, on: WORK, by: "user" },
  { key: "dead-letter-routing-key", label: "Dead-letter routing key", hint: "With no exchange: the name of the queue for dead letters", group: DEAD, on: WORK, by: "user" },
  { key: "delivery-limit", label: "Delivery limit", hint: "Failed deliveries after which a message is dead-lettered", group: DEAD, type: "number", on: WORK },
  { key: "single-active-consumer", label: "Single active consumer: one at a time, the others stand by", hint: "", group: CONSUMERS, type: "check", on: WORK, by: "argument" },
  { key: "max-priority", label: "Max priority", hint: "Higher priorities are delivered first; 1 to 255", group: CONSUMERS, type: "number", on: ["classic"], by: "argument" },
];

/** @param {"argument" | "policy" | "operator"} by */
const settable = (by) => SETTINGS.filter((each) => each.by === undefined || each.by === by || (each.by === "user" && by !== "operator"));

/**
 * The fields of a form.
 * @param {"argument" | "policy" | "operator"} by
 * @param {Record<string, any>} [given] what is set now
 * @returns {import("../dialog.js").Field[]}
 */
export function settingFields(by, given = {}) {
  return settable(by).map(({ key, label, hint, group, type, options }) => ({ name: nameOf(by, key), label, hint, group, type, options, value: given[key] }));
}

/** What is set that has no field of its own. @param {"argument" | "policy" | "operator"} by @param {Record<string, any>} given */
export function otherSettings(by, given) {
  const keys = settable(by).map((each) => each.key);
  return Object.fromEntries(Object.entries(given).filter(([key]) => !keys.includes(key)));
}

/**
 * What the fields say, as arguments or as a policy's definition.
 * @param {"argument" | "policy" | "operator"} by @param {any} values @param {string} [type] of queue
 */
export function settingsOf(by, values, type) {
  /** @type {Record<string, any>} */
  const found = {};
  for (const { key, on } of settable(by)) {
    const value = values[nameOf(by, key)];
    if (value === undefined || value === "" || value === false || (type && on && !on.includes(type))) continue;
    found[nameOf(by, key)] = value;
  }
  const [exchange, key] = ["dead-letter-exchange", "dead-letter-routing-key"].map((each) => nameOf(by, each));
  if (key in found && !(exchange in found)) found[exchange] = ""; // the default one, by the queue's name
  return found;
}

/** Hides what a type of queue does not know. @param {"argument" | "policy" | "operator"} by @param {any} fields @param {string} type */
export function showSettings(by, fields, type) {
  for (const { key, on } of settable(by)) fields[nameOf(by, key)].element.hidden = on !== undefined && !on.includes(type);
  for (const { element } of Object.values(fields)) {
    const group = element.closest("details.group");
    if (group) group.hidden = [...group.querySelectorAll(".field")].every((each) => each.hidden);
  }
}

/** @param {string} by @param {string} key */
const nameOf = (by, key) => (by === "argument" ? `x-${key}` : key);
