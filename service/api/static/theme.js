"use strict";

/* Light or dark theme. A classic script, so that the page is never painted in the wrong theme first.
   Without a choice, the system decides; every change fires "themechange" on the document. */

(() => {
  const REMEMBERED = "dragoman.theme";
  const system = matchMedia("(prefers-color-scheme: dark)");
  const root = document.documentElement;

  let chosen = null;
  try {
    chosen = localStorage.getItem(REMEMBERED);
  } catch { /* A browser may forbid storage; then the system decides each time. */ }

  const isDark = () => (chosen ? chosen === "dark" : system.matches);

  function apply() {
    const dark = isDark();
    root.dataset.theme = dark ? "dark" : "light";
    document.getElementById("theme")?.setAttribute("aria-pressed", String(dark));
    document.dispatchEvent(new Event("themechange"));
  }

  function toggle() {
    const wanted = isDark() ? "light" : "dark";
    chosen = wanted === (system.matches ? "dark" : "light") ? null : wanted;
    try {
      if (chosen) localStorage.setItem(REMEMBERED, chosen);
      else localStorage.removeItem(REMEMBERED);
    } catch { /* See above. */ }
    apply();
  }

  apply();
  // Another tab has chosen.
  window.addEventListener("storage", ({ key, newValue }) => {
    if (key !== REMEMBERED) return;
    chosen = newValue;
    apply();
  });
  system.addEventListener("change", apply);
  document.addEventListener("DOMContentLoaded", () => {
    apply();
    document.getElementById("theme").addEventListener("click", toggle);
  });
})();
