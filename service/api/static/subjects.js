/** Subjects of the attention panel: a translation kept by the server, or sentences of two texts.
    Both provide legs, the pieces and the alignment of a sentence, and its attention maps. */

import { sentencesOf, spoken } from "./state.js";
import { t } from "./strings.js";

const SEGMENTS = new Intl.Segmenter(undefined, { granularity: "sentence" });

/** The subject of the result of the state. */
export function subjectOf(server, state) {
  const { result } = state;
  if (!result.own) return new KeptTranslation(server, result.id);
  const pairs = sentencesOf(state).map(({ source, target }) => ({
    source: result.inputs.text.slice(source.start, source.end),
    target: result.translation.slice(target.start, target.end),
  }));
  return new Pairs(server, spoken({ ...result.inputs, result }), result.inputs.target, pairs);
}

class KeptTranslation {
  #server;
  #path;

  constructor(server, id) {
    this.#server = server;
    this.#path = `translations/${encodeURIComponent(id)}`;
  }

  note() {
    return "";
  }

  /** One leg for each model of the route, with its sentences. */
  async legs(signal) {
    return (await this.#server.get(this.#path, signal)).texts[0].legs;
  }

  async pieces({ sentence }, leg) {
    const { source_pieces: source, target_pieces: target } = leg.sentences[sentence];
    return { source, target };
  }

  async alignment(place, signal) {
    return this.#server.get(`${this.#path}/alignment?${new URLSearchParams(place)}`, signal);
  }

  async attention(place, query, signal) {
    return this.#server.get(this.address(place, query), signal);
  }

  /** The address of the maps; "" if they have none. */
  address(place, query) {
    return `${this.#path}/attention?${new URLSearchParams({ ...place, ...query })}`;
  }

  async bytes(place, query) {
    return this.#server.bytes(this.address(place, query));
  }

  async search(place, signal) {
    return this.#server.get(`${this.#path}/search?${new URLSearchParams(place)}`, signal);
  }

  async searchBytes(place, format) {
    return this.#server.bytes(`${this.#path}/search?${new URLSearchParams({ ...place, format })}`);
  }
}

/** Pairs of sentences, each of which the model reads as one. They have no search. */
class Pairs {
  #server;
  #languages;
  #pairs;

  constructor(server, source, target, pairs) {
    this.#server = server;
    this.#languages = { source, target };
    this.#pairs = pairs;
  }

  /** Note on the maps of a sentence. */
  note({ sentence }) {
    return [...SEGMENTS.segment(this.#pairs[sentence].target)].length > 1 ? t("attentionOneSentence") : "";
  }

  async legs(signal) {
    const maps = ["cross", "encoder"].map((kind) =>
      this.attention({ sentence: 0 }, { kind, layer: "all", head: "all" }, signal));
    const [cross, encoder] = await Promise.all(maps);
    const layers = { encoder: encoder.layers.length, decoder: cross.layers.length };
    return [{ ...this.#languages, layers, heads: cross.heads.length, sentences: this.#pairs }];
  }

  async pieces(place, _, signal) {
    const { rows, columns } = await this.attention(place, { kind: "cross", layer: "mean" }, signal);
    return { source: columns, target: rows };
  }

  async alignment(place, signal) {
    return (await (await this.#post(place, { alignment: true }, signal)).json()).alignment;
  }

  async attention(place, query, signal) {
    return (await this.#post(place, query, signal)).json();
  }

  address() {
    return "";
  }

  async bytes(place, query) {
    return (await this.#post(place, query)).blob();
  }

  #post({ sentence }, query, signal) {
    const { source, target } = this.#pairs[sentence];
    return this.#server.post("attention", { ...this.#languages, source_text: source, target_text: target, ...query }, signal);
  }
}
