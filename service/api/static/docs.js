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
