/** The two language menus, each with a field to search it. */

import { element, fill, percent, sentenceCase } from "./dom.js";
import { DETECT, detection, maySwap, modelChoices, ofModel, sourcesOf, targetChoices } from "./state.js";
import { recall, remember } from "./memory.js";
import { language, languageName, nativeName, t } from "./strings.js";

const MANY = 12;
const RECENT = 4;

export const nameOf = (code) => sentenceCase(languageName(code));

/* If there is no room for both, names are those of the page's language. */
const narrow = matchMedia("(max-width: 44rem)").matches;

const choice = (code) => {
  const [name, native] = [nameOf(code), sentenceCase(nativeName(code))];
  return [code, name === native || narrow ? name : `${name} · ${native}`];
};

/** Show the languages of the state; `choose(source, target)` is called with chosen ones. */
export function showLanguages(store, choose, swap) {
  const source = new Menu("source", () => choose(source.value, target.value));
  const target = new Menu("target", () => choose(source.value, target.value));
  element("swap").addEventListener("click", swap);

  store.watch((state) => ({ codes: sourcesOf(state), chosen: state.source, found: state.result?.unserved ? null : detection(state) }),
    ({ codes, chosen, found }) => {
      const named = found && nameOf(found.language);
      const detecting = found ? (narrow ? named : t("detected", { language: named })) : t("detect");
      source.show(codes.length ? [[DETECT, detecting]] : [], codes, chosen);
      element("source-language").title = found ? sure(found) : "";
    });
  store.watch((state) => ({ codes: targetChoices(state), chosen: state.target }),
    ({ codes, chosen }) => target.show([], codes, chosen));
  store.watch((state) => ({ enabled: maySwap(state) }),
    ({ enabled }) => { element("swap").disabled = !enabled; });
}

/** The menu of the models, shown where the pair has several; `choose(name)` is called with the chosen one. */
export function showModels(store, choose) {
  const menu = element("model");
  menu.addEventListener("change", () => choose(menu.value));
  store.watch((state) => ({ names: modelChoices(state), chosen: state.model }), ({ names, chosen }) => {
    menu.hidden = names.length < 2;
    fill(menu, [["", t("bestModel")], ...names.map((name) => [name, name])], chosen);
  });
}

/** A menu of languages, those chosen last first, with a field to search them if there are many. */
class Menu {
  #menu;
  #field;
  #chosen;
  #first = [];
  #languages = [];
  #value = "";

  /** `chosen` is called when the user has chosen a language. */
  constructor(side, chosen) {
    this.#chosen = chosen;
    this.#menu = element(`${side}-language`);
    this.#field = element(`${side}-search`);
    this.#menu.addEventListener("change", () => this.#choose(this.#menu.value));
    this.#field.addEventListener("input", () => this.#fill());
    this.#field.addEventListener("keydown", (event) => {
      const [found] = event.key === "Enter" && this.#field.value.trim() ? this.#found() : [];
      if (!found) return;
      event.preventDefault();
      this.#choose(found[0]);
    });
  }

  get value() {
    return this.#value;
  }

  show(first, codes, chosen) {
    const recent = recall("recent", []);
    const rank = (code) => (recent.includes(code) ? recent.indexOf(code) : recent.length);
    this.#first = first;
    this.#languages = codes.map(choice).toSorted((one, other) => rank(one[0]) - rank(other[0]) || one[1].localeCompare(other[1], language));
    this.#value = chosen;
    this.#field.hidden = codes.length <= MANY;
    this.#fill();
  }

  /** The languages that have every word of the field in a name, whether or not there is room to show it. */
  #found() {
    const words = plain(this.#field.value).split(" ").filter(Boolean);
    return this.#languages.filter(([code, name]) => words.every((word) => plain(`${code} ${name} ${nativeName(code)}`).includes(word)));
  }

  /** Show the chosen language, too, because the menu would otherwise show another as chosen. */
  #fill() {
    const found = this.#found();
    const all = [...this.#first, ...this.#languages];
    const some = found.length < this.#languages.length;
    fill(this.#menu, some ? all.filter((each) => each[0] === this.#value || found.includes(each)) : all, this.#value);
  }

  #choose(code) {
    this.#value = code;
    this.#field.value = "";
    this.#fill();
    if (code !== DETECT) remember("recent", [code, ...recall("recent", []).filter((other) => other !== code)].slice(0, RECENT));
    this.#chosen();
  }
}

/** The text without accents and capitals, which users leave out when they search. */
const plain = (text) => text.normalize("NFD").replace(/\p{M}/gu, "").toLowerCase();

/** Confidence is in percent, as in LibreTranslate's API. */
export const sure = ({ language, confidence }) =>
  t("sure", { language: nameOf(language), percent: percent(confidence / 100) });
