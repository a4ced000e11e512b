/** Heat map of a weight matrix with labels, a crosshair and the value under it.
    Independent of the source of the weights. */

import { make } from "./dom.js";
import { mostOf, paint } from "./colours.js";
import { written } from "./pieces.js";

const SMALLEST_CELL = 15;
const LARGEST_CELL = 48;

export class HeatMap {
  #plot;
  #field;
  #canvas;
  #columnLabels;
  #rowLabels;
  #bands;
  #cell;
  #map = { rows: [], columns: [], weights: [] };
  #place = null;
  #pointed;

  /** `pointed({row, column, weight})`, or `pointed(null)`, reports the cell under the crosshair. */
  constructor(plot, pointed) {
    this.#plot = plot;
    this.#pointed = pointed;
    const part = (name) => plot.querySelector(name);
    this.#field = part(".heat-field");
    this.#canvas = part("canvas");
    this.#columnLabels = part(".heat-columns");
    this.#rowLabels = part(".heat-rows");
    this.#bands = { row: part(".band-row"), column: part(".band-column") };
    this.#cell = part(".cell");
    plot.addEventListener("keydown", (event) => this.#move(event));
    plot.addEventListener("focus", () => {
      if (plot.matches(":focus-visible") && !this.#place) this.point(0, 0);
    });
    plot.addEventListener("blur", () => this.#leave());
    plot.addEventListener("pointermove", (event) => this.#follow(event));
    plot.addEventListener("pointerdown", (event) => this.#follow(event));
    plot.addEventListener("pointerleave", ({ pointerType }) => {
      // A finger leaves when it is lifted, and only then is the cell under it visible.
      if (pointerType === "mouse" && document.activeElement !== plot) this.#leave();
    });
    new ResizeObserver(() => this.#fit()).observe(plot.parentElement);
    document.addEventListener("themechange", () => this.#paint());
  }

  /** Draw `weights`, row by row, under `name`; the largest has the strongest colour. The crosshair
      stays if its cell exists. */
  show({ rows, columns, weights }, name) {
    this.#map = { rows, columns, weights };
    this.#plot.setAttribute("aria-label", name);
    Object.assign(this.#plot.dataset, { rows: rows.length, columns: columns.length });
    this.#rowLabels.replaceChildren(...rows.map(label));
    this.#columnLabels.replaceChildren(...columns.map(label));
    this.#paint();
    this.#fit();
    const { row, column } = this.#place ?? {};
    if (weights[row]?.[column] === undefined) this.#leave();
    else this.point(row, column);
  }

  /** Put the crosshair on a cell. */
  point(row, column) {
    const weight = this.#map.weights[row]?.[column];
    if (weight === undefined) return;
    this.#place = { row, column };
    Object.assign(this.#plot.dataset, { row, column, value: String(weight) });
    this.#band("row", row, 1);
    this.#band("column", column, 1);
    this.#cell.hidden = false;
    this.#cell.style.setProperty("--row", row);
    this.#cell.style.setProperty("--column", column);
    this.#emphasise([row], [column]);
    this.#pointed({ row, column, weight });
  }

  /** Mark neighbouring rows and columns without pointing at a cell; empty lists mark nothing. */
  mark(rows, columns) {
    if (this.#place) return;
    this.#band("row", rows[0], rows.length);
    this.#band("column", columns[0], columns.length);
    this.#emphasise(rows, columns);
  }

  /** Keep the labels of columns below `above`, which stays at the top of the window. */
  keepBelow(above) {
    const scrolled = this.#plot.parentElement;
    document.addEventListener("scroll", () => {
      const covered = above.getBoundingClientRect().bottom - scrolled.getBoundingClientRect().top;
      scrolled.style.setProperty("--covered", `${Math.max(0, covered)}px`);
    }, { passive: true });
  }

  #paint() {
    paint(this.#canvas, this.#map.weights, mostOf(this.#map.weights));
  }

  /** Fit the map to the available space, with a minimum cell size for touch and reading. */
  #fit() {
    const columns = this.#map.columns.length;
    if (!columns) return;
    const room = this.#plot.parentElement.clientWidth - this.#rowLabels.offsetWidth - 4;
    const cell = Math.floor(Math.min(LARGEST_CELL, Math.max(SMALLEST_CELL, room / columns)));
    this.#plot.style.setProperty("--cell", `${cell}px`);
    this.#plot.style.setProperty("--columns", columns);
    this.#plot.style.setProperty("--rows", this.#map.rows.length);
  }

  #band(name, first, count) {
    const band = this.#bands[name];
    band.hidden = !count;
    if (!count) return;
    band.style.setProperty("--first", first);
    band.style.setProperty("--count", count);
  }

  #emphasise(rows, columns) {
    for (const [labels, chosen] of [[this.#rowLabels, rows], [this.#columnLabels, columns]]) {
      [...labels.children].forEach((child, i) => child.classList.toggle("strong", chosen.includes(i)));
    }
  }

  #leave() {
    this.#place = null;
    for (const name of ["row", "column", "value"]) delete this.#plot.dataset[name];
    this.#cell.hidden = true;
    this.#band("row", 0, 0);
    this.#band("column", 0, 0);
    this.#emphasise([], []);
    this.#pointed(null);
  }

  #follow(event) {
    const box = this.#field.getBoundingClientRect();
    const cell = box.width / this.#map.columns.length;
    const { rows, columns, weights } = this.#map;
    const inside = (place, count) => Math.min(Math.floor(place / cell), count - 1);
    const row = inside(event.clientY - box.top, rows.length);
    const column = inside(event.clientX - box.left, columns.length);
    if (row >= 0 && column >= 0) this.point(row, column);
    // A label stands for the strongest cell of its row or column.
    else if (row >= 0) this.point(row, strongest(weights[row]));
    else if (column >= 0) this.point(strongest(weights.map((each) => each[column])), column);
  }

  #move(event) {
    const { row, column } = this.#place ?? { row: 0, column: 0 };
    const [lastRow, lastColumn] = [this.#map.rows.length - 1, this.#map.columns.length - 1];
    const places = {
      ArrowUp: [Math.max(0, row - 1), column],
      ArrowDown: [Math.min(lastRow, row + 1), column],
      ArrowLeft: [row, Math.max(0, column - 1)],
      ArrowRight: [row, Math.min(lastColumn, column + 1)],
      Home: event.ctrlKey ? [0, 0] : [row, 0],
      End: event.ctrlKey ? [lastRow, lastColumn] : [row, lastColumn],
    };
    if (!places[event.key] || event.altKey || event.metaKey) return;
    event.preventDefault();
    const first = !this.#place && event.key.startsWith("Arrow");
    this.point(...(first ? [0, 0] : places[event.key]));
    this.#cell.scrollIntoView({ block: "nearest", inline: "nearest" });
  }
}

const strongest = (weights) => weights.indexOf(Math.max(...weights));

function label(piece) {
  const { text, special } = written(piece);
  return make("span", { className: special ? "special" : "", textContent: text, title: piece });
}
