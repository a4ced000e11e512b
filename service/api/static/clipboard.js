/** Copies text and confirms it on the button. */

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

/** Copies a selection: the clipboard API exists only on secure pages. */
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
