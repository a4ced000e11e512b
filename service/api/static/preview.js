/** Preview of a translation of which some sentences are not done: those that are known, the parts of
    others that have arrived, and until then what stood in their place. */

import { keyOf, known } from "./remembered.js";
import { interleaved } from "./splits.js";

const NOTHING = { key: "", sentences: [], texts: [] };

export class Preview {
  #parts = new Map();
  #shown = NOTHING;

  /** Collect the parts of the texts of a request: `add(number, part)` of the text with this number. */
  begin(fields, texts) {
    const keys = texts.map((text) => keyOf(fields, text));
    for (const key of keys) this.#parts.set(key, "");
    return { add: (number, part) => this.#parts.set(keys[number], this.#parts.get(keys[number]) + part) };
  }

  /** Note that the translation of a text is shown; null if it was not split. */
  shown(present) {
    this.#parts.clear();
    this.#shown = present
      ? this.#view(present, present.found.sentences.map((sentence) => known(present.fields, sentence).text))
      : NOTHING;
  }

  /** The text to show, null if nothing is known that fits what is shown now; `first` if nothing is. */
  of(present, first) {
    const { found: { sentences, separators }, fields } = present;
    const before = this.#shown.key === keyOf(fields, "") ? this.#shown : NOTHING;
    if (before === NOTHING && !first) return null;
    const instead = places(before, sentences);
    const texts = sentences.map((sentence, i) => known(fields, sentence)?.text
      || this.#parts.get(keyOf(fields, sentence)) || instead(i));
    this.#shown = this.#view(present, texts);
    return texts.some(Boolean) ? interleaved(separators, texts) : "";
  }

  #view({ found, fields }, texts) {
    return { key: keyOf(fields, ""), sentences: found.sentences, texts };
  }
}

/** A function of what was shown in place of a sentence, by its number, if others stand around it as before. */
function places({ sentences: old, texts }, sentences) {
  let start = 0;
  while (start < old.length && old[start] === sentences[start]) start += 1;
  let end = 0;
  while (end < old.length - start && old.at(-1 - end) === sentences.at(-1 - end)) end += 1;
  return (number) => {
    if (number >= sentences.length - end) return texts[number - sentences.length + old.length];
    return number < old.length - end ? texts[number] : "";
  };
}
