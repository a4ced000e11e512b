/** Requests translations of the state. Texts are translated by sentences, each of which is requested
    once, whatever changes around it. HTML, and texts whose attention is shown, are translated whole. */

import { Preview } from "./preview.js";
import { keyOf, known, learn } from "./remembered.js";
import { assembled, sentenceFields, splitFields } from "./splits.js";
import { DETECT, ofModel, query, resultOf, streamed } from "./state.js";

/** Milliseconds between the requests of a text that is being typed, and before the first of them. */
const INTERVAL_MS = 700;
const PAUSE_MS = 250;
/** Sentences of one request. A service may allow few texts in a request. */
const MOST_SENTENCES = 50;

export class Translating {
  #server;
  #store;
  #due = 0;
  #last = -Infinity;
  #splitting = null;
  /** Requests in progress: their `texts`, the `fields` that these have in common, and an abort controller. */
  #requests = new Set();
  /** Whether to translate the text as it is then, once the requests in progress are answered. */
  #again = false;
  /** The text that was split last: its state, its sentences and what is between them. */
  #present = null;
  #preview = new Preview();

  constructor(server, store) {
    this.#server = server;
    this.#store = store;
  }

  /** Request a translation while a text is being typed; at once where a sentence has `ended`. */
  soon(ended = false) {
    const { text, live, error } = this.#store.state;
    if (!text.trim()) this.now();
    // The countdown of a refusal ends with a request.
    else if (live && !error?.retryAfter) this.#schedule(ended);
  }

  #schedule(ended) {
    if (ended) {
      this.#begin();
    } else if (!this.#due) {
      const wait = Math.max(PAUSE_MS, this.#last + INTERVAL_MS - performance.now());
      this.#due = setTimeout(() => this.#next(), wait);
    }
  }

  /** Translate the text again, unless requests in progress are for a part of it. */
  #next() {
    this.#due = 0;
    const { text } = this.#store.state;
    const useful = ({ texts }) => texts.some((each) => text.includes(each));
    if (this.#splitting || [...this.#requests].some(useful)) this.#again = true;
    else this.#begin();
  }

  now() {
    this.#splitting?.abort();
    this.#splitting = null;
    this.#store.change({ error: null });
    this.#begin();
  }

  /** Abort the requests in progress, and forget the one that was to come. */
  stop() {
    this.#halt();
    this.#store.change({ running: false, partial: null, error: null });
  }

  #halt() {
    clearTimeout(this.#due);
    this.#due = 0;
    this.#again = false;
    this.#present = null;
    this.#splitting?.abort();
    this.#splitting = null;
    this.#keepOnly(() => false);
  }

  #begin() {
    clearTimeout(this.#due);
    this.#due = 0;
    const { state } = this.#store;
    const fields = query(state);
    if (!fields) {
      this.stop();
      this.#store.change({ result: null });
    } else if (this.#splitting) {
      this.#again = true;
    } else {
      this.#again = false;
      this.#last = performance.now();
      // Until the answer is complete, a former translation stays; without one, its parts are shown.
      this.#store.change({ running: true, partial: state.partial ?? (state.result ? null : "") });
      if (state.why || state.format === "html") this.#whole(fields, state);
      else this.#split(state);
    }
  }

  async #whole(fields, state) {
    this.#halt();
    this.#store.change({ partial: state.result ? null : "" });
    let given = fields;
    if (state.source === DETECT && state.model && !fields.model) {
      const found = await this.#found(state);
      if (!found) return;
      given = { ...fields, ...ofModel(state, state, found.source) };
    }
    const answer = await this.#request([fields.q], given, (text) => {
      const { partial } = this.#store.state;
      if (partial !== null) this.#store.change({ partial: partial + text });
    });
    if (answer) this.#show(resultOf(answer, state));
  }

  async #split(state) {
    const found = await this.#found(state);
    if (!found) return;
    this.#present = { state, found, fields: sentenceFields(state, found) };
    this.#proceed();
  }

  /** Language and sentences of the text; null if the request for them was aborted or refused. */
  async #found(state) {
    const request = this.#splitting = new AbortController();
    try {
      const found = await this.#server.split(splitFields(state), request.signal);
      if (this.#splitting !== request) return null;
      this.#splitting = null;
      return found;
    } catch (error) {
      if (this.#splitting === request) this.#fail(error);
      return null;
    }
  }

  /** Show what is known of the present text, and request the sentences that are not. */
  #proceed() {
    if (!this.#present) return;
    const { state, found, fields } = this.#present;
    const missing = new Set(found.sentences.filter((sentence) => !known(fields, sentence)));
    const pending = (request) => keyOf(request.fields, "") === keyOf(fields, "") && request.texts.some((text) => missing.has(text));
    this.#keepOnly(pending);
    for (const text of [...this.#requests].flatMap(({ texts }) => texts)) missing.delete(text);
    if (missing.size) this.#sentences([...missing].slice(0, MOST_SENTENCES), fields);
    const translations = found.sentences.map((sentence) => known(fields, sentence));
    if (translations.includes(undefined)) this.#showParts();
    else this.#show(assembled(state, found, translations));
  }

  async #sentences(texts, fields) {
    const parts = this.#preview.begin(fields, texts);
    const [q, stream] = [texts.length > 1 ? texts : texts[0], streamed(texts.join(""))];
    const answer = await this.#request(texts, { ...fields, q, ...stream }, (text, number) => {
      parts.add(number, text);
      this.#showParts();
    });
    if (!answer) return;
    learn(fields, texts, answer);
    this.#proceed();
  }

  /** The answer to a request, null if it was aborted or refused. */
  async #request(texts, fields, part) {
    const request = { texts, fields, controller: new AbortController() };
    this.#requests.add(request);
    try {
      const answer = await this.#server.translate(fields, request.controller.signal, (...each) => {
        if (this.#requests.has(request)) part(...each);
      });
      return this.#requests.has(request) ? answer : null;
    } catch (error) {
      if (this.#requests.has(request)) this.#fail(error);
      return null;
    } finally {
      this.#requests.delete(request);
    }
  }

  #keepOnly(useful) {
    for (const request of this.#requests) {
      if (useful(request)) continue;
      this.#requests.delete(request);
      request.controller.abort();
    }
  }

  #show(result) {
    this.#preview.shown(this.#present);
    this.#store.change({ running: this.#again, partial: null, error: null, result });
    if (this.#again) this.#begin();
  }

  #showParts() {
    const { result } = this.#store.state;
    const partial = this.#preview.of(this.#present, result === null);
    if (partial !== null) this.#store.change({ partial });
  }

  /** A translation stays while the page waits to try again. */
  #fail(error) {
    this.#halt();
    this.#store.change({ running: false, error, ...(error.retryAfter ? {} : { partial: null, result: null }) });
  }
}
