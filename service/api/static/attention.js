/** Attention panel: sentence choice, word alignment, and a view of attention maps or of the search.
    It sends no requests while it is closed. */

import { element, fill, linkButton } from "./dom.js";
import { Maps } from "./maps.js";
import { Search } from "./search.js";
import { Words } from "./words.js";
import { wordsOfPieces } from "./pieces.js";
import { stale } from "./state.js";
import { t } from "./strings.js";
import { subjectOf } from "./subjects.js";

const SHOWN_OF_A_SENTENCE = 60;

export class Attention {
  #server;
  #store;
  #wanted;
  #body = element("attention-body");
  #note = element("attention-note");
  #leg = element("leg");
  #sentence = element("sentence");
  #words;
  #maps;
  #search = new Search((error) => this.#failed(error));
  #views = [...document.querySelectorAll("input[name=view]")];
  #request = new AbortController();
  #subject = null;
  #legs = [];
  #wordOf = { source: [], target: [] };
  #shown = 0;
  #counts = { source: 0, target: 0 };

  /** `wanted` is called when the panel is open and needs a translation with an id. */
  constructor(server, store, wanted) {
    this.#server = server;
    this.#store = store;
    this.#wanted = wanted;
    this.#words = new Words((word) => this.#maps.mark(this.#piecesOf(word)));
    this.#maps = new Maps({
      failed: (error) => this.#failed(error),
      pointed: (place) => this.#pointed(place),
    });
    this.#leg.addEventListener("change", () => this.#showLeg());
    for (const view of this.#views) view.addEventListener("change", () => this.#changeView());
    this.#sentence.addEventListener("change", () => store.change({ sentence: Number(this.#sentence.value) }));
    store.watch(({ sentence }) => ({ sentence }), ({ sentence }) => {
      if (!this.#legs[this.#leg.value]?.sentences[sentence] || sentence === this.#shown) return;
      this.#sentence.value = sentence;
      this.#showSentence();
    });
    store.watch((state) => ({ ...shown(state), old: state.running || stale(state) }), ({ old }) => this.#follow(old));
    store.watch((state) => ({ note: noteOf(state) }), ({ note }) => { this.#note.textContent = note; });
  }

  /** Show the result of the state, if the panel is open. A result is `old` while another
      translation runs or is due: what the panel shows of it stays, marked as busy. */
  #follow(old) {
    const { why, result } = this.#store.state;
    if (!why || !result) {
      this.#clear();
    } else if (old || (result.own && !result.sentences)) {
      this.#body.setAttribute("aria-busy", "true");
    } else if (!result.kept && !result.own) {
      this.#wanted();
    } else if (!result.id && !result.own) {
      this.#clear(t("nothingTranslated"));
    } else {
      this.#show(subjectOf(this.#server, this.#store.state));
    }
  }

  async #show(subject) {
    const request = this.#begin();
    this.#subject = subject;
    this.#legs = [];
    this.#body.setAttribute("aria-busy", "true");
    try {
      const legs = await subject.legs(request.signal);
      if (request.signal.aborted) return;
      this.#legs = legs;
    } catch (error) {
      if (!request.signal.aborted) this.#failed(error);
      return;
    }
    if (!this.#legs.some(({ sentences }) => sentences.length)) {
      this.#clear(t("nothingTranslated"));
      return;
    }
    const legs = this.#legs.map(({ source, target }, i) => [i, `${source} → ${target}`]);
    fill(this.#leg, legs, legs.length - 1);
    this.#leg.parentElement.hidden = legs.length === 1;
    await this.#showLeg();
  }

  /** Show nothing but `note`. */
  #clear(note = noteOf(this.#store.state)) {
    this.#begin();
    this.#maps.stop();
    this.#body.hidden = true;
    this.#note.textContent = note;
  }

  /** An edited text keeps the place of the chosen sentence. */
  async #showLeg() {
    const { sentences } = this.#legs[this.#leg.value];
    const names = sentences.map(({ target }, i) => [i, `${i + 1} · ${shortened(target)}`]);
    fill(this.#sentence, names, Math.min(this.#store.state.sentence, sentences.length - 1));
    this.#sentence.parentElement.hidden = sentences.length === 1;
    element("place-pickers").hidden = this.#legs.length === 1 && sentences.length === 1;
    await this.#showSentence();
  }

  async #showSentence() {
    const request = this.#begin();
    this.#body.setAttribute("aria-busy", "true");
    const leg = this.#legs[this.#leg.value];
    this.#shown = Number(this.#sentence.value);
    const place = { text: 0, leg: this.#leg.value, sentence: this.#sentence.value };
    try {
      const [alignment, pieces] = await Promise.all([
        this.#subject.alignment(place, request.signal),
        this.#subject.pieces(place, leg, request.signal),
      ]);
      if (request.signal.aborted) return;
      for (const side of ["source", "target"]) {
        const words = alignment[`${side}_words`];
        this.#wordOf[side] = wordsOfPieces(pieces[side], alignment[side], words);
        this.#counts[side] = words.length;
      }
      this.#note.textContent = this.#subject.note(place);
      this.#body.hidden = false;
      this.#words.show(alignment, leg);
    } catch (error) {
      if (!request.signal.aborted) this.#failed(error);
      return;
    }
    await this.#showView(place, leg, request.signal);
    if (!request.signal.aborted) this.#body.setAttribute("aria-busy", "false");
  }

  get #view() {
    return this.#views.find(({ checked }) => checked).value;
  }

  /** The heat map and the lines show the same map. */
  #changeView() {
    const search = this.#view === "search";
    const loaded = search !== element("search").hidden;
    element("search").hidden = !search;
    for (const id of ["maps", "map-pickers", "map-foot"]) element(id).hidden = search;
    for (const each of [element("heat-map").parentElement, element("heat-keys")]) each.hidden = this.#view === "lines";
    element("lines").hidden = this.#view !== "lines";
    if (!loaded) this.#showSentence();
  }

  async #showView(place, leg, signal) {
    if (this.#view === "search") await this.#search.show(this.#subject, place, signal);
    else await this.#maps.show(this.#subject, place, leg);
  }

  #begin() {
    this.#request.abort();
    this.#request = new AbortController();
    return this.#request;
  }

  #failed(error) {
    this.#clear(error.gone ? `${t("forgotten")} ` : error.message);
    if (error.gone) this.#note.append(linkButton(t("translateAgain"), () => this.#wanted()));
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

/** Parts of the state that decide which maps the panel shows. */
const shown = ({ why, result }) =>
  ({ why, id: result?.id, own: result?.own && result.sentences, text: result?.translation, inputs: result?.inputs });

/** Note of the panel while it has no maps. */
function noteOf({ why, text, result, error, running, offered }) {
  if (!why || result || error) return "";
  if (!text.trim()) return t("typeToSee");
  return running || !offered.length ? t("translating") : "";
}

const shortened = (text) =>
  text.length > SHOWN_OF_A_SENTENCE ? `${text.slice(0, SHOWN_OF_A_SENTENCE)}…` : text;
