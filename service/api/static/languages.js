/** The two language menus. */

import { element, fill, percent, sentenceCase } from "./dom.js";
import { DETECT, detection, maySwap, sourcesOf, targetChoices } from "./state.js";
import { languageName, nativeName, t } from "./strings.js";

export const nameOf = (code) => sentenceCase(languageName(code));

const choice = (code) => {
  const [name, native] = [nameOf(code), sentenceCase(nativeName(code))];
  return [code, name === native ? name : `${name} · ${native}`];
};

/** Show the languages of the state; `choose(source, target)` is called with chosen ones. */
export function showLanguages(store, choose, swap) {
  const source = element("source-language");
  const target = element("target-language");
  for (const menu of [source, target]) {
    menu.addEventListener("change", () => choose(source.value, target.value));
  }
  element("swap").addEventListener("click", swap);

  store.watch((state) => ({ codes: sourcesOf(state), chosen: state.source, found: detection(state) }),
    ({ codes, chosen, found }) => {
      const detecting = found ? t("detected", { language: nameOf(found.language) }) : t("detect");
      fill(source, codes.length ? [[DETECT, detecting], ...codes.map(choice)] : [], chosen);
      element("detected").textContent = found ? sure(found) : "";
    });
  store.watch((state) => ({ codes: targetChoices(state), chosen: state.target }),
    ({ codes, chosen }) => fill(target, codes.map(choice), chosen));
  store.watch((state) => ({ enabled: maySwap(state) }),
    ({ enabled }) => { element("swap").disabled = !enabled; });
}

/** Confidence is in percent, as in LibreTranslate's API. */
export const sure = ({ language, confidence }) =>
  t("sure", { language: nameOf(language), percent: percent(confidence / 100) });
