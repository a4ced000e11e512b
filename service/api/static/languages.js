/** The two language menus: available, chosen and detected languages. */

import { element, fill, percent, sentenceCase } from "./dom.js";
import { recall, remember } from "./memory.js";

export const DETECT = "auto";

export class Languages {
  #source = element("source-language");
  #target = element("target-language");
  #swap = element("swap");
  #sure = element("detected");
  #offered = [];
  #detected = null;
  #changed;

  /** `changed` is called when a language is chosen; `swapped` when the two are swapped. */
  constructor({ changed, swapped }) {
    this.#changed = changed;
    for (const select of [this.#source, this.#target]) {
      select.addEventListener("change", () => this.#choose());
    }
    this.#swap.addEventListener("click", swapped);
  }

  get source() {
    return this.#source.value;
  }

  get target() {
    return this.#target.value;
  }

  /** The language of the text: the chosen one, or the detected one, or "" if unknown. */
  get spoken() {
    return this.source === DETECT ? (this.#detected?.language ?? "") : this.source;
  }

  /** Whether the available languages are loaded. */
  get ready() {
    return this.#offered.length > 0;
  }

  get maySwap() {
    return Boolean(this.spoken) && this.spoken !== this.target
      && this.#targetsOf(this.target).includes(this.spoken);
  }

  name(code) {
    const language = this.#named(code);
    return language ? sentenceCase(language.name) : code;
  }

  offer(languages, preferred) {
    this.#offered = languages;
    const [source, target] = recall("languages", []);
    this.choose(source ?? preferred.source, target ?? preferred.target);
  }

  /** Choose a pair, as far as it is available. */
  choose(source, target) {
    const sources = this.#offered.filter(({ code }) => this.#targetsOf(code).length > 0);
    const choices = [
      [DETECT, "Detect language"],
      ...sources.map(({ code }) => [code, this.name(code)]),
    ];
    fill(this.#source, this.ready ? choices : [], source);
    this.#fillTargets(target);
    this.#show();
    if (this.ready) remember("languages", [this.source, this.target]);
  }

  /** Another target than the language `code`, "" if there is none. */
  otherThan(code) {
    return this.#targetsOf(code)[0] ?? "";
  }

  /** Show the detected language; null clears it. */
  detected(detection) {
    this.#detected = detection;
    this.#show();
  }

  #choose() {
    this.#detected = null;
    this.choose(this.source, this.target);
    this.#changed();
  }

  #fillTargets(target) {
    const codes = this.source === DETECT
      ? [...new Set(this.#offered.flatMap(({ code }) => this.#targetsOf(code)))]
      : this.#targetsOf(this.source);
    fill(this.#target, codes.map((code) => [code, this.name(code)]), target);
  }

  #show() {
    const { language, confidence } = this.#detected ?? {};
    const known = language && confidence > 0;
    const detecting = this.#source.querySelector(`option[value="${DETECT}"]`);
    if (detecting) {
      detecting.textContent = known ? `${this.name(language)}, detected` : "Detect language";
    }
    // Confidence is in percent, as in LibreTranslate's API.
    this.#sure.textContent = known && this.source === DETECT
      ? `${this.name(language)}, ${percent(confidence / 100)} sure`
      : "";
    this.#swap.disabled = !this.maySwap;
  }

  #named(code) {
    return this.#offered.find((language) => language.code === code);
  }

  #targetsOf(code) {
    return (this.#named(code)?.targets ?? []).filter((target) => target !== code);
  }
}
