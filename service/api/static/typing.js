/** Typing into the translation: what follows the caret in its sentence is translated anew. */

import { caretIn, element } from "./dom.js";
import { continued, typed } from "./spans.js";
import { glossary, ofModel, sentencesOf, spoken, undoable } from "./state.js";

const PAUSE_MS = 400;

export class Typing {
  #box = element("target-text");
  #server;
  #store;
  #pause = 0;
  #request = new AbortController();

  constructor(server, store) {
    this.#server = server;
    this.#store = store;
    this.#box.addEventListener("input", (event) => {
      if (!event.isComposing) this.#typed(event.inputType.startsWith("insert"));
    });
    this.#box.addEventListener("compositionend", () => this.#typed(true));
    this.#box.addEventListener("beforeinput", (event) => this.#before(event));
    this.#box.addEventListener("keydown", (event) => this.#key(event));
  }

  #typed(goOn) {
    this.#request.abort();
    clearTimeout(this.#pause);
    const { state } = this.#store;
    const patch = typed(state, this.#box.textContent);
    // Typing is undone at once, and apart from choices.
    this.#store.change(state.result.typed ? patch : undoable(state, patch));
    if (goOn) this.#pause = setTimeout(() => this.#goOn(), PAUSE_MS);
  }

  /** Translate the sentence of the caret again, so that it begins with what is before the caret. */
  async #goOn() {
    const { state } = this.#store;
    const { result } = state;
    const caret = caretIn(this.#box);
    if (caret === null || !result?.typed) return;
    const sentence = sentencesOf(state).find(({ target }) => target.start <= caret && caret <= target.end);
    const prefix = sentence && result.translation.slice(sentence.target.start, caret);
    if (!prefix?.trim()) return;
    const request = new AbortController();
    this.#request = request;
    const { text, target, format } = result.inputs;
    const fields = { q: text.slice(sentence.source.start, sentence.source.end), source: spoken(state), target, format, ...ofModel(state, result), ...glossary(result.inputs), prefix };
    const changes = await this.#server.translate(fields, request.signal)
      .then(({ translatedText }) => (now) => continued(now, sentence.target, translatedText))
      .catch((error) => () => ({ stuck: error.message }));
    const { state: now } = this.#store;
    const same = now.result?.inputs === result.inputs && now.result.translation === result.translation;
    if (same && !request.signal.aborted) this.#store.change(changes(now));
  }

  #key(event) {
    const key = event.key.toLowerCase();
    if (!(event.ctrlKey || event.metaKey) || (key !== "z" && key !== "y")) return;
    event.preventDefault();
    this.#undo(key === "y" || event.shiftKey);
  }

  #before(event) {
    if (!event.inputType.startsWith("history")) return;
    event.preventDefault();
    this.#undo(event.inputType === "historyRedo");
  }

  #undo(again) {
    const button = element(again ? "redo" : "undo");
    if (!button.hidden) button.click();
    this.#box.focus();
  }
}
