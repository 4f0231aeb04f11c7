/** The way in. */
import { login, whoami } from "../api.js";
import { makeField } from "../dialog.js";
import { brand, h, put } from "../dom.js";

/** @param {(who: any) => Promise<void>} entered @param {string} [note] why it is asked again */
export function showLogin(entered, note = "") {
  const name = makeField({ name: "username", label: "User", required: true });
  const password = makeField({ name: "password", label: "Password", type: "password" });
  name.input.autocomplete = "username";
  password.input.autocomplete = "current-password";
  const wrong = h("div", { class: "wrong", role: "alert" }, note);
  const send = h("button", { type: "submit", class: "primary" }, "Log in");
  const submit = async (/** @type {Event} */ event) => {
    event.preventDefault();
    send.disabled = true;
    put(wrong);
    try {
      await login(name.input.value, password.input.value);
      await entered(await whoami());
    } catch (error) {
      put(wrong, /** @type {Error} */ (error).message);
      password.input.select();
    } finally {
      send.disabled = false;
    }
  };
  document.title = "Log in – forebay";
  const main = h(
    "main",
    { class: "login" },
    h(
      "form",
      { onsubmit: submit, "aria-label": "Log in" },
      h("h1", { class: "brand" }, brand()),
      name.element,
      password.element,
      wrong,
      send,
    ),
  );
  document.body.querySelector(".frame")?.remove();
  document.body.querySelector("main.login")?.remove();
  document.body.prepend(main);
  name.input.focus();
}
