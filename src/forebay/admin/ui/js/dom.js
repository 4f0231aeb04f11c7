/**
 * Makes elements. Text goes in as text nodes and nothing is ever parsed as markup, so names that hold markup are shown
 * as they are.
 *
 * @typedef {Node | string | number | null | undefined | false | any[]} Child
 */

const SVG = "http://www.w3.org/2000/svg";
const LOCAL = /^(#|\/(?!\/)|blob:)/; // no javascript:, nothing elsewhere

/**
 * An element with attributes, listeners (`onclick`) and children.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {any}
 */
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/**
 * The same for drawings.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...Child} children
 * @returns {any}
 */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

/** @param {any} element @param {Record<string, any>} attributes @param {Child[]} children */
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    set(element, name, value);
  }
  element.append(...nodes(children));
  return element;
}

/** @param {any} element @param {string} name @param {any} value */
export function set(element, name, value) {
  if (name.startsWith("on") && typeof value === "function") {
    element.addEventListener(name.slice(2), value);
  } else if (name === "value" || name === "checked" || name === "indeterminate") {
    element[name] = value;
  } else if (value === null || value === undefined || value === false) {
    element.removeAttribute(name);
  } else if ((name === "href" || name === "src") && !LOCAL.test(String(value))) {
    throw new Error(`${name} leads elsewhere: ${value}`);
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** @param {Child[]} children @returns {(Node | string)[]} */
export function nodes(children) {
  return children
    .flat(Infinity)
    .filter((each) => each !== null && each !== undefined && each !== false)
    .map((each) => (each instanceof Node ? each : String(each)));
}

/** Puts children in the place of those an element has. @param {Element} element @param {...Child} children */
export function put(element, ...children) {
  element.replaceChildren(...nodes(children));
}

const ICONS = {
  menu: "M3 5h14M3 10h14M3 15h14",
  search: "M9 3a6 6 0 1 0 0 12A6 6 0 0 0 9 3zm4.5 10.5L17 17",
  theme: "M10 2.5v2M10 15.5v2M2.5 10h2M15.5 10h2M4.7 4.7l1.4 1.4M13.9 13.9l1.4 1.4M4.7 15.3l1.4-1.4M13.9 6.1l1.4-1.4M10 6.8a3.2 3.2 0 1 0 0 6.4 3.2 3.2 0 0 0 0-6.4z",
  close: "M5 5l10 10M15 5L5 15",
  help: "M7.5 7.5a2.5 2.5 0 1 1 3.6 2.3c-.8.4-1.1.9-1.1 1.7M10 14.2v.1",
  plus: "M10 4v12M4 10h12",
  minus: "M4 10h12",
};

/** @param {keyof typeof ICONS} name */
export function icon(name) {
  return svg("svg", { class: "icon", viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: ICONS[name] }));
}

/** A button that shows only a drawing. @param {keyof typeof ICONS} name @param {string} label @param {() => void} onclick */
export function iconButton(name, label, onclick) {
  return h("button", { type: "button", class: "plain icon-button", "aria-label": label, title: label, onclick }, icon(name));
}

/** The mark of the page. */
export function brand() {
  return [
    svg(
      "svg",
      { viewBox: "0 0 24 24", "aria-hidden": "true" },
      svg("rect", { width: 24, height: 24, rx: 5, fill: "#0b6573" }),
      svg("path", {
        d: "M4 8.5q4-3 8 0t8 0M4 13q4-3 8 0t8 0M4 17.5q4-3 8 0t8 0",
        fill: "none",
        stroke: "#fff",
        "stroke-width": 2,
        "stroke-linecap": "round",
      }),
    ),
    h("span", {}, "forebay"),
  ];
}
