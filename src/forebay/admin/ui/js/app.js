/** Puts the page together: login, frame, navigation, keys. */
import { ApiError, Unreachable, get, logout, whoami } from "./api.js";
import { Away } from "./away.js";
import { open } from "./dialog.js";
import { brand, h, icon, iconButton, put } from "./dom.js";
import { state } from "./format.js";
import { openPalette } from "./palette.js";
import { Life, go, onPoll, place } from "./router.js";
import { begin, chooseVhost, chosenVhost, isAdministrator, isMonitor, isPolicymaker, onVhosts, user, vhosts } from "./session.js";
import { theme } from "./theme.js";
import { complain, mount } from "./toast.js";
import * as connections from "./views/connections.js";
import { showDeadLetters, showLetters } from "./views/letters.js";
import { showDefinitions } from "./views/definitions.js";
import { showDelayed } from "./views/delayed.js";
import { showExchange, showExchanges } from "./views/exchanges.js";
import { showLogin } from "./views/login.js";
import { showNode } from "./views/node.js";
import { showNodes, troubleOf } from "./views/nodes.js";
import { showOverview } from "./views/overview.js";
import { showPipelines } from "./views/pipelines.js";
import { showPolicies } from "./views/policies.js";
import { showQueue } from "./views/queue.js";
import { showQueues } from "./views/queues.js";
import { showRetained } from "./views/retained.js";
import { showSession, showSessions } from "./views/sessions.js";
import { showTail } from "./views/tail.js";
import { showTopology } from "./views/topology.js";
import { showTrace, showTraces } from "./views/traces.js";
import { showUser, showUsers } from "./views/users.js";
import { showVhosts } from "./views/vhosts.js";

/**
 * @typedef {(main: any, life: Life, path: string[], query: URLSearchParams) => Promise<void> | void} Show
 * @typedef {{name: string, title: string, key: string, group: string, show: Show, detail?: Show, allowed?: () => boolean}} View
 */

/** @type {View[]} */
const VIEWS = [
  { name: "overview", title: "Overview", key: "o", group: "", show: showOverview },
  { name: "queues", title: "Queues and streams", key: "q", group: "Messages", show: showQueues, detail: showQueue },
  { name: "dead-letters", title: "Dead letters", key: "d", group: "Messages", show: showDeadLetters, detail: showLetters },
  { name: "exchanges", title: "Exchanges", key: "e", group: "Messages", show: showExchanges, detail: showExchange },
  { name: "topology", title: "Topology", key: "t", group: "Messages", show: showTopology },
  { name: "delayed", title: "Delayed", key: "l", group: "Messages", show: showDelayed },
  { name: "retained", title: "Retained", key: "r", group: "Messages", show: showRetained },
  { name: "live", title: "Live tail", key: "w", group: "Messages", show: showTail },
  { name: "traces", title: "Traces", key: "x", group: "Messages", show: showTraces, detail: showTrace, allowed: isAdministrator },
  { name: "connections", title: "Connections", key: "c", group: "Clients", show: connections.showConnections, detail: connections.showConnection },
  { name: "channels", title: "Channels", key: "h", group: "Clients", show: connections.showChannels },
  { name: "sessions", title: "MQTT sessions", key: "m", group: "Clients", show: showSessions, detail: showSession },
  { name: "consumers", title: "Consumers", key: "s", group: "Clients", show: connections.showConsumers },
  { name: "pipelines", title: "Pipelines", key: "p", group: "Clients", show: showPipelines },
  { name: "policies", title: "Policies", key: "y", group: "Broker", show: showPolicies, allowed: isPolicymaker },
  { name: "users", title: "Users", key: "u", group: "Broker", show: showUsers, detail: showUser, allowed: isAdministrator },
  { name: "vhosts", title: "Virtual hosts", key: "v", group: "Broker", show: showVhosts },
  { name: "definitions", title: "Definitions", key: "f", group: "Broker", show: showDefinitions, allowed: isAdministrator },
  { name: "nodes", title: "Nodes", key: "k", group: "Broker", show: showNodes, allowed: isMonitor },
  { name: "node", title: "Node", key: "n", group: "Broker", show: showNode, allowed: isMonitor },
];
const KEY_PAUSE_MS = 1200;
const ALARMS_MS = 10_000;
const LOGGED_IN = "forebay.logged-in"; // that the cookie, which scripts cannot see, may be there

let life = new Life();
let watch = new Life(); // what goes on whichever view is shown
const main = h("main", { class: "content", id: "content", tabindex: "-1" });
const AGAIN_MS = 2000;
const away = new Away(main);
const live = h("span", { class: "live" });
const alarm = h("a", { class: "alarm", href: "#/overview", role: "alert", hidden: true });
const shownViews = () => VIEWS.filter((view) => view.allowed?.() ?? true);

async function start() {
  theme.apply();
  mount();
  window.addEventListener("forebay-logged-out", () => leave("You are logged out"));
  window.addEventListener("hashchange", () => void route());
  document.addEventListener("keydown", onKey);
  onPoll(showLive);
  try {
    // Who never logged in here need not be asked, nor be told of a 401 in the console.
    const who = localStorage.getItem(LOGGED_IN) ? await whoami() : null;
    if (who) await enter(who);
    else showLogin(enter);
  } catch (error) {
    showLogin(enter, /** @type {Error} */ (error).message);
  }
}

/** @param {any} who */
async function enter(who) {
  await begin(who);
  localStorage.setItem(LOGGED_IN, "yes");
  document.querySelector("main.login")?.remove();
  document.querySelector(".frame")?.remove();
  document.body.prepend(frame());
  watch.end();
  watch = new Life();
  if (isMonitor()) void watch.every(ALARMS_MS, lookForAlarms);
  await route();
}

async function lookForAlarms() {
  const columns = "name,mem_alarm,disk_free_alarm,forebay.role,forebay.in_sync,forebay.too_few_in_sync";
  const nodes = await get("/api/nodes", { query: { columns }, signal: watch.signal });
  const trouble = troubleOf(nodes)[0];
  const isLow = nodes.some((/** @type {any} */ node) => node.mem_alarm || node.disk_free_alarm);
  const word = isLow ? "alarm" : trouble?.[0] === "bad" ? "nothing is confirmed" : trouble ? "a node is out of sync" : "";
  if (word === alarm.textContent) return;
  alarm.hidden = !word;
  alarm.href = isLow ? "#/overview" : "#/nodes";
  put(alarm, word ? state(isLow || trouble?.[0] === "bad" ? "bad" : "warn", word) : null);
}

/** @param {string} note */
function leave(note) {
  life.end();
  watch.end();
  localStorage.removeItem(LOGGED_IN);
  sessionStorage.clear(); // what was published last is its publisher's
  for (const dialog of document.querySelectorAll("dialog")) dialog.close();
  showLogin(enter, note);
}

function frame() {
  const side = h("nav", { class: "side", id: "side", "aria-label": "Views" }, navigation());
  const menu = iconButton("menu", "Views", () => toggleMenu());
  menu.classList.add("menu-button");
  menu.setAttribute("aria-expanded", "false");
  menu.setAttribute("aria-controls", "side");
  side.addEventListener("click", (/** @type {any} */ event) => event.target.closest("a") && toggleMenu(false));
  const skip = h("a", { class: "skip", href: "#content" }, "Skip to content");
  skip.addEventListener("click", (/** @type {Event} */ event) => {
    event.preventDefault(); // the address is the view
    main.focus();
  });
  const head = h(
    "header",
    { class: "head" },
    menu,
    h("a", { class: "brand", href: "#/overview", "aria-label": "forebay: overview" }, brand()),
    h("button", { type: "button", class: "find", "aria-label": "Search everything", onclick: () => openPalette(entries()) }, h("span", { class: "row" }, icon("search"), h("span", { class: "wide" }, "Search…")), h("kbd", {}, "/")),
    h("span", { class: "grow" }),
    alarm,
    live,
    vhostSwitch(),
    iconButton("theme", "Light or dark", () => theme.toggle()),
    h("span", { class: "small muted wide" }, user()),
    h("button", { type: "button", onclick: () => void endSession() }, "Log out"),
  );
  return h("div", { class: "frame" }, skip, head, side, h("div", { class: "middle" }, away.element, main));
}

function navigation() {
  const groups = [...new Set(shownViews().map((view) => view.group))];
  return groups.map((group) => [
    group ? h("h2", {}, group) : null,
    h(
      "ul",
      {},
      shownViews()
        .filter((view) => view.group === group)
        .map((view) => h("li", {}, h("a", { href: `#/${view.name}`, "data-view": view.name }, view.title))),
    ),
  ]);
}

/** @param {boolean} [wanted] */
function toggleMenu(wanted) {
  const on = document.querySelector(".frame")?.classList.toggle("menu-open", wanted) ?? false;
  document.querySelector(".menu-button")?.setAttribute("aria-expanded", String(on));
}

function vhostSwitch() {
  const select = h("select", { "aria-label": "Virtual host" });
  const fill = () => {
    put(select, h("option", { value: "" }, "all"), vhosts().map((name) => h("option", { value: name }, name)));
    select.value = chosenVhost();
  };
  select.addEventListener("change", () => {
    chooseVhost(select.value);
    void route();
  });
  onVhosts(fill);
  fill();
  return h("label", {}, h("span", { class: "wide" }, "Vhost"), select);
}

async function endSession() {
  try {
    await logout();
    leave("");
  } catch (error) {
    complain(error);
  }
}

async function route() {
  if (!main.isConnected) return;
  const { path, query } = place();
  const view = shownViews().find((each) => each.name === (path[0] ?? "overview"));
  life.end();
  life = new Life();
  for (const link of document.querySelectorAll("[data-view]")) {
    if (link.getAttribute("data-view") === view?.name) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  put(main);
  window.scrollTo(0, 0);
  if (!view) {
    put(main, h("h1", {}, "No such view"), h("p", {}, h("a", { href: "#/overview" }, "Overview")));
    return;
  }
  const show = path.length > 1 && view.detail ? view.detail : view.show;
  document.title = `${path.slice(1).at(-1) ?? view.title} – forebay`;
  // Whoever came by a link reads on at the view; the first one keeps the focus where it is.
  if (document.activeElement && document.activeElement !== document.body) main.focus({ preventScroll: true });
  const own = life;
  main.setAttribute("aria-busy", "true");
  try {
    await show(main, own, path.slice(1), query);
  } catch (error) {
    if (!own.signal.aborted) {
      put(main, failure(error));
      away.heard(error);
      if (error instanceof Unreachable) void own.pause(AGAIN_MS).then(() => void (own.signal.aborted || route()));
    }
  }
  if (!own.signal.aborted) main.setAttribute("aria-busy", "false"); // views that ask nothing more end here
}

/** @param {unknown} error */
function failure(error) {
  const text = error instanceof Error ? error.message : String(error);
  if (error instanceof Unreachable) return [h("h1", {}, "Waiting for the broker")];
  const again = h("button", { type: "button", onclick: () => void route() }, "Try again");
  return [h("h1", {}, error instanceof ApiError && error.status === 404 ? "Not found" : "Failed"), h("div", { class: "banner", role: "alert" }, text), again];
}

/** @param {unknown} error of the last poll, or null */
function showLive(error) {
  main.setAttribute("aria-busy", "false"); // what the view shows is there
  away.heard(error);
  const said = error ? /** @type {Error} */ (error).message : "live";
  if (live.title === said) return;
  live.title = said;
  put(live, error ? state("bad", error instanceof ApiError ? "refused" : "away") : state("ok", "live"));
}

const entries = () => shownViews().map((view) => ({ name: view.title, kind: `g ${view.key}`, to: `#/${view.name}` }));

let went = 0;

/** @param {KeyboardEvent} event */
function onKey(event) {
  if (!main.isConnected) return;
  if ((event.ctrlKey || event.metaKey) && event.key === "k") {
    event.preventDefault();
    openPalette(entries());
    return;
  }
  const target = /** @type {HTMLElement} */ (event.target);
  if (event.ctrlKey || event.metaKey || event.altKey || target.closest("input, textarea, select, dialog")) return;
  const inSequence = Date.now() - went < KEY_PAUSE_MS;
  went = 0;
  if (inSequence) {
    const view = shownViews().find((each) => each.key === event.key);
    if (view) go(`#/${view.name}`);
  } else if (event.key === "g") {
    went = Date.now();
  } else if (event.key === "/") {
    event.preventDefault();
    openPalette(entries());
  } else if (event.key === "?") {
    showKeys();
  } else if (event.key === "f") {
    event.preventDefault();
    /** @type {HTMLElement | null} */ (main.querySelector("[data-filter]"))?.focus();
  } else if (event.key === "r") {
    void life.refresh();
  } else if (event.key === "Escape") {
    toggleMenu(false);
  }
}

function showKeys() {
  /** @type {[string, string][]} */
  const keys = [
    ["/ or Ctrl K", "search views, queues and exchanges"],
    ["f", "filter the table"],
    ["↑ ↓ Home End", "walk through a table's rows"],
    ["Enter", "open the row"],
    ["Space", "choose the row"],
    ["← →", "walk through a chart's points"],
    ["+ - Escape", "zoom a chart, and show all of it again; dragging zooms, too"],
    ["r", "ask again now"],
    ["?", "this list"],
    ...shownViews().map((view) => /** @type {[string, string]} */ ([`g ${view.key}`, view.title])),
  ];
  const list = h("dl", { class: "facts" }, keys.map(([key, what]) => [h("dt", {}, h("kbd", {}, key)), h("dd", {}, what)]));
  const close = h("button", { type: "button", onclick: () => dialog.close() }, "Close");
  const dialog = open(h("div", {}, h("header", {}, h("h2", {}, "Keys")), h("div", { class: "body" }, list), h("footer", {}, close)), "Keys");
}

void start();
