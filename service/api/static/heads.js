/** Thumbnails of all attention heads of a layer, from which one can be chosen. */

import { element, make } from "./dom.js";
import { t } from "./strings.js";
import { mostOf, paint } from "./colours.js";

export class Heads {
  #sheet = element("heads");
  #drawn = [];
  #most;
  #taken;

  /** `taken(head)` is called when a head is chosen. */
  constructor(taken) {
    this.#taken = taken;
    document.addEventListener("themechange", () => this.#paint());
  }

  /** Show maps of the same layer, one for each head; `chosen` is the selected head, and `most` the
      weight of the strongest colour, by default the largest of each map. */
  show(maps, chosen, most) {
    this.#most = most;
    this.#drawn = maps.map(({ head, weights }) => ({ head, weights, canvas: make("canvas") }));
    this.#sheet.replaceChildren(...this.#drawn.map(({ head, canvas }) => {
      const name = make("span", { textContent: t("headNumber", { n: head }) });
      const button = make("button", { type: "button", className: "head", data: { head } }, canvas, name);
      button.addEventListener("click", () => this.#taken(String(head)));
      return button;
    }));
    this.#paint();
    this.choose(chosen);
  }

  choose(head) {
    for (const button of this.#sheet.children) {
      button.setAttribute("aria-pressed", String(button.dataset.head === String(head)));
    }
  }

  clear() {
    this.#drawn = [];
    this.#sheet.replaceChildren();
  }

  #paint() {
    for (const { canvas, weights } of this.#drawn) paint(canvas, weights, this.#most ?? mostOf(weights));
  }
}
