/** The form that publishes one message. */
import { path, post } from "../api.js";
import { askForm } from "../dialog.js";
import { toast } from "../toast.js";

/**
 * @param {string} vhost
 * @param {string} exchange "" is the default exchange
 * @param {string} key
 */
export function askPublish(vhost, exchange, key) {
  return askForm(
    {
      title: exchange ? `Publish to ${exchange}` : `Publish to queue ${key}`,
      submit: "Publish",
      wide: true,
      fields: [
        { name: "routing_key", label: "Routing key", value: key },
        { name: "payload", label: "Body", type: "area" },
        { name: "base64", label: "The body is base64", type: "check" },
        { name: "headers", label: "Headers", type: "json", hint: 'JSON, say {"region": "eu"}' },
        { name: "properties", label: "Properties", type: "json", hint: 'JSON, say {"content_type": "application/json", "priority": 5}' },
        { name: "persistent", label: "Kept over a restart (persistent)", type: "check", value: true },
      ],
    },
    async (values) => {
      const properties = { delivery_mode: values.persistent ? 2 : 1, ...values.properties };
      if (Object.keys(values.headers).length) properties.headers = { ...properties.headers, ...values.headers };
      const answer = await post(path`/api/exchanges/${vhost}/${exchange || "amq.default"}/publish`, {
        routing_key: values.routing_key,
        payload: values.payload,
        payload_encoding: values.base64 ? "base64" : "string",
        properties,
      });
      if (!answer.routed) throw new Error("routing_key: no queue takes a message with this key: it was dropped");
      toast("Published, and on disk");
    },
  );
}
