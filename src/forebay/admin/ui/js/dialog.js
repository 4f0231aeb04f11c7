/** Dialogs: forms whose errors stand at the field they name, and questions that are answered by typing a name. */
import { h, put } from "./dom.js";

/**
 * @typedef {object} Field
 * @property {string} name
 * @property {string} label
 * @property {"text" | "number" | "password" | "select" | "check" | "area" | "json" | "file"} [type]
 * @property {any} [value]
 * @property {string} [hint]
 * @property {boolean} [required]
 * @property {(string | [string, string])[]} [options] of a select: values, or values with what is shown
 * @property {string} [placeholder]
 * @property {string[]} [list] what the browser suggests
 * @property {string} [group] under which it stands with others, to be unfolded
 */

let numbers = 0;

/** One labelled field; `read` gives its value or throws with what is wrong. @param {Field} field */
export function makeField(field) {
  const id = `field-${(numbers += 1)}`;
  const input = makeInput(field, id);
  const wrong = h("div", { class: "wrong", id: `${id}-wrong`, "aria-live": "polite" });
  const hint = field.hint ? h("div", { class: "hint", id: `${id}-hint` }, field.hint) : null;
  input.setAttribute("aria-describedby", `${hint ? `${id}-hint ` : ""}${id}-wrong`);
  const label = h("label", { for: id }, field.label);
  const check = field.type === "check";
  const suggestions = field.list
    ? h("datalist", { id: `${id}-list` }, field.list.map((value) => h("option", { value })))
    : null;
  const element = h("div", { class: check ? "field check" : "field" }, check ? [input, label] : [label, input]);
  for (const each of [suggestions, hint, wrong]) if (each) element.append(each);
  /** @param {string} text */
  const complain = (text) => {
    put(wrong, text);
    input.setAttribute("aria-invalid", text ? "true" : "false");
    if (text) element.closest("details")?.setAttribute("open", "");
  };
  return { field, element, input, complain, read: () => readInput(field, input) };
}

/** @param {Field} field @param {string} id */
function makeInput(field, id) {
  const common = { id, name: field.name, required: field.required, placeholder: field.placeholder, autocomplete: "off" };
  if (field.type === "select") {
    const options = (field.options ?? []).map((each) => {
      const [value, shown] = Array.isArray(each) ? each : [each, each];
      return h("option", { value }, shown);
    });
    return h("select", { ...common, placeholder: null }, options);
  }
  if (field.type === "area" || field.type === "json") {
    return h("textarea", { ...common, spellcheck: "false", value: field.value ?? "" });
  }
  if (field.type === "check") return h("input", { ...common, type: "checkbox", checked: Boolean(field.value) });
  if (field.type === "file") return h("input", { ...common, type: "file", accept: ".json,application/json" });
  const list = field.list ? `${id}-list` : null;
  const type = field.type ?? "text";
  return h("input", { ...common, type: type === "number" ? "text" : type, inputmode: type === "number" ? "numeric" : null, list, value: field.value ?? "" });
}

/** @param {Field} field @param {any} input */
function readInput(field, input) {
  if (field.type === "check") return input.checked;
  if (field.type === "file") return input.files[0];
  const text = input.value;
  if (field.required && text === "") throw new Error(`${field.label} is required`);
  if (field.type === "number") {
    if (text.trim() === "") return undefined;
    if (!/^-?\d+$/.test(text.trim())) throw new Error(`${text} is not a whole number`);
    return Number(text);
  }
  if (field.type === "json") {
    if (text.trim() === "") return {};
    let value;
    try {
      value = JSON.parse(text);
    } catch (error) {
      throw new Error(`no JSON: ${/** @type {Error} */ (error).message}`);
    }
    if (value === null || typeof value !== "object" || Array.isArray(value)) throw new Error("must be an object: {…}");
    return value;
  }
  return text;
}

/**
 * A form in a dialog; it closes when `submit` did not fail.
 * @param {{title: string, about?: any, after?: any, fields: Field[], submit: string, danger?: boolean, wide?: boolean, change?: (values: any, fields: any) => void}} form
 * @param {(values: any) => Promise<unknown>} work
 * @returns {Promise<boolean>} whether it was done
 */
export function askForm(form, work) {
  const fields = form.fields.map(makeField);
  for (const each of fields) if (each.field.type === "select" && each.field.value !== undefined) each.input.value = each.field.value;
  const wrong = h("div", { class: "wrong", role: "alert" });
  const send = h("button", { class: form.danger ? "danger" : "primary", type: "submit" }, form.submit);
  return new Promise((resolve) => {
    const submit = async (/** @type {Event} */ event) => {
      event.preventDefault();
      if (await submitForm(fields, wrong, send, work)) {
        resolve(true);
        dialog.close();
      }
    };
    const body = h(
      "form",
      { method: "dialog", novalidate: true, onsubmit: submit },
      h("header", {}, h("h2", {}, form.title)),
      h("div", { class: "body" }, form.about ? h("p", {}, form.about) : null, laidOut(fields), wrong),
      h("footer", {}, form.after ?? null, h("button", { type: "button", onclick: () => dialog.close() }, "Cancel"), send),
    );
    const dialog = open(body, form.title, () => resolve(false), form.wide);
    const named = Object.fromEntries(fields.map((each) => [each.field.name, each]));
    if (form.change) {
      const tell = () => form.change?.(readLoosely(fields), named);
      body.addEventListener("input", tell);
      tell();
    }
    (fields[0]?.input ?? send).focus();
  });
}

/** Fields one below the other, those of a group in a part that unfolds. @param {ReturnType<typeof makeField>[]} fields */
function laidOut(fields) {
  const made = [];
  for (let at = 0; at < fields.length; ) {
    const group = fields[at].field.group;
    const end = group ? fields.findIndex((each, index) => index > at && each.field.group !== group) : at + 1;
    const own = fields.slice(at, end < 0 ? fields.length : end);
    const given = own.some(({ field }) => field.value !== undefined && field.value !== "" && field.value !== false);
    made.push(group ? h("details", { class: "group", open: given }, h("summary", {}, group), h("div", { class: "fields" }, own.map((each) => each.element))) : own[0].element);
    at += own.length;
  }
  return made;
}

/** What stands in the form while it is filled in: texts as they are, numbers and JSON where they are whole. @param {ReturnType<typeof makeField>[]} fields */
function readLoosely(fields) {
  return Object.fromEntries(fields.map((each) => [each.field.name, loosely(each)]));
}

/** @param {ReturnType<typeof makeField>} each */
function loosely({ field, input, read }) {
  if (field.type !== "number" && field.type !== "json" && field.type !== "check") return input.value;
  try {
    return read();
  } catch {
    return undefined;
  }
}

/** @param {ReturnType<typeof makeField>[]} fields @param {Element} wrong @param {any} send @param {(values: any) => Promise<unknown>} work */
async function submitForm(fields, wrong, send, work) {
  /** @type {Record<string, any>} */
  const values = {};
  put(wrong);
  let first = null;
  for (const each of fields) {
    each.complain("");
    try {
      values[each.field.name] = each.read();
    } catch (error) {
      each.complain(/** @type {Error} */ (error).message);
      first ??= each.input;
    }
  }
  if (first) {
    first.focus();
    return false;
  }
  send.disabled = true;
  try {
    await work(values);
    return true;
  } catch (error) {
    showRefusal(fields, wrong, /** @type {Error} */ (error).message);
    return false;
  } finally {
    send.disabled = false;
  }
}

/** What the broker says, next to the field that it names. @param {ReturnType<typeof makeField>[]} fields @param {Element} wrong @param {string} reason */
function showRefusal(fields, wrong, reason) {
  const names = (/** @type {string} */ name) => new RegExp(`(^|[ .])${name.replaceAll(/[-_]/g, "[-_]")}[:.]`, "u").test(reason);
  const argument = /\barg '([^']*)'/.exec(reason)?.[1]; // of a queue or exchange, in RabbitMQ's words
  const meant = fields.find(({ field }) => (argument ? field.name === argument : names(field.name))) ?? fields.find(({ field }) => argument && field.name === "arguments");
  if (meant) {
    meant.complain(reason);
    meant.input.focus();
  } else {
    put(wrong, reason);
  }
}

/**
 * Asks before something is lost: the name must be typed.
 * @param {{title: string, about: any, name: string, submit: string}} question
 * @param {() => Promise<unknown>} work
 */
export function confirmName(question, work) {
  return askForm(
    {
      title: question.title,
      about: question.about,
      submit: question.submit,
      danger: true,
      fields: [{ name: "typed", label: `Type ${question.name} to confirm`, required: true }],
    },
    async ({ typed }) => {
      if (typed !== question.name) throw new Error(`typed: this is not ${question.name}`);
      await work();
    },
  );
}

/** Asks for a yes. @param {{title: string, about: any, submit: string}} question @param {() => Promise<unknown>} work */
export function confirm(question, work) {
  return askForm({ ...question, danger: true, fields: [] }, work);
}

/**
 * Shows something in a dialog that Escape closes.
 * @param {Element} body
 * @param {string} label
 * @param {() => void} [closed]
 * @param {boolean} [wide]
 * @returns {any}
 */
export function open(body, label, closed = () => {}, wide = false) {
  const before = document.activeElement;
  const dialog = h("dialog", { class: wide ? "wide" : null, "aria-label": label }, body);
  dialog.addEventListener("close", () => {
    dialog.remove();
    if (before instanceof HTMLElement && before.isConnected) before.focus();
    closed();
  });
  document.body.append(dialog);
  dialog.showModal();
  dialog.scrollTop = 0; // what has the focus may stand at its end
  return dialog;
}
