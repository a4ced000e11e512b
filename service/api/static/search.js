/** View of the beam search that made a sentence: its tree step by step, and why each branch ended. */

import { element, percent, save } from "./dom.js";
import { written } from "./pieces.js";
import { t } from "./strings.js";
import { Tree } from "./tree.js";

const DIGITS = 2;
const ENDS = { pruned: "endPruned", finished: "endFinished", dropped: "endDropped" };

export class Search {
  #box = element("search");
  #caption = element("search-caption");
  #slider = element("search-step");
  #tree = new Tree((candidate) => this.#sentence(candidate), (candidate) => this.#show(candidate));
  #failed;
  #search = null;
  #path = new Set();
  /** Ids of candidates that were continued by a kept or finished one. */
  #continued = new Set();
  #stepOf = new Map();

  /** `failed(error)` is called when a file cannot be downloaded. */
  constructor(failed) {
    this.#failed = failed;
    this.#slider.addEventListener("input", () => this.#draw());
  }

  /** Show the search of a sentence; `place` is its position in `subject`. */
  async show(subject, place, signal) {
    this.#box.ariaBusy = "true";
    this.#caption.textContent = t("loading");
    try {
      const search = subject.search ? await subject.search(place, signal) : null;
      if (signal.aborted) return;
      this.#take(search, search ? "" : t("searchOwn"));
      for (const format of ["svg", "png", "json"]) this.#link(format, subject, place);
    } catch (error) {
      if (!signal.aborted) this.#take(null, error.message);
    }
  }

  /** Show a search, or `note` if there is none. */
  #take(search, note) {
    this.#search = search;
    this.#box.ariaBusy = "false";
    this.#box.classList.toggle("empty", !search);
    this.#caption.textContent = note;
    if (!search) return;
    const all = search.steps.flatMap(({ candidates }) => candidates);
    const byId = new Map(all.map((candidate) => [candidate.id, candidate]));
    this.#path = new Set();
    for (let id = search.winner; byId.has(id); id = byId.get(id).parent) this.#path.add(id);
    this.#continued = new Set(all.filter(({ fate }) => fate === "kept" || fate === "finished").map(({ parent }) => parent));
    this.#stepOf = new Map(search.steps.flatMap(({ candidates }, step) => candidates.map(({ id }) => [id, step])));
    this.#slider.max = search.steps.length;
    this.#slider.value = search.steps.length;
    this.#tree.show(search.steps, this.#path);
    this.#draw();
    element("tree").parentElement.scrollLeft = 0;
  }

  #draw() {
    const { steps } = this.#search;
    const step = Number(this.#slider.value);
    const name = t("searchStep", { n: step, most: steps.length });
    element("search-step-name").textContent = name;
    this.#slider.ariaValueText = name;
    this.#tree.limit(step);
    this.#show(null);
  }

  #show(candidate) {
    const note = this.#search.reproduced ? "" : t("searchOther");
    this.#caption.textContent = candidate ? this.#sentence(candidate) : note;
  }

  /** Description of a candidate and of its fate. */
  #sentence(candidate) {
    const number = (value) => value.toFixed(DIGITS).replace("-", "−");
    const { piece, log_probability: logProbability, sum, score } = candidate;
    const values = { piece: written(piece).text, probability: percent(Math.exp(logProbability)), sum: number(sum), score: number(score) };
    const wins = this.#path.has(candidate.id) ? ` ${t("searchWins")}` : "";
    return `${t("searchCandidate", values)} ${this.#end(candidate, number)}${wins}`;
  }

  #end(candidate, number) {
    const step = this.#stepOf.get(candidate.id);
    if (ENDS[candidate.fate]) {
      const better = this.#search.steps[step].candidates.filter(({ fate }) => fate === "kept" || fate === "finished");
      const least = number(Math.min(...better.map(({ score }) => score)));
      return t(ENDS[candidate.fate], { n: better.length, score: number(candidate.score), least });
    }
    if (this.#continued.has(candidate.id)) return t("endContinued");
    return t(step + 1 === this.#search.steps.length ? "endStopped" : "endOvertaken");
  }

  /** Fetches and saves the bytes, because a link cannot send a key. */
  #link(format, subject, place) {
    element(`search-${format}`).onclick = async (event) => {
      event.preventDefault();
      try {
        save(await subject.searchBytes(place, format), `search.${format}`);
      } catch (error) {
        this.#failed(error);
      }
    };
  }
}
