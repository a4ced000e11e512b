/** Link with text and languages in its fragment, which browsers do not send to servers. */

export function readLink() {
  const fields = new URLSearchParams(location.hash.slice(1));
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
  history.replaceState(null, "", `#${fields}`);
  return location.href;
}

/** An outdated link would restore the wrong text on reload. */
export function dropLink() {
  if (location.hash) history.replaceState(null, "", location.pathname + location.search);
}
