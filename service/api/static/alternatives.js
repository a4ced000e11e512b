/** Alternative translations of the chosen sentence, requested only while their list is open. */

import { element, make } from "./dom.js";
import { remember } from "./memory.js";
import { difference, replaced, wordsOf } from "./spans.js";
import { glossary, ofModel, sentencesOf, spoken, stale, undoable } from "./state.js";
import { t } from "./strings.js";

const ALTERNATIVES = 3;
/** No alternatives are requested of a text that is being typed. */
const REST_MS = 300;

export class Alternatives {
  #box = element("alternatives");
  #list = element("alternative-list");
  #server;
  #store;
  #request = new AbortController();
  /** The translations of a sentence by the model, and the fields of the request for them. */
  #known = { asked: "", texts: [] };

  constructor(server, store) {
    this.#server = server;
    this.#store = store;
    this.#box.open = store.state.listed;
    this.#box.addEventListener("toggle", () => {
      store.change({ listed: this.#box.open });
      remember("alternatives", this.#box.open);
    });
    store.watch((state) => ({ ...placeOf(state) }), (place) => this.#follow(place));
  }

  async #follow({ fields, present, number, count }) {
    this.#request.abort();
    const { listed, result } = this.#store.state;
    this.#box.hidden = !result?.translated;
    element("alternatives-place").textContent = count > 1 ? t("sentenceOf", { n: number, most: count }) : "";
    if (!listed || !fields) {
      this.#list.replaceChildren();
      return;
    }
    const request = new AbortController();
    this.#request = request;
    const asked = JSON.stringify(fields);
    try {
      if (this.#known.asked !== asked) {
        // A translation of another sentence must not be chosen for this one.
        this.#list.replaceChildren(note(t("loading")));
        await new Promise((rested) => { setTimeout(rested, REST_MS); });
        if (request.signal.aborted) return;
        const { translatedText, alternatives } = await this.#server.translate(fields, request.signal);
        this.#known = { asked, texts: [translatedText, ...alternatives] };
      }
      if (!request.signal.aborted) this.#show(present, this.#known.texts.filter((text) => text !== present));
    } catch (error) {
      if (!request.signal.aborted) this.#list.replaceChildren(note(error.message));
    }
  }

  #show(present, texts) {
    const items = texts.map((text) => {
      const button = make("button", { type: "button", title: t("useThis"), lang: this.#store.state.target }, ...compared(present, text));
      button.addEventListener("click", () => this.#use(text));
      return make("li", {}, button);
    });
    this.#list.replaceChildren(...(items.length ? items : [note(t("noAlternatives"))]));
  }

  #use(text) {
    const { state } = this.#store;
    if (!stale(state)) this.#store.change(undoable(state, replaced(state, chosenSentence(state).target, text)));
  }
}

const note = (text) => make("li", { className: "quiet", textContent: text });

const chosenSentence = (state) => sentencesOf(state)[state.sentence] ?? sentencesOf(state)[0];

/** The fields of the request for alternatives of the chosen sentence, and its translation. */
function placeOf(state) {
  const { listed, result } = state;
  if (!result?.translated) return { listed, translated: false };
  if (stale(state) || !result.sentences) return { listed, translated: true };
  const { source, target } = chosenSentence(state);
  const { text, format, target: language } = result.inputs;
  const q = text.slice(source.start, source.end);
  return {
    listed,
    fields: { q, source: spoken(state), target: language, format, ...ofModel(state, result), ...glossary(result.inputs), alternatives: ALTERNATIVES },
    present: result.translation.slice(target.start, target.end),
    number: sentencesOf(state).indexOf(chosenSentence(state)) + 1,
    count: sentencesOf(state).length,
  };
}

/** Nodes of `text`, in which the words that differ from `present` are marked. */
function compared(present, text) {
  const whole = (spans, { start, end }) => {
    const changed = spans.filter((span) => span.start < end && span.end > start);
    return { start: Math.min(start, ...changed.map((span) => span.start)), end: Math.max(end, ...changed.map((span) => span.end)) };
  };
  const { start, otherEnd } = difference(present, text);
  const marked = whole(wordsOf(text), { start, end: otherEnd });
  const mark = make("mark", { textContent: text.slice(marked.start, marked.end) });
  return [text.slice(0, marked.start), ...(mark.textContent ? [mark] : []), text.slice(marked.end)];
}
