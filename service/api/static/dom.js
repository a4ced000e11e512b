/** DOM helpers: finding, creating and filling elements. */

export const element = (id) => document.getElementById(id);

/** A new element; `properties` are set on it as they are, `data` as its data attributes. */
export function make(tag, { data = {}, ...properties } = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  Object.assign(made.dataset, data);
  made.append(...children);
  return made;
}

/** Fill a menu with [value, name] pairs, keeping the selection if it is still available. */
export function fill(select, choices, chosen = select.value) {
  select.replaceChildren(...choices.map(([value, name]) => new Option(name, value)));
  const values = choices.map(([value]) => String(value));
  select.value = values.includes(String(chosen)) ? String(chosen) : (values[0] ?? "");
  select.disabled = choices.length === 0;
}

export const sentenceCase = (text) => text.charAt(0).toUpperCase() + text.slice(1);

/** "1 character", "1,204 characters". */
export const counted = (number, noun) =>
  `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;

export const percent = (part) => `${Math.round(part * 100)} %`;
