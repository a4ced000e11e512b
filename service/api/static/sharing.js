/** Copying with a confirmation on the button, and links with text and languages. */

import { t } from "./strings.js";

const THANKS_MS = 1600;
/** Timers after which buttons have their names again. */
const thanking = new WeakMap();

/** Copy `text`, as formatted text too if it is HTML. */
export async function copy(text, button, html = false) {
  const name = button.dataset.name ??= button.textContent;
  button.textContent = t((await written(text, html)) ? "copied" : "copyFailed");
  clearTimeout(thanking.get(button));
  thanking.set(button, setTimeout(() => {
    button.textContent = name;
    delete button.dataset.name;
  }, THANKS_MS));
}

async function written(text, html) {
  try {
    if (html) await navigator.clipboard.write([formatted(text)]);
    else await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return selected(text);
  }
}

/** Programs for formatted text take the HTML, others its source. */
function formatted(text) {
  const types = ["text/html", "text/plain"];
  return new ClipboardItem(Object.fromEntries(types.map((type) => [type, new Blob([text], { type })])));
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

/** Text and languages of the page's address; null without a text.
    Links have them in the fragment, which browsers do not send to servers. Search engines of
    browsers, which cannot write a fragment, have them in the query. */
export function readLink() {
  const fields = new URLSearchParams(location.hash.slice(1) || location.search);
  if (!fields.has("text")) return null;
  return {
    source: fields.get("source") ?? "",
    target: fields.get("target") ?? "",
    text: fields.get("text"),
    why: fields.has("why"),
  };
}

/** Put the link into the address bar, and return it. */
export function writeLink({ source, target, text, why }) {
  const fields = new URLSearchParams({ source, target, text, ...(why ? { why: "1" } : {}) });
  history.replaceState(null, "", `${location.pathname}#${fields}`);
  return location.href;
}

/** An outdated link would restore the wrong text on reload. */
export function dropLink() {
  if (location.hash || location.search) history.replaceState(null, "", location.pathname);
}
