/** Subjects of the attention panel: a translation kept by the server, or any pair of texts.
    Both provide legs, the alignment of a sentence, and its attention maps. */

import { spoken } from "./state.js";
import { t } from "./strings.js";

/** The subject of a result of the state. */
export function subjectOf(server, result) {
  if (!result.own) return new KeptTranslation(server, result.id);
  const { target, text } = result.inputs;
  const source = spoken({ ...result.inputs, result });
  return new Pair(server, { source, target, sourceText: text, targetText: result.translation });
}

class KeptTranslation {
  note = "";
  #server;
  #path;

  constructor(server, id) {
    this.#server = server;
    this.#path = `translations/${encodeURIComponent(id)}`;
  }

  /** One leg for each model of the route, with its sentences and their pieces. */
  async legs(signal) {
    return (await this.#server.get(this.#path, signal)).texts[0].legs;
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
}

class Pair {
  /** What to know of these maps. */
  note;
  #server;
  #fields;

  /** The server reads either text as one sentence, however many it has. */
  constructor(server, { source, target, sourceText, targetText }) {
    this.#server = server;
    this.#fields = { source, target, source_text: sourceText, target_text: targetText };
    const sentences = new Intl.Segmenter(target, { granularity: "sentence" }).segment(targetText);
    this.note = [...sentences].length > 1 ? t("attentionOneSentence") : "";
  }

  async legs(signal) {
    const [cross, encoder] = await Promise.all(["cross", "encoder"].map((kind) =>
      this.attention({}, { kind, layer: "all", head: "all" }, signal)));
    const { source, target, source_text: sourceText, target_text: targetText } = this.#fields;
    return [{
      source,
      target,
      layers: { encoder: encoder.layers.length, decoder: cross.layers.length },
      heads: cross.heads.length,
      sentences: [{
        source: sourceText,
        target: targetText,
        source_pieces: cross.columns,
        target_pieces: cross.rows,
      }],
    }];
  }

  async alignment(_, signal) {
    return (await this.#post({ alignment: true }, signal)).alignment;
  }

  async attention(_, query, signal) {
    return this.#post(query, signal);
  }

  address() {
    return "";
  }

  async bytes(_, query) {
    return (await this.#server.post("attention", { ...this.#fields, ...query })).blob();
  }

  async #post(more, signal) {
    return (await this.#server.post("attention", { ...this.#fields, ...more }, signal)).json();
  }
}
