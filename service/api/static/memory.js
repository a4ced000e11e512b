/** Settings kept in this browser between visits, unless it forbids storage. */

const PREFIX = "dragoman.";

export function recall(name, otherwise = null) {
  try {
    return JSON.parse(localStorage.getItem(PREFIX + name)) ?? otherwise;
  } catch {
    return otherwise;
  }
}

export function remember(name, value) {
  try {
    if (value === null || value === "") localStorage.removeItem(PREFIX + name);
    else localStorage.setItem(PREFIX + name, JSON.stringify(value));
  } catch { /* Storage is forbidden or full; the page works without it. */ }
}
