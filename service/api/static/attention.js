/** Attention panel: sentence choice, word alignment and attention maps.
    It sends no requests while it is closed. */

import { element, fill } from "./dom.js";
import { Maps } from "./maps.js";
import { Words } from "./words.js";
import { wordsOfPieces } from "./pieces.js";

const SHOWN_OF_A_SENTENCE = 60;

export class Attention {
  #wanted;
  #panel = element("attention");
  #button = element("why");
  #body = element("attention-body");
  #note = element("attention-note");
  #leg = element("leg");
  #sentence = element("sentence");
  #words;
  #maps;
  #request = new AbortController();
  #subject = null;
  #legs = [];
  #wordOf = { source: [], target: [] };
  #counts = { source: 0, target: 0 };

  /** `wanted` is called when the panel opens and needs a translation with an id. */
  constructor(server, wanted) {
    this.#wanted = wanted;
    this.#words = new Words((word) => this.#maps.mark(this.#piecesOf(word)));
    this.#maps = new Maps({
      keyed: () => Boolean(server.key),
      failed: (error) => this.#failed(error),
      pointed: (place) => this.#pointed(place),
    });
    this.#button.addEventListener("click", () => this.toggle());
    this.#leg.addEventListener("change", () => this.#showLeg());
    this.#sentence.addEventListener("change", () => this.#showSentence());
  }

  get open() {
    return !this.#panel.hidden;
  }

  toggle() {
    this.#panel.hidden = this.open;
    this.#button.setAttribute("aria-expanded", String(this.open));
    this.#button.textContent = this.open ? "Hide why" : "See why";
    if (this.open) this.#wanted();
    else this.clear("");
  }

  /** Show a translation or a pair of texts, if the panel is open. */
  async show(subject) {
    if (!this.open) return;
    const request = this.#begin();
    this.#subject = subject;
    this.stale();
    try {
      const legs = await subject.legs(request.signal);
      if (request.signal.aborted) return;
      this.#legs = legs;
    } catch (error) {
      if (!request.signal.aborted) this.#failed(error);
      return;
    }
    if (!this.#legs.some(({ sentences }) => sentences.length)) {
      this.clear("There was nothing to translate in this text.");
      return;
    }
    const legs = this.#legs.map(({ source, target }, i) => [i, `${source} → ${target}`]);
    fill(this.#leg, legs, legs.length - 1);
    this.#leg.parentElement.hidden = legs.length === 1;
    await this.#showLeg();
  }

  /** Mark the content as outdated: its text is being replaced. */
  stale() {
    this.#body.setAttribute("aria-busy", "true");
  }

  /** Show nothing but `note`. */
  clear(note) {
    this.#begin();
    this.#maps.stop();
    this.#body.hidden = true;
    this.#note.textContent = note;
  }

  async #showLeg() {
    const { sentences } = this.#legs[this.#leg.value];
    const names = sentences.map(({ target }, i) => [i, `${i + 1} · ${shortened(target)}`]);
    fill(this.#sentence, names, 0);
    this.#sentence.parentElement.hidden = sentences.length === 1;
    element("place-pickers").hidden = this.#legs.length === 1 && sentences.length === 1;
    await this.#showSentence();
  }

  async #showSentence() {
    const request = this.#begin();
    this.stale();
    const leg = this.#legs[this.#leg.value];
    const sentence = leg.sentences[this.#sentence.value];
    const place = { text: 0, leg: this.#leg.value, sentence: this.#sentence.value };
    try {
      const alignment = await this.#subject.alignment(place, request.signal);
      if (request.signal.aborted) return;
      for (const side of ["source", "target"]) {
        const words = alignment[`${side}_words`];
        this.#wordOf[side] = wordsOfPieces(sentence[`${side}_pieces`], alignment[side], words);
        this.#counts[side] = words.length;
      }
      this.#note.textContent = "";
      this.#body.hidden = false;
      this.#words.show(alignment, leg);
    } catch (error) {
      if (!request.signal.aborted) this.#failed(error);
      return;
    }
    await this.#maps.show(this.#subject, place, leg);
    if (!request.signal.aborted) this.#body.setAttribute("aria-busy", "false");
  }

  #begin() {
    this.#request.abort();
    this.#request = new AbortController();
    return this.#request;
  }

  #failed(error) {
    const forgotten = [404, 410].includes(error.status);
    this.clear(forgotten ? "The server has forgotten this translation. Translate again to see why." : error.message);
  }

  #piecesOf(word) {
    if (!word) return null;
    const pieces = this.#wordOf[word.side].flatMap((index, i) => (index === word.index ? [i] : []));
    return { [word.side]: pieces };
  }

  /** Highlight words by a row of a map: the attention of its piece in this layer and head. */
  #pointed(place) {
    if (!place) {
      this.#words.restore();
      return;
    }
    const { kind, row, weights } = place;
    const from = kind === "encoder" ? "source" : "target";
    const at = kind === "decoder" ? "target" : "source";
    // Rows and columns of the decoder begin with the start token, which is no piece.
    const before = kind === "decoder" ? 1 : 0;
    const light = new Array(this.#counts[at]).fill(0);
    weights.forEach((weight, column) => {
      const word = this.#wordOf[at][column - before] ?? -1;
      if (word >= 0) light[word] += weight;
    });
    this.#words.light(at, light, { side: from, index: this.#wordOf[from][row - before] ?? -1 });
  }
}

const shortened = (text) =>
  text.length > SHOWN_OF_A_SENTENCE ? `${text.slice(0, SHOWN_OF_A_SENTENCE)}…` : text;
