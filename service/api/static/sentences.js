/** Sentences of the two texts: pointing at one marks its counterpart, and a click chooses it for
    the attention panel. */

import { element, rangeIn } from "./dom.js";
import { query, stale } from "./state.js";

export class Sentences {
  #server;
  #store;
  #boxes = { source: element("source-text"), target: element("target-text") };
  #mirror = element("source-mirror");
  #asked = null;

  constructor(server, store) {
    this.#server = server;
    this.#store = store;
    for (const [side, box] of Object.entries(this.#boxes)) {
      box.addEventListener("pointerenter", () => this.#load());
      box.addEventListener("pointermove", (event) => this.#mark(this.#at(side, event)));
      box.addEventListener("pointerleave", () => this.#mark(-1));
      box.addEventListener("click", (event) => this.#choose(this.#at(side, event)));
    }
    const { source } = this.#boxes;
    source.addEventListener("scroll", () => { this.#mirror.scrollTop = source.scrollTop; });
    store.watch(({ text }) => ({ text }), ({ text }) => { this.#mirror.textContent = text; });
    store.watch(({ result, text }) => ({ result, text }), () => this.#mark(-1));
  }

  /** Ask the server for the sentences of the result, which it has translated just now. */
  async #load() {
    const { state } = this.#store;
    const { result } = state;
    if (!result?.translated || result.sentences || result === this.#asked || result.own || stale(state)) return;
    this.#asked = result;
    try {
      const { alternatives, confidence, stream, ...fields } = query(state);
      const id = result.id ?? (await this.#server.translate({ ...fields, attention: true })).id;
      const [{ translatedText, legs }] = (await this.#server.get(`translations/${id}`)).texts;
      if (this.#store.state.result !== result || translatedText !== result.translation) return;
      const source = located(result.inputs.text, legs[0].sentences.map((each) => each.source));
      const target = located(translatedText, legs.at(-1).sentences.map((each) => each.target));
      const paired = source && target && source.length === target.length;
      const sentences = paired ? source.map((span, i) => ({ source: span, target: target[i] })) : [];
      this.#store.change({ result: { ...result, id, kept: true, sentences } });
    } catch (error) {
      this.#store.change({ error });
    }
  }

  /** The number of the sentence under the pointer, -1 if there is none. */
  #at(side, { clientX, clientY }) {
    const { state } = this.#store;
    if (!state.result?.sentences || stale(state) || !document.caretPositionFromPoint) return -1;
    const place = document.caretPositionFromPoint(clientX, clientY);
    if (!place || !this.#boxes[side].contains(place.offsetNode)) return -1;
    return state.result.sentences.findIndex(({ [side]: { start, end } }) => start <= place.offset && place.offset < end);
  }

  #mark(index) {
    if (!CSS.highlights) return;
    const sentence = this.#store.state.result?.sentences?.[index];
    const nodes = { source: this.#mirror.firstChild, target: this.#boxes.target.firstChild };
    const ranges = sentence ? Object.entries(sentence).map(([side, span]) => rangeIn(nodes[side], span)) : [];
    CSS.highlights.set("sentence", new Highlight(...ranges));
  }

  #choose(index) {
    if (index >= 0) this.#store.change({ sentence: index });
  }
}

/** Spans of parts that follow one another in a text; null if one is not in it. */
function located(text, parts) {
  let position = 0;
  const spans = parts.map((part) => {
    const start = text.indexOf(part, position);
    position = start + part.length;
    return start < 0 ? null : { start, end: position };
  });
  return spans.includes(null) ? null : spans;
}
