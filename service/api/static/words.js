/** Word alignment view: a word of a sentence or its translation highlights the words aligned to
    it. Independent of layers and heads. */

import { element, make, percent } from "./dom.js";
import { t } from "./strings.js";

const FAINT = 0.05;
const NAMED = 3;

export class Words {
  #lines = { source: element("source-words"), target: element("target-words") };
  #caption = element("word-caption");
  #buttons = { source: [], target: [] };
  #texts = { source: [], target: [] };
  #weights = [];
  #held = null;
  #active;

  /** `active({side, index})`, or `active(null)`, reports the active word. */
  constructor(active) {
    this.#active = active;
    for (const [side, line] of Object.entries(this.#lines)) {
      const index = (event) => this.#buttons[side].indexOf(event.target);
      line.addEventListener("pointerover", (event) => {
        if (index(event) >= 0) this.#look(side, index(event));
      });
      line.addEventListener("pointerleave", () => this.#rest());
      line.addEventListener("focusin", (event) => this.#hold(side, index(event)));
      line.addEventListener("focusout", () => this.release());
      line.addEventListener("click", (event) => {
        if (index(event) >= 0) this.#hold(side, index(event));
      });
      line.addEventListener("keydown", (event) => this.#move(side, index(event), event));
    }
  }

  /** Show an alignment in the format of the server. */
  show(alignment, languages) {
    this.#held = null;
    const { source_words: source, target_words: target } = alignment;
    this.#weights = target.map(() => new Array(source.length).fill(0));
    for (const link of alignment.links) this.#weights[link.target][link.source] = link.weight;
    this.#write("source", alignment.source, source, languages.source);
    this.#write("target", alignment.target, target, languages.target);
    this.#caption.textContent = "";
  }

  /** Highlight words of `side` by `weights`, as seen from one word of `from.side`, if there is one. */
  light(side, weights, from) {
    this.#dim();
    weights.forEach((weight, i) => this.#shine(this.#buttons[side][i], weight));
    if (from && from.index >= 0) this.#buttons[from.side][from.index]?.classList.add("from");
  }

  /** Clear external highlights and highlight the focused word, if any. */
  restore() {
    this.#dim();
    if (this.#held) this.#light(this.#held);
  }

  release() {
    this.#held = null;
    this.#rest();
  }

  #write(side, text, words, language) {
    const characters = [...text];
    const between = (start, end) => characters.slice(start, end).join("");
    this.#texts[side] = words.map(({ start, end }) => between(start, end));
    this.#buttons[side] = this.#texts[side].map((word, i) =>
      make("button", { type: "button", className: "word", textContent: word, tabIndex: i ? -1 : 0 }));
    const nodes = [];
    let position = 0;
    words.forEach(({ start, end }, i) => {
      nodes.push(between(position, start), this.#buttons[side][i]);
      position = end;
    });
    this.#lines[side].replaceChildren(...nodes, between(position));
    Object.assign(this.#lines[side], { lang: language }).dataset.language = language;
  }

  #look(side, index) {
    this.#light({ side, index });
    this.#active({ side, index });
  }

  #hold(side, index) {
    if (index < 0) return;
    this.#held = { side, index };
    this.#buttons[side].forEach((button, i) => { button.tabIndex = i === index ? 0 : -1; });
    this.#look(side, index);
  }

  #rest() {
    if (this.#held) {
      this.#look(this.#held.side, this.#held.index);
      return;
    }
    this.#dim();
    this.#caption.textContent = "";
    this.#active(null);
  }

  #light(from) {
    const { side, index } = from;
    const other = side === "target" ? "source" : "target";
    const weights = side === "target"
      ? (this.#weights[index] ?? [])
      : this.#weights.map((row) => row[index]);
    this.light(other, weights, from);
    this.#caption.textContent = this.#sentence(from, other, weights);
  }

  #sentence({ side, index }, other, weights) {
    const best = weights
      .map((weight, i) => ({ weight, word: this.#texts[other][i] }))
      .filter(({ weight }) => weight >= FAINT)
      .sort((one, two) => two.weight - one.weight)
      .slice(0, NAMED)
      .map(({ weight, word }) => `${word} ${percent(weight)}`);
    const word = this.#texts[side][index];
    return best.length ? t("alignedWith", { word, words: best.join(", ") }) : t("alignedWithNone", { word });
  }

  #shine(button, weight) {
    if (!button) return;
    button.dataset.weight = String(weight);
    button.classList.toggle("lit", weight >= FAINT);
    button.style.setProperty("--weight", Math.min(1, weight).toFixed(3));
  }

  #dim() {
    for (const button of [...this.#buttons.source, ...this.#buttons.target]) {
      button.classList.remove("lit", "from");
      delete button.dataset.weight;
      button.style.removeProperty("--weight");
    }
  }

  #move(side, index, event) {
    const last = this.#buttons[side].length - 1;
    const other = side === "target" ? "source" : "target";
    const steps = {
      ArrowLeft: () => this.#buttons[side][Math.max(0, index - 1)],
      ArrowRight: () => this.#buttons[side][Math.min(last, index + 1)],
      Home: () => this.#buttons[side][0],
      End: () => this.#buttons[side][last],
      ArrowUp: () => side === "target" && this.#buttons[other].find((button) => button.tabIndex === 0),
      ArrowDown: () => side === "source" && this.#buttons[other].find((button) => button.tabIndex === 0),
      Escape: () => { this.release(); return null; },
    };
    if (index < 0 || !steps[event.key]) return;
    event.preventDefault();
    (steps[event.key]() || null)?.focus();
  }
}
