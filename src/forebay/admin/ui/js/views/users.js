/** Users, and what they may do where. */
import { get, items, path, remove, replace } from "../api.js";
import { askForm, confirm, confirmName } from "../dialog.js";
import { h, put } from "../dom.js";
import { plain } from "../format.js";
import { go, link } from "../router.js";
import { someVhost } from "../session.js";
import { Table, localSource, plainTable } from "../table.js";
import { toast } from "../toast.js";
import { button, facts, heading, panel, Slot, vhostField } from "./parts.js";

const POLL_MS = 10_000;
const TAGS = ["administrator", "monitoring", "policymaker", "management"];
const LIMITS = ["max-connections", "max-channels"];
const RIGHTS = ["configure", "write", "read"];

/** @type {import("../app.js").Show} */
export async function showUsers(main, life) {
  const table = new Table({
    label: "Users",
    columns: [
      { title: "Name", sort: "name", lead: true, wrap: true, cell: (row) => [h("a", { href: link("users", row.name) }, row.name)] },
      { title: "Tags", wrap: true, cell: (row) => plain(tagsOf(row)) },
      { title: "Vhosts", wrap: true, cell: (row) => (row.configured && !row.vhosts.length ? "all" : plain(row.vhosts)) },
      { title: "Password", cell: (row) => passwordOf(row) },
    ],
    key: (row) => row.name,
    source: localSource(async (signal) => {
      const [users, permissions, known] = await Promise.all([get("/api/users", { signal }), get("/api/permissions", { signal }), items("user.list", {}, signal)]);
      const configured = new Set(known.filter((each) => each.configured).map((each) => each.name));
      return users.map((/** @type {any} */ each) => ({ ...each, configured: configured.has(each.name), vhosts: permissions.filter((/** @type {any} */ one) => one.user === each.name).map((/** @type {any} */ one) => one.vhost) }));
    }),
    signal: life.signal,
    sort: { key: "name", reverse: false },
    empty: "No users.",
  });
  put(main, heading("Users", { actions: [button("New user", () => askUser(() => table.reload()), "primary")] }), h("section", { class: "panel", "aria-label": "Users" }, table.element));
  await life.every(POLL_MS, () => table.refresh());
}

/** @param {any} row */
function passwordOf(row) {
  if (row.configured) return "in the configuration";
  return row.password_hash === "" ? "none: cannot log in with one" : "set";
}

/** @param {any} row @returns {string[]} */
const tagsOf = (row) => (Array.isArray(row.tags) ? row.tags : String(row.tags ?? "").split(",").filter(Boolean));

/** @param {string[]} given */
const tagFields = (given) => TAGS.map((tag) => ({ name: tag, label: tag, type: /** @type {const} */ ("check"), value: given.includes(tag) }));

/** @param {any} values */
const chosenTags = (values) => TAGS.filter((tag) => values[tag]);

/** @param {() => unknown} done */
function askUser(done) {
  const form = {
    title: "New user",
    about: "A new user has no vhost access yet: add permissions afterwards.",
    submit: "Add",
    fields: [{ name: "name", label: "Name", required: true }, { name: "password", label: "Password", type: /** @type {const} */ ("password"), required: true }, ...tagFields([])],
  };
  return askForm(form, async ({ name, password, ...rest }) => {
    await replace(path`/api/users/${name}`, { password, tags: chosenTags(rest) });
    toast(`User ${name} is there`);
    await done();
  });
}

/** @type {import("../app.js").Show} */
export async function showUser(main, life, [name]) {
  const [about, permissions, topics] = [new Slot(), new Slot(), new Slot()];
  const actions = [
    button("Change tags", async () => askTags(await get(path`/api/users/${name}`), life)),
    button("Change limits", async () => askLimits(await get(path`/api/users/${name}`), life)),
    button("Change password", async () => askPassword(await get(path`/api/users/${name}`))),
    button("Delete", () => askDelete(name), "danger"),
  ];
  put(
    main,
    heading(name, { crumbs: [["Users", "#/users"]], actions }),
    panel("User", about.element, [], true),
    panel("Permissions", permissions.element, [button("Add", () => askPermission(name, null, life))]),
    panel("Topic permissions", topics.element, [button("Restrict", () => askTopic(name, life))]),
  );
  await life.every(POLL_MS, async () => {
    const [user, given, restricted, known] = await Promise.all([
      get(path`/api/users/${name}`, { signal: life.signal }),
      get(path`/api/users/${name}/permissions`, { signal: life.signal }),
      get(path`/api/users/${name}/topic-permissions`, { signal: life.signal }),
      items("user.list", {}, life.signal),
    ]);
    user.configured = known.some((each) => each.name === name && each.configured);
    about.show(user, () => facts([["Tags", plain(tagsOf(user))], ["Limits", plain(user.limits)], ["Password", passwordOf(user)]]));
    permissions.show(given, () => permissionTable(given, life));
    topics.show(restricted, () => topicTable(restricted, life));
  });
}

/** @param {any[]} given @param {any} life */
function permissionTable(given, life) {
  /** @type {import("../table.js").Column[]} */
  const columns = [
    { title: "Vhost", lead: true, wrap: true, cell: (row) => row.vhost },
    ...RIGHTS.map((right) => ({ title: right, wrap: true, cell: (/** @type {any} */ row) => h("code", {}, row[right] || "(nothing)") })),
    { title: "", cell: (row) => h("span", { class: "row" }, button("Change", () => askPermission(row.user, row, life)), button("Remove", () => askClear(path`/api/permissions/${row.vhost}/${row.user}`, `${row.user} loses access to vhost ${row.vhost}.`, life))) },
  ];
  return plainTable("Permissions", columns, given, "No vhost access.");
}

/** @param {any[]} given @param {any} life */
function topicTable(given, life) {
  /** @type {import("../table.js").Column[]} */
  const columns = [
    { title: "Vhost", lead: true, wrap: true, cell: (row) => row.vhost },
    { title: "Exchange", wrap: true, cell: (row) => row.exchange },
    { title: "write", wrap: true, cell: (row) => h("code", {}, row.write) },
    { title: "read", wrap: true, cell: (row) => h("code", {}, row.read) },
    { title: "", cell: (row) => button("Remove all", () => askClear(path`/api/topic-permissions/${row.vhost}/${row.user}`, `Deletes all topic restrictions of ${row.user} in vhost ${row.vhost}.`, life)) },
  ];
  return plainTable("Topic permissions", columns, given, "No restrictions on topic exchanges.");
}

/** @param {string} where @param {string} about @param {any} life */
function askClear(where, about, life) {
  return confirm({ title: "Remove permissions?", about, submit: "Remove" }, async () => {
    await remove(where);
    await life.refresh();
  });
}

/** @param {string} user @param {any} given null: new ones @param {any} life */
function askPermission(user, given, life) {
  const form = {
    title: `Permissions of ${user}`,
    about: "Regular expressions that match anywhere in names of queues and exchanges. “.*” matches all, an empty one none.",
    submit: "Save",
    fields: [vhostField(given?.vhost ?? someVhost()), ...RIGHTS.map((right) => ({ name: right, label: right, value: given ? given[right] : ".*" }))],
  };
  return askForm(form, async ({ vhost, ...body }) => {
    await replace(path`/api/permissions/${vhost}/${user}`, body);
    await life.refresh();
  });
}

/** @param {string} user @param {any} life */
function askTopic(user, life) {
  const form = {
    title: `Restrict ${user} on a topic exchange`,
    submit: "Save",
    fields: [vhostField(someVhost()), { name: "exchange", label: "Exchange", value: "amq.topic", required: true }, { name: "write", label: "write", value: ".*" }, { name: "read", label: "read", value: ".*" }],
  };
  return askForm(form, async ({ vhost, ...body }) => {
    await replace(path`/api/topic-permissions/${vhost}/${user}`, body);
    await life.refresh();
  });
}

/** @param {any} user @param {any} life */
function askTags(user, life) {
  const form = { title: `Tags of ${user.name}`, submit: "Save", fields: tagFields(tagsOf(user)) };
  return askForm(form, async (values) => {
    // Without a word on the password the one that it has would be lost.
    await replace(path`/api/users/${user.name}`, { password_hash: user.password_hash, hashing_algorithm: user.hashing_algorithm, tags: chosenTags(values) });
    await life.refresh();
  });
}

/** @param {any} user @param {any} life */
function askLimits(user, life) {
  const limits = user.limits ?? {};
  const fields = LIMITS.map((limit) => ({ name: limit, label: `Largest number of ${limit.slice(4)}`, type: /** @type {const} */ ("number"), value: limits[limit], hint: "Empty for no limit" }));
  return askForm({ title: `Limits of ${user.name}`, submit: "Save", fields }, async (values) => {
    for (const limit of LIMITS) {
      const where = path`/api/user-limits/${user.name}/${limit}`;
      if (values[limit] !== undefined) await replace(where, { value: values[limit] });
      else if (limits[limit] !== undefined) await remove(where);
    }
    await life.refresh();
  });
}

/** @param {any} user */
function askPassword(user) {
  const form = { title: `Password of ${user.name}`, about: "Open connections remain.", submit: "Change", fields: [{ name: "password", label: "New password", type: /** @type {const} */ ("password"), required: true }] };
  return askForm(form, async ({ password }) => {
    await replace(path`/api/users/${user.name}`, { password, tags: tagsOf(user) });
    toast(`The password of ${user.name} is changed`);
  });
}

/** @param {string} name */
function askDelete(name) {
  return confirmName({ title: `Delete user ${name}?`, about: "Its permissions are deleted, too.", name, submit: "Delete" }, async () => {
    await remove(path`/api/users/${name}`);
    toast(`User ${name} is deleted`);
    go("#/users");
  });
}
