/** Texts that were translated before, kept in this browser unless that is switched off. */

import { element, linkButton, make } from "./dom.js";
import { nameOf } from "./languages.js";
import { follow, recall, remember } from "./memory.js";
import { pair, resultOf, spoken, stale } from "./state.js";
import { t } from "./strings.js";

const MOST = 50;
const MOST_CHARACTERS = 2000;
/** A text that has not changed for so long is kept. */
const REST_MS = 2000;

export class History {
  #box = element("history");
  #button = element("history-button");
  #list = element("history-list");
  #store;
  #chosen;
  #resting = 0;
  /** Whether the last entry is a beginning of the present text. */
  #begun = false;

  /** `chosen(patch)` is called to show a former text, with its translation if a user has written it. */
  constructor(store, chosen) {
    this.#store = store;
    this.#chosen = chosen;
    this.#button.addEventListener("click", () => this.#open(this.#box.hidden));
    element("history-clear").addEventListener("click", () => {
      this.#write([]);
      this.#button.focus();
    });
    store.watch(({ keepHistory }) => ({ keepHistory }), ({ keepHistory }) => {
      if (!keepHistory) this.#write([]);
      this.#button.hidden = !keepHistory;
      if (!keepHistory) this.#open(false);
    });
    follow("keepHistory", (keepHistory) => store.change({ keepHistory: keepHistory ?? true }));
    store.watch(({ result, text }) => ({ result, text }), ({ text }) => {
      this.#begun &&= Boolean(text.trim());
      clearTimeout(this.#resting);
      this.#resting = setTimeout(() => this.#keep(), REST_MS);
    });
  }

  get #entries() {
    return recall("history", []);
  }

  #keep() {
    const { state } = this.#store;
    const { result, text, target } = state;
    if (!state.keepHistory || !result?.translated || stale(state) || text.length > MOST_CHARACTERS) return;
    const entry = { source: spoken(state), target, text, translation: result.translation, own: result.own };
    const same = (old) => old.text === text && old.target === target;
    // The last copy of what a user has written.
    if (!entry.own && this.#entries.some((old) => old.own && same(old))) return;
    // A text that is typed on replaces its beginning.
    const replaced = (old) => this.#begun && !old.own && old.target === target && (text.startsWith(old.text) || old.text.startsWith(text));
    const [last, ...others] = this.#entries;
    const before = last && !replaced(last) ? [last, ...others] : others;
    this.#begun = true;
    this.#write([entry, ...before.filter((old) => !same(old))].slice(0, MOST));
  }

  #write(entries) {
    remember("history", entries.length ? entries : null);
    if (!this.#box.hidden) this.#show();
  }

  #open(open) {
    this.#box.hidden = !open;
    this.#button.ariaExpanded = String(open);
    if (!open) return;
    this.#show();
    this.#box.scrollIntoView({ block: "nearest" });
  }

  #show() {
    const entries = this.#entries;
    element("history-clear").hidden = !entries.length;
    element("history-empty").hidden = entries.length > 0;
    this.#list.replaceChildren(...entries.map((entry) => this.#item(entry)));
  }

  #item(entry) {
    const { source, target, text, translation, own } = entry;
    const side = (content, lang) => make("span", { className: "history-text", textContent: content, lang, dir: "auto" });
    const again = make("button", { type: "button", title: t("translateAgain") },
      make("span", { className: "quiet", textContent: `${nameOf(source)} → ${nameOf(target)}` }), side(text, source), side(translation, target));
    again.addEventListener("click", () => {
      this.#begun = false;
      const { state } = this.#store;
      const patch = { ...pair(state, source, target), text, format: "text" };
      if (own) patch.result = { ...resultOf({ translatedText: translation, model: "" }, { ...state, ...patch }), own };
      this.#chosen(patch);
      element("source-text").focus();
    });
    const remove = linkButton("×", () => {
      this.#write(this.#entries.filter((other) => other.text !== text || other.target !== target));
      this.#button.focus();
    }, { className: "icon-button", ariaLabel: t("removeFromHistory", { text: text.slice(0, 40) }), title: t("removeFromHistory", { text: text.slice(0, 40) }) });
    return make("li", {}, again, remove);
  }
}
