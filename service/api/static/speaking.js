/** Reads the texts aloud with voices of this device. Voices of other services are not used, because
    they would send the text elsewhere. */

import { element } from "./dom.js";
import { sentencesOf, spoken, stale } from "./state.js";

const SIDES = ["source", "target"];

export class Speaking {
  #store;
  #buttons = Object.fromEntries(SIDES.map((side) => [side, element(`speak-${side}`)]));
  #side = "";

  constructor(store) {
    this.#store = store;
    if (!window.speechSynthesis) return;
    for (const side of SIDES) this.#buttons[side].addEventListener("click", () => this.#toggle(side));
    const show = () => {
      for (const side of SIDES) this.#buttons[side].hidden = !voiceFor(this.#languageOf(side)) || !this.#textsOf(side).length;
    };
    // Some browsers load their voices later.
    speechSynthesis.addEventListener("voiceschanged", show);
    store.watch((state) => ({ source: spoken(state), target: state.target, text: Boolean(state.text.trim()), result: Boolean(state.result) }), show);
    for (const [side, select] of [["source", ({ text }) => ({ text })], ["target", ({ result }) => ({ text: result?.translation })]]) {
      store.watch(select, () => { if (this.#side === side) this.#stop(); });
    }
    window.addEventListener("pagehide", () => this.#stop());
  }

  #languageOf(side) {
    const { state } = this.#store;
    return side === "source" ? spoken(state) : (state.result?.inputs.target ?? "");
  }

  /** The sentences of a text, each of which is one utterance: browsers break off long ones. */
  #textsOf(side) {
    const { state } = this.#store;
    const text = side === "source" ? state.text : state.result?.translation;
    if (!text?.trim()) return [];
    if (!state.result || (side === "source" && stale(state))) return text.split("\n").filter((line) => line.trim());
    return sentencesOf(state).map(({ [side]: { start, end } }) => text.slice(start, end));
  }

  #toggle(side) {
    const again = this.#side === side;
    this.#stop();
    if (again) return;
    const voice = voiceFor(this.#languageOf(side));
    const utterances = this.#textsOf(side).map((text) => Object.assign(new SpeechSynthesisUtterance(text), { voice, lang: voice.lang }));
    const done = () => { if (this.#side === side) this.#stop(); };
    utterances.at(-1).addEventListener("end", done);
    for (const utterance of utterances) utterance.addEventListener("error", done);
    this.#side = side;
    this.#buttons[side].ariaPressed = "true";
    for (const utterance of utterances) speechSynthesis.speak(utterance);
  }

  #stop() {
    if (!this.#side) return;
    this.#buttons[this.#side].ariaPressed = "false";
    this.#side = "";
    speechSynthesis.cancel();
  }
}

/** The voice of this device for a language, its default one if there are several. */
function voiceFor(language) {
  const base = (tag) => tag.toLowerCase().split(/[-_]/)[0];
  const voices = speechSynthesis.getVoices().filter(({ localService, lang }) => localService && language && base(lang) === base(language));
  return voices.find((voice) => voice.default) ?? voices[0];
}
