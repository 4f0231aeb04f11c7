/** The form that publishes one message, and remembers the last one. */
import { path, post } from "../api.js";
import { askForm } from "../dialog.js";
import { toast } from "../toast.js";

const TYPES = ["application/json", "text/plain", "application/octet-stream", "application/xml"];
/** @type {[string, string, string, string[]?][]} name, label, meaning, suggestions */
const PROPERTIES = [
  ["content_type", "Content type", "Media type of the body", TYPES],
  ["message_id", "Message id", "Identifier of the message"],
  ["correlation_id", "Correlation id", "Identifier of the request that it answers"],
  ["reply_to", "Reply to", "Queue for the answer"],
  ["type", "Type", "Type of the message, for consumers"],
  ["expiration", "Expiration, ms", "Time after which it expires"],
];

/**
 * @param {string} vhost
 * @param {string} exchange "" is the default exchange
 * @param {string} key
 */
export function askPublish(vhost, exchange, key) {
  const place = `forebay.publish ${JSON.stringify([vhost, exchange, exchange ? "" : key])}`;
  const last = JSON.parse(sessionStorage.getItem(place) ?? "{}");
  const json = (/** @type {any} */ value) => (Object.keys(value ?? {}).length ? JSON.stringify(value, null, 2) : "");
  return askForm(
    {
      title: exchange ? `Publish to ${exchange}` : `Publish to queue ${key}`,
      submit: "Publish",
      wide: true,
      fields: [
        { name: "routing_key", label: "Routing key", value: last.routing_key ?? key },
        { name: "payload", label: "Body", type: "area", value: last.payload },
        { name: "base64", label: "The body is base64", type: "check", value: last.base64 },
        { name: "headers", label: "Headers", type: "json", hint: 'JSON, say {"region": "eu"}', value: json(last.headers) },
        ...PROPERTIES.map(([name, label, hint, list]) => ({ name, label, hint, list, value: last[name], group: "Properties" })),
        { name: "priority", label: "Priority", type: "number", hint: "0 to 255, the highest first where the queue has priorities", value: last.priority, group: "Properties" },
        { name: "properties", label: "Other properties", type: "json", hint: 'JSON, say {"app_id": "shop"}', value: json(last.properties) },
        { name: "persistent", label: "Persistent: survives a restart", type: "check", value: last.persistent ?? true },
      ],
    },
    async (values) => {
      sessionStorage.setItem(place, JSON.stringify(values));
      const properties = { delivery_mode: values.persistent ? 2 : 1, ...values.properties };
      for (const [name] of PROPERTIES) if (values[name] !== "") properties[name] = values[name];
      if (values.priority !== undefined) properties.priority = values.priority;
      if (Object.keys(values.headers).length) properties.headers = { ...properties.headers, ...values.headers };
      const answer = await post(path`/api/exchanges/${vhost}/${exchange || "amq.default"}/publish`, {
        routing_key: values.routing_key,
        payload: values.payload,
        payload_encoding: values.base64 ? "base64" : "string",
        properties,
      });
      if (!answer.routed) throw new Error("routing_key: no queue takes a message with this key: it was dropped");
      toast("Published and on disk");
    },
  );
}
