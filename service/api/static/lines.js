/** Lines between the two sentences of an attention map: the stronger the weight, the darker. */

import { draw, element, make } from "./dom.js";
import { written } from "./pieces.js";

const FAINT = 0.02;
const NAMED = 3;

export class Lines {
  #box = element("lines");
  #pointed;
  #map = null;

  /** `pointed({row, column, weight})`, or `pointed(null)`, reports the strongest line of a row. */
  constructor(pointed) {
    this.#pointed = pointed;
    this.#box.addEventListener("pointerover", ({ target }) => this.#light(target.closest("button")));
    this.#box.addEventListener("pointerleave", () => this.#light(null));
    this.#box.addEventListener("focusin", ({ target }) => this.#light(target.closest("button")));
    this.#box.addEventListener("focusout", () => this.#light(null));
    this.#box.addEventListener("keydown", (event) => this.#move(event));
  }

  /** Draw lines from the pieces of the rows of a map to those of its columns. */
  show({ rows, columns, weights }, name) {
    this.#map = { rows, columns, weights };
    this.#box.ariaLabel = name;
    this.#box.style.setProperty("--count", Math.max(rows.length, columns.length));
    const drawing = draw("svg", { viewBox: `0 0 1 ${Math.max(rows.length, columns.length)}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      ...weights.flatMap((row, i) => row.flatMap((weight, j) => (weight < FAINT ? [] : [
        draw("line", { x1: 0, y1: i + 0.5, x2: 1, y2: j + 0.5, "stroke-opacity": Math.min(1, weight).toFixed(3), "data-row": i, "data-column": j }),
      ]))));
    const list = (side, pieces) => make("div", { className: "pieces" }, ...pieces.map((piece, i) => {
      const button = make("button", { type: "button", textContent: written(piece).text, tabIndex: side === "row" && !i ? 0 : -1, data: { side, index: i } });
      button.ariaLabel = this.#sentence(side, i);
      return button;
    }));
    this.#box.replaceChildren(list("row", rows), drawing, list("column", columns));
  }

  /** The piece, and those with the strongest lines to it. */
  #sentence(side, index) {
    const { rows, columns, weights } = this.#map;
    const [own, others] = side === "row" ? [rows, columns] : [columns, rows];
    const found = (side === "row" ? weights[index] : weights.map((row) => row[index]))
      .map((weight, i) => ({ weight, text: written(others[i]).text }))
      .sort((one, two) => two.weight - one.weight)
      .slice(0, NAMED)
      .map(({ weight, text }) => `${text} ${weight.toFixed(2)}`);
    return `${written(own[index]).text} ${side === "row" ? "→" : "←"} ${found.join(", ")}`;
  }

  #light(button) {
    this.#box.classList.toggle("chosen", Boolean(button));
    const { side, index } = button?.dataset ?? {};
    for (const line of this.#box.querySelectorAll("line")) line.classList.toggle("lit", Boolean(button) && line.dataset[side] === index);
    if (side !== "row") {
      this.#pointed(null);
      return;
    }
    const row = this.#map.weights[index];
    const weight = Math.max(...row);
    this.#pointed({ row: Number(index), column: row.indexOf(weight), weight });
  }

  #move(event) {
    const button = event.target.closest("button");
    const [rows, , columns] = this.#box.children;
    const [own, other] = button.dataset.side === "row" ? [rows, columns] : [columns, rows];
    const next = {
      ArrowUp: button.previousSibling,
      ArrowDown: button.nextSibling,
      ArrowLeft: button.dataset.side === "column" && (other.children[button.dataset.index] ?? other.lastChild),
      ArrowRight: button.dataset.side === "row" && (other.children[button.dataset.index] ?? other.lastChild),
      Home: own.firstChild,
      End: own.lastChild,
    };
    if (!(event.key in next)) return;
    event.preventDefault();
    if (!next[event.key]) return;
    button.tabIndex = -1;
    next[event.key].tabIndex = 0;
    next[event.key].focus();
  }
}
