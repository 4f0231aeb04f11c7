/** Light or dark: what the system prefers, until somebody says otherwise. */

const KEY = "forebay.theme";
const prefersDark = matchMedia("(prefers-color-scheme: dark)");

function current() {
  return localStorage.getItem(KEY) ?? (prefersDark.matches ? "dark" : "light");
}

export const theme = {
  apply() {
    document.documentElement.dataset.theme = current();
    prefersDark.onchange = () => (document.documentElement.dataset.theme = current());
  },
  toggle() {
    localStorage.setItem(KEY, current() === "dark" ? "light" : "dark");
    this.apply();
  },
};
