/** Copying text, and saying on the button that it was done. */

const THANKS_MS = 1600;

export async function copy(text, button) {
  const name = button.textContent;
  if (button.dataset.name) return;
  button.dataset.name = name;
  button.textContent = (await written(text)) ? "Copied" : "Not allowed";
  setTimeout(() => {
    button.textContent = name;
    delete button.dataset.name;
  }, THANKS_MS);
}

async function written(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return selected(text);
  }
}

/** The clipboard belongs to secure pages; on others a selection can still be copied. */
function selected(text) {
  const before = document.activeElement;
  const area = document.createElement("textarea");
  area.className = "visually-hidden";
  area.value = text;
  document.body.append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  before?.focus();
  return done;
}
