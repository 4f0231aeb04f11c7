/** Everything that is declared, as a file: out and in. */
import { get, path, post } from "../api.js";
import { makeField } from "../dialog.js";
import { h, put } from "../dom.js";
import { several } from "../format.js";
import { chosenVhost } from "../session.js";
import { attempt } from "../toast.js";
import { button, heading, panel } from "./parts.js";

const KINDS = ["users", "vhosts", "permissions", "policies", "queues", "exchanges", "bindings", "parameters"];

/** @type {import("../app.js").Show} */
export function showDefinitions(main) {
  const vhost = chosenVhost();
  const where = vhost ? path`/api/definitions/${vhost}` : "/api/definitions";
  const scope = vhost ? `the virtual host ${vhost}` : "all virtual hosts, users and policies";
  const file = makeField({ name: "file", label: "File", type: "file", hint: "A file that this page or RabbitMQ has exported. It is checked first; an import deletes nothing." });
  const preview = h("div", { class: "muted", "aria-live": "polite" });
  const send = h("button", { type: "button", class: "primary", disabled: true }, "Import");
  /** @type {any} */
  let chosen = null;
  file.input.addEventListener("change", async () => {
    file.complain("");
    chosen = null;
    try {
      chosen = JSON.parse(await file.input.files[0].text());
      put(preview, contents(chosen));
    } catch (error) {
      put(preview);
      file.complain(`no JSON: ${/** @type {Error} */ (error).message}`);
    }
    send.disabled = chosen === null;
  });
  send.addEventListener("click", async () => {
    file.complain("");
    send.disabled = true;
    try {
      put(preview, ...imported(await post(where, chosen)));
    } catch (error) {
      file.complain(/** @type {Error} */ (error).message);
    } finally {
      send.disabled = false;
    }
  });
  put(
    main,
    heading("Definitions"),
    h(
      "div",
      { class: "columns" },
      panel("Export", [h("p", {}, `Queues, exchanges, bindings and the rest of ${scope}; no messages.`), button("Save as a file", () => save(where), "primary")], [], true),
      panel("Import", [h("p", {}, `Into ${vhost ? `the virtual host ${vhost}` : "this broker"}.`), file.element, preview, send], [], true),
    ),
  );
}

/**
 * What an import has done: the broker answers with nothing, or with what it has left out.
 * @param {any} answer
 */
function imported(answer) {
  const leftOut = answer?.left_out ?? [];
  if (!leftOut.length) return ["Imported and on disk."];
  /** @param {any} each */
  const item = (each) => h("li", {}, each.may_lose_messages ? h("strong", {}, "Messages may be lost, or stay: ") : null, [each.entry, each.field, each.reason].filter(Boolean).join(": "));
  return [h("p", {}, `Imported and on disk, without ${several(leftOut.length, "part")} that cannot be in force here:`), h("ul", {}, leftOut.map(item))];
}

/** @param {any} found */
function contents(found) {
  const parts = KINDS.filter((kind) => Array.isArray(found[kind]) && found[kind].length).map((kind) => several(found[kind].length, kind.replace(/ies$/, "y").replace(/s$/, ""), kind));
  return parts.length ? `It has ${parts.join(", ")}.` : "It declares nothing.";
}

/** @param {string} where */
async function save(where) {
  await attempt(async () => {
    const text = JSON.stringify(await get(where), null, 2);
    const url = URL.createObjectURL(new Blob([text], { type: "application/json" }));
    const day = new Date().toISOString().slice(0, 10);
    h("a", { href: url, download: `forebay-definitions-${day}.json` }).click();
    URL.revokeObjectURL(url);
  }, "Saved");
}
