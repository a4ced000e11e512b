/** Grid of the maps of all layers and heads on one scale, from which one can be chosen. */

import { element, make } from "./dom.js";
import { t } from "./strings.js";
import { mostOf, paint } from "./colours.js";

export class Heads {
  #grid = element("heads");
  #drawn = [];
  #taken;

  /** `taken(layer, head)` is called when a map is chosen. */
  constructor(taken) {
    this.#taken = taken;
    document.addEventListener("themechange", () => this.#paint());
  }

  /** Show maps in the order of layers, then heads; those of `layer` and `head` are the chosen one. */
  show(maps, layer, head) {
    this.#drawn = maps.map((map) => ({ ...map, canvas: make("canvas") }));
    const heads = [...new Set(maps.map((map) => map.head))];
    const name = (textContent) => make("span", { className: "quiet", textContent });
    const rows = Map.groupBy(this.#drawn, (map) => map.layer);
    this.#grid.style.setProperty("--heads", heads.length);
    this.#grid.replaceChildren(name(""), ...heads.map((each) => name(String(each + 1))),
      ...[...rows].flatMap(([number, row]) => [name(String(number + 1)), ...row.map((map) => this.#button(map))]));
    for (const label of this.#grid.querySelectorAll("span")) label.ariaHidden = "true";
    this.#paint();
    this.choose(layer, head);
  }

  #button({ layer, head, canvas }) {
    const title = t("layerAndHead", { layer: layer + 1, head: head + 1 });
    const button = make("button", { type: "button", className: "head", title, ariaLabel: title, data: { layer, head } }, canvas);
    button.addEventListener("click", () => this.#taken(String(layer), String(head)));
    return button;
  }

  choose(layer, head) {
    for (const button of this.#grid.querySelectorAll("button")) {
      button.ariaPressed = String(button.dataset.layer === String(layer) && button.dataset.head === String(head));
    }
  }

  #paint() {
    const most = Math.max(...this.#drawn.map(({ weights }) => mostOf(weights)));
    for (const { canvas, weights } of this.#drawn) paint(canvas, weights, most);
  }
}
