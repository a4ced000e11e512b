/** Likely words at a place of the translation, and the marks of chosen and doubtful words. */

import { caretIn, element, make, percent, placeCaret, rangeIn } from "./dom.js";
import { remember } from "./memory.js";
import { chosen, doubtful, points, wordAt } from "./spans.js";
import { ofModel, stale, undoable } from "./state.js";
import { t } from "./strings.js";

/** Below, words are often fragments. */
const LEAST_LIKELY = 0.02;
const EDGE = 8;

export class Steering {
  #box = element("target-text");
  #list = element("likely-words");
  #server;
  #store;
  #request = new AbortController();
  /** The word whose alternatives are shown: `{start, end}` in UTF-16 units, and the active option. */
  #word = null;
  #active = -1;

  constructor(server, store, translating) {
    this.#server = server;
    this.#store = store;
    this.#box.addEventListener("input", () => this.#close());
    this.#box.addEventListener("click", () => this.#open());
    this.#box.addEventListener("keydown", (event) => this.#key(event));
    this.#box.addEventListener("blur", () => this.#close());
    // Choosing must not take the focus from the text.
    this.#list.addEventListener("pointerdown", (event) => event.preventDefault());
    element("doubts").addEventListener("click", () => {
      const doubts = !store.state.doubts;
      remember("doubts", doubts);
      store.change({ doubts });
      const { result } = store.state;
      if (doubts && result && !result.own && !result.confidence) translating.now();
    });
    store.watch(({ result, doubts, partial }) => ({ result, doubts, partial }), () => this.#mark());
    store.watch((state) => ({ editable: Boolean(state.result) && !stale(state) }), ({ editable }) => {
      this.#box.contentEditable = editable ? "plaintext-only" : "false";
    });
    store.watch(({ result }) => ({ text: result?.translation }), () => this.#close());
  }

  /* Likely words */

  async #open() {
    const { state } = this.#store;
    const selection = getSelection();
    const word = selection.isCollapsed && state.result ? wordAt(state, caretIn(this.#box)) : null;
    this.#close();
    if (!word || stale(state) || state.format === "html") return;
    const request = new AbortController();
    this.#request = request;
    this.#word = word;
    this.#say(t("loading"));
    this.#place();
    const { source, target, text: q } = state.result.inputs;
    const { translation } = state.result;
    const position = points(translation.slice(0, word.start));
    try {
      const fields = { q, source, target, ...ofModel(state, state.result), translation, position, min_probability: LEAST_LIKELY };
      const response = await this.#server.post("alternatives", fields, request.signal);
      const { alternatives } = await response.json();
      if (!request.signal.aborted) this.#show(alternatives);
    } catch (error) {
      if (!request.signal.aborted) this.#say(error.message);
    }
  }

  #show(alternatives) {
    const present = this.#store.state.result.translation.slice(this.#word.start, this.#word.end);
    if (alternatives.every(({ word }) => word === present)) {
      this.#say(t("noLikelyWords"));
      return;
    }
    const options = alternatives.map(({ word, probability, translation }, i) => {
      const bar = make("span", { className: "bar" });
      bar.style.setProperty("--probability", probability);
      const option = make("li", { id: `likely-${i}`, className: "likely", data: { word } }, bar,
        make("span", { textContent: word, lang: this.#box.lang }),
        make("span", { className: "quiet", textContent: percent(probability) }));
      option.role = "option";
      option.ariaSelected = String(word === present);
      option.addEventListener("click", () => this.#choose(word, translation));
      return option;
    });
    this.#list.replaceChildren(...options);
    this.#place();
  }

  #say(text) {
    this.#list.hidden = false;
    this.#list.replaceChildren(Object.assign(make("li", { className: "quiet", textContent: text }), { role: "option", ariaDisabled: "true" }));
  }

  #choose(word, translation) {
    const { state } = this.#store;
    const { start } = this.#word;
    this.#store.change(undoable(state, chosen(state, start, word, translation)));
    this.#box.focus();
    placeCaret(this.#box, start + word.length);
  }

  #close() {
    this.#request.abort();
    this.#word = null;
    this.#activate(-1);
    this.#list.hidden = true;
    this.#list.replaceChildren();
  }

  /** The list is below the word, inside the window. */
  #place() {
    const box = rangeIn(this.#box.firstChild, this.#word).getBoundingClientRect();
    const side = this.#box.parentElement.getBoundingClientRect();
    const most = Math.min(side.width, document.documentElement.clientWidth - side.left) - this.#list.offsetWidth - EDGE;
    this.#list.style.setProperty("--left", `${Math.max(EDGE, Math.min(box.left - side.left, most))}px`);
    this.#list.style.setProperty("--top", `${box.bottom - side.top + 4}px`);
  }

  #activate(index) {
    const options = [...this.#list.querySelectorAll(".likely")];
    this.#active = options.length ? Math.max(-1, Math.min(index, options.length - 1)) : -1;
    options.forEach((option, i) => option.classList.toggle("active", i === this.#active));
    const active = options[this.#active];
    if (active) {
      this.#box.setAttribute("aria-activedescendant", active.id);
      active.scrollIntoView({ block: "nearest" });
    } else {
      this.#box.removeAttribute("aria-activedescendant");
    }
  }

  #key(event) {
    const key = event.key.toLowerCase();
    if (event.altKey && key === "arrowdown") {
      this.#open();
    } else if (this.#word && ["arrowdown", "arrowup"].includes(key)) {
      this.#activate(this.#active + (key === "arrowdown" ? 1 : -1));
    } else if (this.#word && key === "enter" && this.#active >= 0) {
      this.#list.querySelectorAll(".likely")[this.#active].click();
    } else if (this.#word && key === "escape") {
      this.#close();
    } else {
      return;
    }
    event.preventDefault();
  }

  /* Marks are ranges that the browser draws, so that the text stays one node */

  #mark() {
    if (!CSS.highlights) return;
    const { state } = this.#store;
    const here = state.result !== null && !stale(state) && this.#box.firstChild?.length === state.result.translation.length;
    const marks = {
      doubtful: here && state.doubts ? doubtful(state.result) : [],
      chosen: here ? state.result.choices : [],
    };
    for (const [name, spans] of Object.entries(marks)) {
      CSS.highlights.set(name, new Highlight(...spans.map((span) => rangeIn(this.#box.firstChild, span))));
    }
    element("doubts").setAttribute("aria-pressed", String(state.doubts));
    // A service whose models give no confidence has nothing to mark.
    element("doubts").hidden = state.doubts ? !state.result?.confidence : !state.result;
  }
}
