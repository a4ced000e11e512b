/** DOM helpers: finding, creating and filling elements, and writing their strings. */

import { t } from "./strings.js";

const SAVED_MS = 1000;

export const element = (id) => document.getElementById(id);

/** A new element; `properties` are set on it as they are, `data` as its data attributes. */
export function make(tag, { data = {}, ...properties } = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  Object.assign(made.dataset, data);
  made.append(...children);
  return made;
}

/** A new element of an SVG drawing, with attributes. */
export function draw(tag, attributes, ...children) {
  const made = document.createElementNS(document.querySelector("svg").namespaceURI, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/** A button that looks like a link. */
export function linkButton(textContent, clicked, properties = {}) {
  const button = make("button", { type: "button", className: "link-button", textContent, ...properties });
  button.addEventListener("click", clicked);
  return button;
}

/** Save a blob as the file `name`. */
export function save(blob, name) {
  const url = URL.createObjectURL(blob);
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), SAVED_MS);
}

/** Fill a menu with [value, name] pairs, keeping the selection if it is still available. */
export function fill(select, choices, chosen = select.value) {
  select.replaceChildren(...choices.map(([value, name]) => new Option(name, value)));
  const values = choices.map(([value]) => String(value));
  select.value = values.includes(String(chosen)) ? String(chosen) : (values[0] ?? "");
  select.disabled = choices.length === 0;
}

/** Write the strings that `data-t` names: a key, or an attribute and a key, "title:swapHint". */
export function localise(root) {
  for (const each of root.querySelectorAll("[data-t]")) {
    for (const part of each.dataset.t.split(" ")) {
      const [attribute, key] = part.split(":");
      if (key) each.setAttribute(attribute, t(key));
      else each.textContent = t(attribute);
    }
  }
}

/** Offset of the caret in the only text of `box`, in UTF-16 units; null if it is elsewhere. */
export function caretIn(box) {
  const { focusNode, focusOffset, rangeCount } = getSelection();
  if (!rangeCount || !box.contains(focusNode)) return null;
  const before = document.createRange();
  before.setStart(box, 0);
  before.setEnd(focusNode, focusOffset);
  return before.toString().length;
}

export function placeCaret(box, offset) {
  const node = box.firstChild ?? box;
  getSelection().collapse(node, Math.min(offset, node.length ?? 0));
}

/** The range of a span in UTF-16 units of a text node. */
export function rangeIn(node, { start, end }) {
  const range = document.createRange();
  range.setStart(node, start);
  range.setEnd(node, end);
  return range;
}

export const sentenceCase = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** A share as text; one that rounds to nothing without being 0 is "< 1 %". */
export const percent = (part) => (part > 0 && part < 0.005 ? "< 1 %" : `${Math.round(part * 100)} %`);
