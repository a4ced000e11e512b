/** Settings kept in this browser between visits, and drafts kept in this tab, unless it forbids storage. */

const PREFIX = "dragoman.";

export const recall = (name, otherwise = null) => read("localStorage", name) ?? otherwise;

export const remember = (name, value) => write("localStorage", name, value);

/** Call `changed` with the value of a setting when another tab has remembered another one. */
export function follow(name, changed) {
  window.addEventListener("storage", ({ key }) => {
    if (key === PREFIX + name) changed(recall(name));
  });
}

export const recallDraft = () => read("sessionStorage", "draft");

export const rememberDraft = (draft) => write("sessionStorage", "draft", draft);

function read(storage, name) {
  try {
    return JSON.parse(window[storage].getItem(PREFIX + name));
  } catch {
    return null;
  }
}

function write(storage, name, value) {
  try {
    if (value === null || value === "") window[storage].removeItem(PREFIX + name);
    else window[storage].setItem(PREFIX + name, JSON.stringify(value));
  } catch { /* Storage is forbidden or full; the page works without it. */ }
}
