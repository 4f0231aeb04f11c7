/** Policies and operator policies, and what each of them matches. */
import { get, path, post, remove, replace } from "../api.js";
import { askForm, confirmName } from "../dialog.js";
import { h, put } from "../dom.js";
import { plain, several } from "../format.js";
import { isAdministrator, listPath, someVhost } from "../session.js";
import { Table, localSource } from "../table.js";
import { toast } from "../toast.js";
import { button, heading, panel, queueLink, vhostColumn, vhostField } from "./parts.js";
import { otherSettings, settingFields, settingsOf } from "./settings.js";

const POLL_MS = 10_000;
const APPLY_TO = ["all", "queues", "classic_queues", "quorum_queues", "streams", "exchanges"];
const NAMES_MAX = 5;
const PREVIEWED_MAX = 20;
const TYPING_MS = 250;

/** @type {import("../app.js").Show} */
export async function showPolicies(main, life) {
  const tables = [policyTable("policies", life)];
  if (isAdministrator()) tables.push(policyTable("operator-policies", life));
  const add = (/** @type {string} */ kind, /** @type {any} */ table) => button("New", () => askPolicy(kind, null, () => table.reload()), kind === "policies" ? "primary" : "");
  put(
    main,
    heading("Policies"),
    panel("Policies", tables[0].element, [add("policies", tables[0])]),
    tables[1] ? panel("Operator policies: limits on policies and arguments", tables[1].element, [add("operator-policies", tables[1])]) : null,
  );
  await life.every(POLL_MS, async () => {
    await Promise.all(tables.map((table) => table.refresh()));
  });
}

/** @param {string} kind @param {any} life */
function policyTable(kind, life) {
  const field = kind === "policies" ? "policy" : "operator_policy";
  /** @type {Table} */
  const table = new Table({
    label: kind === "policies" ? "Policies" : "Operator policies",
    columns: [
      { title: "Name", sort: "name", lead: true, wrap: true, cell: (row) => button(row.name, () => askPolicy(kind, row, () => table.reload()), "link") },
      ...vhostColumn(),
      { title: "Pattern", sort: "pattern", wrap: true, cell: (row) => [h("code", {}, row.pattern)] },
      { title: "Applies to", sort: "apply-to", cell: (row) => row["apply-to"] },
      { title: "Priority", sort: "priority", num: true, cell: (row) => row.priority },
      { title: "Sets", wrap: true, cell: (row) => plain(row.definition) },
      { title: "Applies to queues", wrap: true, cell: (row) => matched(row) },
      { title: "", cell: (row) => button("Delete", () => askDelete(kind, row, () => table.reload())) },
    ],
    key: (row) => `${row.vhost} ${row.name}`,
    source: localSource(async (signal) => {
      const [policies, queues] = await Promise.all([get(listPath(kind), { signal }), get(listPath("queues"), { query: { columns: `name,vhost,${field}` }, signal })]);
      return policies.map((/** @type {any} */ each) => ({ ...each, queues: queues.filter((/** @type {any} */ queue) => queue.vhost === each.vhost && queue[field] === each.name) }));
    }),
    signal: life.signal,
    sort: { key: "name", reverse: false },
    empty: "No policies.",
  });
  return table;
}

/** @param {any} policy */
function matched(policy) {
  const names = policy.queues.slice(0, NAMES_MAX).flatMap((/** @type {any} */ each, /** @type {number} */ at) => [at ? ", " : null, queueLink(each.vhost, each.name)]);
  const rest = policy.queues.length - NAMES_MAX;
  return names.length ? [...names, rest > 0 ? ` and ${several(rest, "more", "more")}` : null] : "no queue";
}

/** @param {string} kind @param {any} policy null: a new one @param {() => unknown} done */
function askPolicy(kind, policy, done) {
  const by = kind === "policies" ? "policy" : "operator";
  const given = policy?.definition ?? {};
  const others = otherSettings(by, given);
  const preview = new Preview(by);
  const form = {
    title: policy ? `Policy ${policy.name}` : kind === "policies" ? "New policy" : "New operator policy",
    submit: "Save",
    fields: [
      vhostField(policy?.vhost ?? someVhost()),
      { name: "name", label: "Name", required: true, value: policy?.name },
      { name: "pattern", label: "Pattern", required: true, value: policy?.pattern, placeholder: "^orders\\.", hint: "A regular expression that matches anywhere in a name" },
      { name: "apply-to", label: "Applies to", type: /** @type {const} */ ("select"), options: APPLY_TO, value: policy?.["apply-to"] ?? "queues" },
      { name: "priority", label: "Priority", type: /** @type {const} */ ("number"), value: policy?.priority ?? 0, hint: "The matching policy with the highest priority applies" },
      ...settingFields(by, given),
      { name: "definition", label: "Other keys", type: /** @type {const} */ ("json"), value: Object.keys(others).length ? JSON.stringify(others, null, 2) : "", hint: 'JSON, say {"queue-leader-locator": "balanced"}' },
    ],
    wide: true,
    after: preview.element,
    change: (/** @type {any} */ values) => preview.ask(values),
  };
  return askForm(form, async ({ vhost, name, pattern, "apply-to": applyTo, priority, definition, ...rest }) => {
    const body = { pattern, "apply-to": applyTo, priority, definition: { ...settingsOf(by, rest), ...definition } };
    await replace(path`/api/${kind}/${vhost}/${name}`, body);
    toast(`Policy ${name} applies`);
    await done();
  });
}

/** Says which queues a policy would change, while it is written. */
class Preview {
  /** @param {"policy" | "operator"} by */
  constructor(by) {
    this.by = by;
    this.element = h("div", { class: "preview-of small", role: "status" });
    this.timer = 0;
    this.asked = "";
  }

  /** @param {any} values as they stand in the form */
  ask({ vhost, name, pattern, "apply-to": applyTo, priority, definition, ...rest }) {
    const settings = { ...settingsOf(this.by, rest), ...definition };
    const body = { name: name || "new", pattern, "apply-to": applyTo, priority: priority ?? 0, operator: this.by === "operator", definition: settings };
    const asked = JSON.stringify([vhost, body]);
    if (asked === this.asked) return;
    this.asked = asked;
    clearTimeout(this.timer);
    if (!pattern) return put(this.element, "Enter a pattern to see which queues will change.");
    this.timer = window.setTimeout(async () => {
      try {
        const found = await post(path`/api/forebay/policies/${vhost}/preview`, body);
        if (asked === this.asked) put(this.element, previewOf(found, name || "this policy"));
      } catch (error) {
        if (asked === this.asked) put(this.element, /** @type {Error} */ (error).message);
      }
    }, TYPING_MS);
  }
}

/** @param {any} found @param {string} name */
function previewOf(found, name) {
  if (!found.changes) return "No queue changes its policy.";
  const rest = found.changes - PREVIEWED_MAX;
  const each = (/** @type {any} */ { queue, from, to }) => h("li", {}, h("b", {}, queue), from === to ? `: ${to} with other settings` : `: ${from ?? "none"} → ${to ?? "none"}`);
  return [h("p", {}, h("strong", {}, `${several(found.changes, "queue")} of ${found.queues} will change ${found.changes === 1 ? "its" : "their"} policy`), `, with ${name}:`), h("ul", {}, found.items.slice(0, PREVIEWED_MAX).map(each), rest > 0 ? h("li", {}, `and ${several(rest, "more", "more")}`) : null)];
}

/** @param {string} kind @param {any} policy @param {() => unknown} done */
function askDelete(kind, policy, done) {
  const about = `It applies to ${several(policy.queues.length, "queue")}.`;
  return confirmName({ title: "Delete this policy?", about, name: policy.name, submit: "Delete" }, async () => {
    await remove(path`/api/${kind}/${policy.vhost}/${policy.name}`);
    toast(`Policy ${policy.name} is deleted`);
    await done();
  });
}
