/** Other translations of the same text. They are asked for only while somebody looks at them. */

import { element, make } from "./dom.js";
import { recall, remember } from "./memory.js";

const MOST = 3;

export class Alternatives {
  #box = element("alternatives");
  #list = element("alternative-list");
  #use;

  /** `use(text)` is called with the alternative somebody takes, `wanted` when the list is opened. */
  constructor({ use, wanted }) {
    this.#use = use;
    this.#box.open = recall("alternatives", false);
    this.#box.addEventListener("toggle", () => {
      if (recall("alternatives", false) === this.#box.open) return;
      remember("alternatives", this.#box.open);
      if (this.#box.open) wanted();
    });
  }

  /** How many to ask for. */
  get asked() {
    return this.#box.open ? MOST : 0;
  }

  get language() {
    return this.#list.lang;
  }

  hide() {
    this.#box.hidden = true;
  }

  /** Show `texts`; undefined means that they were not asked for. */
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

  /** What was taken and what it replaces change places, so that nothing is lost. */
  #take(button) {
    const replaced = this.#use(button.textContent);
    button.textContent = replaced;
  }
}
