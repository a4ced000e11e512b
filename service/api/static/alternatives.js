/** Alternative translations of the text, requested only while their list is open. */

import { element, make } from "./dom.js";
import { recall, remember } from "./memory.js";

const MOST = 3;

export class Alternatives {
  #box = element("alternatives");
  #list = element("alternative-list");
  #use;

  /** `use(text)` is called with the chosen alternative, `wanted` when the list is opened. */
  constructor({ use, wanted }) {
    this.#use = use;
    this.#box.open = recall("alternatives", false);
    this.#box.addEventListener("toggle", () => {
      if (recall("alternatives", false) === this.#box.open) return;
      remember("alternatives", this.#box.open);
      if (this.#box.open) wanted();
    });
  }

  /** The number of alternatives to request. */
  get asked() {
    return this.#box.open ? MOST : 0;
  }

  get language() {
    return this.#list.lang;
  }

  hide() {
    this.#box.hidden = true;
  }

  /** Show `texts`; undefined means that they were not requested. */
  show(texts, language) {
    this.#box.hidden = false;
    this.#list.lang = language;
    const none = make("li", { className: "quiet", textContent: "There are no others.", lang: "en" });
    const items = (texts ?? []).map((text) => make("li", {}, this.#button(text)));
    this.#list.replaceChildren(...(texts && !items.length ? [none] : items));
  }

  #button(text) {
    const button = make("button", { type: "button", textContent: text, title: "Use this one" });
    button.addEventListener("click", () => this.#take(button));
    return button;
  }

  /** Swap the chosen alternative with the translation, so that both remain available. */
  #take(button) {
    const replaced = this.#use(button.textContent);
    button.textContent = replaced;
  }
}
