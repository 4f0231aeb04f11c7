// The theme makes a landmark without a name of the buttons of each code block. Screen readers need none there.
const mend = () =>
  document.querySelectorAll("nav.md-code__nav:not([role])").forEach(each => each.setAttribute("role", "presentation"));
new MutationObserver(mend).observe(document.documentElement, { childList: true, subtree: true });
mend();
