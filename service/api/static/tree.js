/** Tree of a search: one column for each step, one node for each candidate in the order of its rank. */

import { draw, element, make } from "./dom.js";
import { written } from "./pieces.js";

/** Width of a node, in columns, as in the style sheet. */
const WIDTH = 0.75;

export class Tree {
  #box = element("tree");
  #nodes = new Map();
  /** The lines and the nodes of each step. */
  #steps = [];
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

  /** Draw all steps of a search; `path` has the ids of the winner and its ancestors. */
  show(steps, path) {
    this.#nodes = new Map();
    this.#steps = steps.map(({ candidates }, step) => {
      const made = candidates.map((candidate, rank) => this.#make(candidate, step, rank, path.has(candidate.id)));
      return [draw("g", {}, ...made.flatMap(({ lines }) => lines)), make("div", {}, ...made.map(({ node }) => node))];
    });
    const rows = Math.max(0, ...steps.map(({ candidates }) => candidates.length));
    this.#box.style.setProperty("--columns", steps.length);
    this.#box.style.setProperty("--rows", rows);
    const lines = this.#steps.map(([group]) => group);
    const drawing = draw("svg", { viewBox: `0 0 ${steps.length} ${rows}`, preserveAspectRatio: "none", "aria-hidden": "true" }, ...lines);
    this.#box.replaceChildren(drawing, ...this.#steps.map(([, column]) => column));
  }

  /** The node of a candidate, and the line from its parent if that is drawn. */
  #make(candidate, step, rank, wins) {
    const { id, parent, piece, fate } = candidate;
    const node = make("button", { type: "button", className: "node", textContent: written(piece).text, tabIndex: -1, data: { id, fate, step: step + 1 } });
    node.classList.toggle("wins", wins);
    node.ariaLabel = this.#describe(candidate);
    node.style.setProperty("--column", step);
    node.style.setProperty("--row", rank);
    const from = this.#nodes.get(parent);
    this.#nodes.set(id, { candidate, node, step, rank });
    const d = from && `M${from.step + WIDTH} ${from.rank + 0.5}L${step} ${rank + 0.5}`;
    return { node, lines: from ? [draw("path", { d, ...(wins ? { class: "wins" } : {}) })] : [] };
  }

  /** Show the first `count` steps only. */
  limit(count) {
    this.#steps.forEach((parts, step) => parts.forEach((part) => part.toggleAttribute("hidden", step >= count)));
    for (const { node } of this.#nodes.values()) node.tabIndex = -1;
    const shown = this.#all;
    if (shown.length) shown[0].node.tabIndex = 0;
    shown.at(-1)?.node.scrollIntoView({ block: "nearest", inline: "nearest" });
  }

  /** The nodes of the steps that are shown. */
  get #all() {
    return [...this.#nodes.values()].filter(({ node }) => !node.parentElement.hidden);
  }

  /** Left is the parent, right the best child, up and down the candidates of the same step. */
  #move(event, candidate) {
    if (!candidate) return;
    const { step, rank } = this.#nodes.get(candidate.id);
    const all = this.#all;
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
