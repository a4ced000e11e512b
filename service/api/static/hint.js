/** Hint that the text already seems to be in the target language, and an offer of another target. */

import { element, make } from "./dom.js";

export class Hint {
  #box = element("hint");
  #languages;
  #translateTo;

  constructor(languages, translateTo) {
    this.#languages = languages;
    this.#translateTo = translateTo;
  }

  hide() {
    this.#box.hidden = true;
  }

  show(spoken, target) {
    const other = this.#languages.otherThan(target);
    this.#box.hidden = !spoken || spoken !== target || !other;
    if (this.#box.hidden) return;
    const button = make("button", {
      type: "button",
      className: "link-button",
      textContent: `Translate to ${this.#languages.name(other)}`,
    });
    button.addEventListener("click", () => this.#translateTo(other));
    this.#box.replaceChildren(
      make("span", { textContent: `This seems to be ${this.#languages.name(target)} already. ` }),
      button,
    );
  }
}
