/**
 * A table that asks for one page of its rows at a time, sorts and filters where the rows come from, and can be walked
 * with the arrow keys. Rows that are asked for again keep their elements, so that focus and selection stay.
 *
 * @typedef {{page: number, size: number, sort: string, reverse: boolean, filter: string}} Wanted
 * @typedef {{items: any[], total: number, filtered: number}} Page
 * @typedef {(wanted: Wanted, signal: AbortSignal) => Promise<Page>} Source
 *
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: any) => any} cell text or a node
 * @property {string} [sort] the field that it sorts by
 * @property {boolean} [num]
 * @property {boolean} [wrap]
 * @property {boolean} [lead] names the row
 * @property {"first" | "second"} [line] of the two that a phone shows of a row, where any column has one; others it leaves out
 */
import { get } from "./api.js";
import { h, nodes, put } from "./dom.js";
import { count } from "./format.js";

const PAGE_SIZE = 100;
const TYPING_MS = 200;

export class Table {
  /**
   * @param {object} options
   * @param {string} options.label
   * @param {Column[]} options.columns
   * @param {(row: any) => string} options.key
   * @param {Source} options.source
   * @param {AbortSignal} options.signal
   * @param {string} [options.hint] what stands in the filter box
   * @param {string} [options.empty] what stands there when there are no rows
   * @param {{key: string, reverse: boolean}} [options.sort]
   * @param {boolean} [options.filter] whether there is a filter box
   * @param {any[]} [options.bar] what else stands above the rows
   * @param {((rows: any[]) => any[])} [options.actions] buttons for the chosen rows; with it rows can be chosen
   */
  constructor(options) {
    this.options = options;
    this.columns = options.columns;
    /** @type {Wanted} */
    this.wanted = { page: 1, size: PAGE_SIZE, sort: options.sort?.key ?? "", reverse: options.sort?.reverse ?? false, filter: "" };
    /** @type {Map<string, {row: any, element: any, cells: any[]}>} */
    this.lines = new Map();
    /** @type {Set<string>} */
    this.chosen = new Set();
    this.asked = 0;
    this.chosenDrawn = "";
    this.pagerDrawn = "";
    this.head = h("tr", { role: "row" });
    this.body = h("tbody", { role: "rowgroup", onkeydown: (/** @type {KeyboardEvent} */ event) => this.walk(event) });
    this.pager = h("div", { class: "pager", hidden: true });
    this.none = h("div", { class: "empty", hidden: true }, options.empty ?? "Nothing here.");
    this.actions = h("span", { class: "row" });
    this.filter = h("input", { type: "search", placeholder: options.hint ?? "Filter", "aria-label": `Filter ${options.label}`, "data-filter": "" });
    this.filter.addEventListener("input", () => this.type());
    const inLines = this.columns.some((column) => column.line);
    const table = h(
      "table",
      { class: inLines ? "cards lines" : "cards", role: "table", "aria-label": options.label },
      h("thead", { role: "rowgroup" }, this.head),
      this.body,
    );
    const bar = [options.filter === false ? null : this.filter, this.sorter(), ...(options.bar ?? []), this.actions];
    this.element = h(
      "div",
      {},
      options.filter === false && !options.bar && !options.actions ? null : h("div", { class: "bar" }, bar),
      h("div", { class: "scroll", tabindex: "-1" }, table),
      this.none,
      this.pager,
    );
    this.drawHead();
  }

  type() {
    clearTimeout(this.typing);
    this.typing = setTimeout(() => {
      this.wanted = { ...this.wanted, filter: this.filter.value.trim(), page: 1 };
      void this.reload();
    }, TYPING_MS);
  }

  /** For changes of what the source looks at. */
  async restart() {
    this.wanted.page = 1;
    await this.reload();
  }

  /** Asks at once, and says in the table what is wrong with what was asked. */
  async reload() {
    try {
      await this.refresh();
    } catch (error) {
      if (this.options.signal.aborted) return;
      this.draw([]);
      this.none.hidden = false;
      put(this.none, /** @type {Error} */ (error).message);
    }
  }

  /** Asks for the page that is shown. */
  async refresh() {
    const number = (this.asked += 1);
    const page = await this.options.source(this.wanted, this.options.signal);
    if (number !== this.asked) return; // somebody typed on while this was on its way
    this.draw(page.items);
    this.drawPager(page);
    put(this.none, this.wanted.filter ? `Nothing matches “${this.wanted.filter}”.` : (this.options.empty ?? "Nothing here."));
    this.none.hidden = page.items.length > 0;
  }

  /** The chosen rows of this page. */
  selected() {
    return [...this.lines].filter(([key]) => this.chosen.has(key)).map(([, line]) => line.row);
  }

  drawHead() {
    const cells = this.columns.map((column) => {
      const sorted = column.sort && column.sort === this.wanted.sort;
      const order = sorted ? (this.wanted.reverse ? "descending" : "ascending") : null;
      const title = column.sort
        ? h("button", { type: "button", onclick: () => this.sortBy(/** @type {string} */ (column.sort)) }, column.title)
        : headOf(column);
      return h("th", { scope: "col", role: "columnheader", class: column.num ? "num" : null, "aria-sort": order }, title);
    });
    if (this.options.actions) {
      this.all = h("input", { type: "checkbox", "aria-label": "Select all rows of this page" });
      this.all.addEventListener("change", () => this.chooseAll(this.all.checked));
      cells.unshift(h("th", { scope: "col", role: "columnheader" }, this.all));
    }
    put(this.head, cells);
    this.drawSorter();
  }

  /** What sorts where there is no room for the columns' heads. */
  sorter() {
    const sortable = this.columns.filter((column) => column.sort);
    if (!sortable.length) return null;
    this.order = h("select", { "aria-label": `Sort ${this.options.label}` }, sortable.map((each) => h("option", { value: each.sort }, `by ${each.title.toLowerCase()}`)));
    this.order.addEventListener("change", () => this.sortBy(this.order.value));
    this.direction = h("button", { type: "button", class: "icon-button", onclick: () => this.sortBy(this.wanted.sort) });
    return h("span", { class: "sorter row" }, this.order, this.direction);
  }

  drawSorter() {
    if (!this.order) return;
    this.order.value = this.wanted.sort;
    put(this.direction, this.wanted.reverse ? "▼" : "▲");
    this.direction.setAttribute("aria-label", this.wanted.reverse ? "Descending: sort ascending" : "Ascending: sort descending");
  }

  /** @param {string} field */
  sortBy(field) {
    const again = this.wanted.sort === field;
    const largest = this.columns.find((column) => column.sort === field)?.num ?? false; // first, of figures
    this.wanted = { ...this.wanted, sort: field, reverse: again ? !this.wanted.reverse : largest, page: 1 };
    this.drawHead();
    const at = this.columns.findIndex((column) => column.sort === field) + (this.options.actions ? 1 : 0);
    if (!document.activeElement?.closest(".sorter")) this.head.children[at]?.querySelector("button")?.focus();
    void this.reload();
  }

  /** @param {any[]} rows */
  draw(rows) {
    const lines = new Map();
    for (const row of rows) {
      const key = this.options.key(row);
      const line = this.lines.get(key) ?? this.makeLine(key);
      // Buttons of the line have this object: it stays the same, and what is in it is of now.
      for (const name of Object.keys(line.row)) delete line.row[name];
      Object.assign(line.row, row);
      this.fillLine(line, line.row);
      lines.set(key, line);
    }
    const elements = [...lines.values()].map((line) => line.element);
    if (elements.length !== this.body.children.length || elements.some((each, at) => each !== this.body.children[at])) {
      const focused = document.activeElement;
      this.body.replaceChildren(...elements);
      if (focused instanceof HTMLElement && this.body.contains(focused)) focused.focus();
    }
    this.lines = lines;
    for (const key of this.chosen) if (!lines.has(key)) this.chosen.delete(key);
    if (!elements.some((each) => each.tabIndex === 0) && elements[0]) elements[0].tabIndex = 0;
    this.drawChosen();
  }

  /** @param {string} key */
  makeLine(key) {
    const element = h("tr", { role: "row", tabindex: "-1" });
    const cells = this.columns.map((column) => {
      return h("td", { role: "cell", class: kindOf(column), "data-label": column.title });
    });
    element.append(...cells);
    if (this.options.actions) {
      const box = h("input", { type: "checkbox", "aria-label": `Choose ${key}`, tabindex: "-1" });
      box.addEventListener("change", () => this.choose(key, box.checked));
      element.prepend(h("td", { role: "cell", class: "choose", "data-label": "Choose" }, box));
    }
    element.addEventListener("focus", () => this.hold(element));
    return { row: {}, element, cells };
  }

  /** @param {{element: any, cells: any[]}} line @param {any} row */
  fillLine(line, row) {
    this.columns.forEach((column, at) => {
      const cell = line.cells[at];
      const made = column.cell(row);
      if (made instanceof Node || Array.isArray(made)) {
        const holder = h("span", {}, made);
        for (const anchor of holder.querySelectorAll("a")) anchor.tabIndex = -1; // Enter on the row follows it
        if (cell.firstElementChild?.isEqualNode(holder)) return; // a click that has begun goes on
        put(cell, holder);
      } else if (cell.childElementCount || cell.textContent !== String(made)) {
        put(cell, made);
      }
    });
  }

  /** @param {any} element the row that Tab comes back to */
  hold(element) {
    for (const each of this.body.children) each.tabIndex = each === element ? 0 : -1;
  }

  /** @param {KeyboardEvent} event */
  walk(event) {
    const row = /** @type {any} */ (event.target);
    if (row.tagName !== "TR" || event.ctrlKey || event.metaKey || event.altKey) return;
    const rows = [...this.body.children];
    const at = rows.indexOf(row);
    const to = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: rows.length - 1 }[event.key];
    if (to !== undefined) {
      rows[to]?.focus();
    } else if (event.key === "Enter") {
      (row.querySelector("td.lead a") ?? row.querySelector("a, button"))?.click();
    } else if (event.key === " " && this.options.actions) {
      row.querySelector("input[type=checkbox]")?.click();
    } else {
      return;
    }
    event.preventDefault();
  }

  /** @param {string} key @param {boolean} on */
  choose(key, on) {
    if (on) this.chosen.add(key);
    else this.chosen.delete(key);
    this.drawChosen();
  }

  /** @param {boolean} on */
  chooseAll(on) {
    this.chosen = new Set(on ? this.lines.keys() : []);
    this.drawChosen();
  }

  drawChosen() {
    if (!this.options.actions) return;
    for (const [key, line] of this.lines) {
      const on = this.chosen.has(key);
      line.element.setAttribute("aria-selected", String(on));
      line.element.querySelector("input[type=checkbox]").checked = on;
    }
    this.all.checked = this.lines.size > 0 && this.chosen.size === this.lines.size;
    this.all.indeterminate = this.chosen.size > 0 && this.chosen.size < this.lines.size;
    const state = [...this.chosen].join("\n");
    if (state === this.chosenDrawn) return; // buttons keep their focus
    this.chosenDrawn = state;
    const rows = this.selected();
    put(this.actions, rows.length ? [h("span", { class: "muted small" }, `${count(rows.length)} chosen`), ...this.options.actions(rows)] : []);
  }

  /** @param {Page} page */
  drawPager({ items, total, filtered }) {
    const { page, size } = this.wanted;
    const pages = Math.max(Math.ceil(filtered / size), 1);
    this.pager.hidden = filtered === 0 || (pages === 1 && filtered === total && total < 8);
    const first = (page - 1) * size + 1;
    const range = pages > 1 ? `${count(first)}–${count(first + items.length - 1)} of ${count(filtered)}` : count(filtered);
    const all = filtered === total ? "" : ` (of ${count(total)})`;
    /** @param {string} title @param {number} to */
    const turn = (title, to) => {
      const onclick = () => {
        this.wanted.page = to;
        void this.reload();
      };
      return h("button", { type: "button", disabled: to < 1 || to > pages, onclick }, title);
    };
    const state = `${range}${all} ${page} ${pages}`;
    if (state === this.pagerDrawn) return;
    this.pagerDrawn = state;
    put(this.pager, `${range}${all}`, pages > 1 ? [turn("Previous", page - 1), turn("Next", page + 1)] : []);
  }
}

/**
 * Rows of the API's own pages.
 * @param {() => string} where
 * @param {() => Record<string, unknown>} [query]
 * @param {string} [filtered] the parameter that filters
 * @returns {Source}
 */
export function remoteSource(where, query = () => ({}), filtered = "name") {
  return async ({ page, size, sort, reverse, filter }, signal) => {
    const asked = { ...query(), page, page_size: size, sort, sort_reverse: reverse || undefined, [filtered]: filter, pagination: true };
    const found = await get(where(), { query: asked, signal });
    return { items: found.items, total: found.total_count, filtered: found.filtered_count };
  };
}

/**
 * Rows that come whole and are sorted and filtered here.
 * @param {(signal: AbortSignal) => Promise<any[]>} fetchAll
 * @returns {Source}
 */
export function localSource(fetchAll) {
  return async ({ page, size, sort, reverse, filter }, signal) => {
    const all = await fetchAll(signal);
    const wanted = filter.toLowerCase();
    const found = wanted ? all.filter((row) => JSON.stringify(row).toLowerCase().includes(wanted)) : [...all];
    if (sort) found.sort((one, other) => compare(field(one, sort), field(other, sort)) * (reverse ? -1 : 1));
    return { items: found.slice((page - 1) * size, page * size), total: all.length, filtered: found.length };
  };
}

/** A field within fields: "message_stats.publish". @param {any} row @param {string} dotted */
export function field(row, dotted) {
  return dotted.split(".").reduce((value, name) => value?.[name], row);
}

/** @param {any} one @param {any} other */
function compare(one, other) {
  if (typeof one === "number" && typeof other === "number") return one - other;
  return String(one ?? "").localeCompare(String(other ?? ""), "en", { numeric: true });
}

/** A column's head; one that only holds buttons says so to who cannot see them. @param {Column} column */
const headOf = (column) => column.title || h("span", { class: "visually-hidden" }, "Actions");

/** The classes of a column's cells. @param {Column} column */
function kindOf(column) {
  const kinds = [column.num && "num", column.wrap && "wrap", column.lead && "lead", column.line && `${column.line}-line`, !column.title && "end"];
  return kinds.filter(Boolean).join(" ") || null;
}

/**
 * A small table of things at hand.
 * @param {string} label @param {Column[]} columns @param {any[]} rows @param {string} empty
 */
export function plainTable(label, columns, rows, empty) {
  if (!rows.length) return h("div", { class: "empty" }, empty);
  const cells = (/** @type {any} */ row) =>
    columns.map((column) => h("td", { role: "cell", class: kindOf(column), "data-label": column.title }, nodes([column.cell(row)])));
  return h(
    "div",
    { class: "scroll" },
    h(
      "table",
      { class: "cards", role: "table", "aria-label": label },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, columns.map((each) => h("th", { scope: "col", role: "columnheader", class: each.num ? "num" : null }, headOf(each))))),
      h("tbody", { role: "rowgroup" }, rows.map((row) => h("tr", { role: "row" }, cells(row)))),
    ),
  );
}
