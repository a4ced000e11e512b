/** Table of the weights of a heat map, as an accessible alternative. */

import { element, make } from "./dom.js";
import { t } from "./strings.js";
import { written } from "./pieces.js";

const DIGITS = 3;

export class Numbers {
  #box = element("numbers");
  #button = element("numbers-button");
  #map = null;
  #name = "";

  constructor() {
    this.#button.addEventListener("click", () => {
      this.#box.hidden = !this.#box.hidden;
      this.#button.setAttribute("aria-expanded", String(!this.#box.hidden));
      this.#button.textContent = t(this.#box.hidden ? "showNumbers" : "hideNumbers");
      this.#write();
    });
  }

  show(map, name) {
    this.#map = map;
    this.#name = name;
    this.#write();
  }

  #write() {
    if (this.#box.hidden || !this.#map) {
      this.#box.replaceChildren();
      return;
    }
    const { rows, columns, weights } = this.#map;
    const heading = (piece, scope) => make("th", { scope, textContent: written(piece).text });
    const head = make("tr", {}, make("td"), ...columns.map((piece) => heading(piece, "col")));
    const body = weights.map((row, i) => make("tr", {}, heading(rows[i], "row"),
      ...row.map((weight) => make("td", { textContent: weight.toFixed(DIGITS) }))));
    const caption = make("caption", { textContent: this.#name });
    this.#box.replaceChildren(
      make("table", {}, caption, make("thead", {}, head), make("tbody", {}, ...body)),
    );
  }
}
