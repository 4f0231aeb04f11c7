/** Says that the broker does not answer, and since when; what is shown then is of before, and greyed out. */
import { Unreachable } from "./api.js";
import { h, put } from "./dom.js";
import { ago, clock } from "./format.js";

const TELL_MS = 1000;

export class Away {
  /** @param {HTMLElement} main what is greyed out */
  constructor(main) {
    this.main = main;
    this.element = h("div", { class: "banner away", role: "alert", hidden: true });
    this.passed = h("span", { "aria-live": "off" });
    this.answered = Date.now();
    this.timer = 0;
  }

  /** @param {unknown} error of the last request, or null */
  heard(error) {
    if (error instanceof Unreachable) this.begin();
    else this.end();
  }

  begin() {
    if (this.timer) return;
    const since = this.answered;
    put(this.element, h("strong", {}, "The broker does not answer"), `Last answer at ${clock(since)}`, this.passed);
    const tell = () => put(this.passed, `(${ago(since)}). The page reconnects by itself.`);
    tell();
    this.timer = window.setInterval(tell, TELL_MS);
    this.element.hidden = false;
    this.main.inert = true;
    this.main.classList.add("of-before");
  }

  end() {
    this.answered = Date.now();
    if (!this.timer) return;
    clearInterval(this.timer);
    this.timer = 0;
    this.element.hidden = true;
    this.main.inert = false;
    this.main.classList.remove("of-before");
  }
}
