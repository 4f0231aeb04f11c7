/** Views by the hash of the address, so that back, forward and bookmarks work. */

/** @typedef {{path: string[], query: URLSearchParams}} Place */

/** @returns {Place} */
export function place() {
  const [parts, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  return { path: parts.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

/** @param {string} text */
function decode(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/**
 * The address of a view: link("queues", vhost, name).
 * @param {...string} parts
 */
export function link(...parts) {
  // "." and ".." and the empty name of the default exchange would be lost as parts of a path.
  return `#/${parts.map((part) => (part === "" ? "%00" : encodeURIComponent(part))).join("/")}`;
}

/** @param {string} address */
export function go(address) {
  location.hash = address;
}

/** What stands for the empty name in an address. @param {string | undefined} part */
export function named(part) {
  return part === "\0" ? "" : (part ?? "");
}

/**
 * What a view may use while it is shown; all ends with it.
 */
export class Life {
  constructor() {
    this.controller = new AbortController();
    this.signal = this.controller.signal;
    /** @type {Set<{run: () => Promise<void>, ms: number}>} */
    this.polls = new Set();
  }

  /**
   * Runs now, and again every so often while the tab can be seen; an answer is waited for before the next request.
   * @param {number} ms
   * @param {() => Promise<void>} work
   */
  async every(ms, work) {
    const poll = { run: work, ms };
    this.polls.add(poll);
    for (;;) {
      if (this.signal.aborted) return;
      if (!document.hidden) await this.once(work);
      await this.pause(ms);
    }
  }

  /** @param {() => Promise<void>} work */
  async once(work) {
    try {
      await work();
      report(null);
    } catch (error) {
      if (!this.signal.aborted) report(error);
    }
  }

  /** Everything again, after a change. */
  async refresh() {
    for (const poll of this.polls) await this.once(poll.run);
  }

  /** Ends early when the tab is shown again. @param {number} ms */
  pause(ms) {
    return new Promise((resolve) => {
      const done = () => {
        clearTimeout(timer);
        document.removeEventListener("visibilitychange", seen);
        this.signal.removeEventListener("abort", done);
        resolve(undefined);
      };
      const seen = () => document.hidden || done();
      const timer = setTimeout(done, ms);
      document.addEventListener("visibilitychange", seen);
      this.signal.addEventListener("abort", done);
    });
  }

  end() {
    this.controller.abort();
  }
}

/** @type {(error: unknown) => void} */
let report = () => {};

/** @param {(error: unknown) => void} listener is told of each poll: an error, or null */
export function onPoll(listener) {
  report = listener;
}
