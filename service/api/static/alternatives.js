/** Alternative translations of the text, requested only while their list is open. */

import { element, make } from "./dom.js";
import { remember } from "./memory.js";
import { stale } from "./state.js";
import { t } from "./strings.js";

/** Show the alternatives of the result; `use(text)` is called with the chosen one, `wanted` when
    the list is opened. */
export function showAlternatives(store, { use, wanted }) {
  const box = element("alternatives");
  const list = element("alternative-list");
  box.open = store.state.listed;
  box.addEventListener("toggle", () => {
    if (store.state.listed === box.open) return;
    store.change({ listed: box.open });
    remember("alternatives", box.open);
    if (box.open) wanted();
  });
  store.watch(({ result, listed }) => ({ result, listed }), ({ result }) => {
    box.hidden = !result || (result.own && !result.alternatives?.length);
    const texts = result?.alternatives;
    if (!texts) {
      list.replaceChildren();
      return;
    }
    const none = make("li", { className: "quiet", textContent: t("noAlternatives") });
    const items = texts.map((text) => {
      const button = make("button", { type: "button", textContent: text, title: t("useThis"), lang: result.inputs.target });
      button.addEventListener("click", () => { if (!stale(store.state)) use(text); });
      return make("li", {}, button);
    });
    list.replaceChildren(...(items.length ? items : [none]));
  });
}
