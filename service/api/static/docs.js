/** Light or dark Swagger UI: as chosen on the page of translations, else as the system has it. */

const system = matchMedia("(prefers-color-scheme: dark)");

function apply() {
  let chosen = null;
  try {
    chosen = localStorage.getItem("dragoman.theme");
  } catch { /* A browser may forbid storage; then the system decides. */ }
  document.documentElement.classList.toggle("dark-mode", chosen ? chosen === "dark" : system.matches);
}

apply();
system.addEventListener("change", apply);

const NAMES = { "textarea.body-param__text": "Request body", ".copy-to-clipboard > button": "Copy" };

/** Swagger UI puts a link into the button of each operation, to which the link adds nothing, and
    leaves some controls without a name. */
function mend() {
  for (const link of document.querySelectorAll(".opblock-summary-control a[href]")) link.removeAttribute("href");
  for (const [controls, name] of Object.entries(NAMES)) {
    for (const control of document.querySelectorAll(`${controls}:not([aria-label])`)) control.setAttribute("aria-label", name);
  }
}

new MutationObserver(mend).observe(document, { childList: true, subtree: true });
