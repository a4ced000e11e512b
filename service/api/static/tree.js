/** Tree of a search: one column for each step, one node for each candidate in the order of its rank. */

import { draw, element, make } from "./dom.js";
import { written } from "./pieces.js";

/** Width of a node, in columns, as in the style sheet. */
const WIDTH = 0.75;

export class Tree {
  #box = element("tree");
  #nodes = new Map();
  #describe;
  #pointed;

  /** `describe(candidate)` returns the accessible name of a node, and `pointed(candidate)`, or
      `pointed(null)`, reports the one under the pointer or with the focus. */
  constructor(describe, pointed) {
    this.#describe = describe;
    this.#pointed = pointed;
    const at = ({ target }) => this.#nodes.get(Number(target.closest("button")?.dataset.id))?.candidate ?? null;
    this.#box.addEventListener("pointerover", (event) => this.#pointed(at(event)));
    this.#box.addEventListener("pointerleave", () => this.#pointed(null));
    this.#box.addEventListener("focusin", (event) => {
      this.#pointed(at(event));
      for (const { node } of this.#nodes.values()) node.tabIndex = node === event.target ? 0 : -1;
    });
    this.#box.addEventListener("focusout", () => this.#pointed(null));
    this.#box.addEventListener("keydown", (event) => this.#move(event, at(event)));
  }

  /** Draw the steps of a search; `path` has the ids of the winner and its ancestors. */
  show(steps, path) {
    this.#nodes = new Map();
    const lines = [];
    steps.forEach(({ candidates }, step) => candidates.forEach((candidate, rank) => {
      const { id, parent, piece, fate } = candidate;
      const wins = path.has(id);
      const node = make("button", { type: "button", className: "node", textContent: written(piece).text, tabIndex: -1, data: { id, fate, step: step + 1 } });
      node.classList.toggle("wins", wins);
      node.ariaLabel = this.#describe(candidate);
      node.style.setProperty("--column", step);
      node.style.setProperty("--row", rank);
      const from = this.#nodes.get(parent);
      this.#nodes.set(id, { candidate, node, step, rank });
      if (from) {
        lines.push(draw("path", {
          d: `M${from.step + WIDTH} ${from.rank + 0.5}L${step} ${rank + 0.5}`,
          ...(wins ? { class: "wins" } : {}),
        }));
      }
    }));
    const rows = Math.max(0, ...steps.map(({ candidates }) => candidates.length));
    this.#box.style.setProperty("--columns", steps.length);
    this.#box.style.setProperty("--rows", rows);
    const drawing = draw("svg", { viewBox: `0 0 ${steps.length} ${rows}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...lines);
    const nodes = [...this.#nodes.values()].map(({ node }) => node);
    if (nodes.length) nodes[0].tabIndex = 0;
    this.#box.replaceChildren(drawing, ...nodes);
    nodes.at(-1)?.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** Left is the parent, right the best child, up and down the candidates of the same step. */
  #move(event, candidate) {
    if (!candidate) return;
    const { step, rank } = this.#nodes.get(candidate.id);
    const all = [...this.#nodes.values()];
    const beside = (by) => all.find((each) => each.step === step && each.rank === rank + by);
    const next = {
      ArrowLeft: () => this.#nodes.get(candidate.parent),
      ArrowRight: () => all.find((each) => each.candidate.parent === candidate.id),
      ArrowUp: () => beside(-1),
      ArrowDown: () => beside(1),
      Home: () => all[0],
      End: () => all.findLast((each) => each.node.classList.contains("wins")) ?? all.at(-1),
    }[event.key];
    if (!next) return;
    event.preventDefault();
    next()?.node.focus();
  }
}
