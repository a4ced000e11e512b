/** Sentences of the two texts: pointing at one marks its counterpart, and the one at the caret is
    the chosen sentence of alternatives and of the attention panel. */

import { caretIn, element, rangeIn } from "./dom.js";
import { carried } from "./spans.js";
import { located } from "./splits.js";
import { query, sentencesOf, stale } from "./state.js";

const SEGMENTS = new Intl.Segmenter(undefined, { granularity: "sentence" });

export class Sentences {
  #server;
  #store;
  #boxes = { source: element("source-text"), target: element("target-text") };
  #mirror = element("source-mirror");
  #asked = null;
  /** The text in which the user has moved the caret last, or written. */
  #moved = "";

  constructor(server, store) {
    this.#server = server;
    this.#store = store;
    for (const [side, box] of Object.entries(this.#boxes)) {
      box.addEventListener("pointerenter", () => this.#load());
      box.addEventListener("pointermove", (event) => this.#mark(this.#under(side, event)));
      box.addEventListener("pointerleave", () => this.#mark(-1));
      for (const moved of ["click", "keyup"]) box.addEventListener(moved, () => {
        this.#moved = side;
        this.#choose(side);
      });
    }
    this.#boxes.target.addEventListener("focus", () => this.#load());
    const { source } = this.#boxes;
    source.addEventListener("scroll", () => { this.#mirror.scrollTop = source.scrollTop; });
    store.watch(({ text }) => ({ text }), ({ text }) => { this.#mirror.textContent = text; });
    store.watch(({ result, text }) => ({ result, text }), () => this.#mark(-1));
    store.watch((state) => ({ result: state.result, needed: state.listed || state.why, old: stale(state) }), ({ needed }) => {
      if (needed) this.#load();
    });
    store.watch(({ result }) => ({ known: Boolean(result?.sentences), inputs: result?.inputs }), ({ known }) => {
      if (known && this.#boxes[this.#moved] === document.activeElement) this.#choose(this.#moved);
    });
  }

  /** Ask the server for the sentences of the result, unless there is only one. */
  async #load() {
    const { state } = this.#store;
    const { result } = state;
    if (!result?.translated || result.sentences || stale(state) || same(this.#asked, result)) return;
    this.#asked = result;
    const { text } = result.inputs;
    if ([...SEGMENTS.segment(text)].length === 1) {
      this.#store.change({ result: { ...result, sentences: sentencesOf(state) } });
      return;
    }
    try {
      this.#found(result, await this.#sentencesOf(state));
    } catch (error) {
      const { result: present } = this.#store.state;
      if (present && same(result, present)) this.#store.change({ error, result: { ...present, sentences: [] } });
    }
  }

  /** Translate once more what the server has translated just now, and keep it. */
  async #sentencesOf(state) {
    const { confidence, stream, ...fields } = query(state);
    const id = state.result.id ?? (await this.#server.translate({ ...fields, attention: true })).id;
    const [{ translatedText, legs }] = (await this.#server.get(`translations/${id}`)).texts;
    const source = located(state.text, legs[0].sentences.map((each) => each.source));
    const target = located(translatedText, legs.at(-1).sentences.map((each) => each.target));
    const paired = source && target && source.length === target.length;
    return { id, translatedText, sentences: paired ? source.map((span, i) => ({ source: span, target: target[i] })) : [] };
  }

  /** The user may have changed the translation since. */
  #found(asked, { id, translatedText, sentences }) {
    const { result } = this.#store.state;
    if (!result || !same(asked, result) || result.sentences) return;
    const found = { ...result, sentences: carried(sentences, translatedText, result.translation) };
    this.#store.change({ result: result.own ? found : { ...found, id, kept: true } });
  }

  /** The number of the sentence under the pointer, -1 if there is none. */
  #under(side, { clientX, clientY }) {
    if (!document.caretPositionFromPoint) return -1;
    const place = document.caretPositionFromPoint(clientX, clientY);
    return place && this.#boxes[side].contains(place.offsetNode) ? this.#at(side, place.offset) : -1;
  }

  #at(side, offset) {
    const { state } = this.#store;
    if (!state.result?.sentences || stale(state)) return -1;
    return state.result.sentences.findIndex(({ [side]: { start, end } }) => start <= offset && offset <= end);
  }

  #mark(index) {
    if (!CSS.highlights) return;
    const sentence = this.#store.state.result?.sentences?.[index];
    const nodes = { source: this.#mirror.firstChild, target: this.#boxes.target.firstChild };
    const ranges = sentence ? Object.entries(sentence).map(([side, span]) => rangeIn(nodes[side], span)) : [];
    CSS.highlights.set("sentence", new Highlight(...ranges));
  }

  #choose(side) {
    const box = this.#boxes[side];
    const sentence = this.#at(side, side === "source" ? box.selectionStart : (caretIn(box) ?? -1));
    if (sentence >= 0) this.#store.change({ sentence });
  }
}

/** Whether two results are of the same request, whatever the user has changed since. */
const same = (one, other) => one?.inputs === other.inputs;
