/** Choice of an attention map by kind, layer and head, and its display. */

import { element, fill, make } from "./dom.js";
import { paint } from "./colours.js";
import { HeatMap } from "./heatmap.js";
import { Heads } from "./heads.js";
import { Numbers } from "./numbers.js";
import { written } from "./pieces.js";

const NAMES = { cross: "Translation to source", encoder: "Within the source", decoder: "Within the translation" };
const WIDE = 28;
const SAVED_MS = 1000;
const LEGEND = [Array.from({ length: 128 }, (_, i) => i / 127)];

export class Maps {
  #events;
  #layer = element("layer");
  #head = element("head");
  #kinds = [...document.querySelectorAll("input[name=kind]")];
  #value = element("heat-value");
  #heat = new HeatMap(element("heat-map"), (place) => this.#pointed(place));
  #heads = new Heads((head) => this.#take(head));
  #numbers = new Numbers();
  #request = new AbortController();
  #sheetOf = "";
  #subject = null;
  #place = {};
  #leg = null;
  #map = null;

  /** `events` has the callbacks `failed(error)`, `pointed` with `{kind, row, weights}`, or null,
      for the row under the crosshair, and `keyed()`, whether the server requires a key. */
  constructor(events) {
    this.#events = events;
    for (const kind of this.#kinds) kind.addEventListener("change", () => this.#changeKind());
    this.#layer.addEventListener("change", () => this.#load());
    this.#head.addEventListener("change", () => this.#load());
    element("heat-map").addEventListener("keydown", (event) => this.#step(event));
    document.addEventListener("themechange", () => this.#paintLegend());
    this.#paintLegend();
  }

  get kind() {
    return this.#kinds.find(({ checked }) => checked).value;
  }

  /** Show the maps of one sentence; `place` is its position in `subject`. */
  async show(subject, place, leg) {
    this.#subject = subject;
    this.#place = place;
    this.#leg = leg;
    this.#sheetOf = "";
    this.#fillLayers();
    fill(this.#head, [["mean", "Mean"], ...numbered(leg.heads)], this.#head.value || "mean");
    await this.#load();
  }

  stop() {
    this.#request.abort();
  }

  /** Mark pieces of the source and of the target where they are in the map; null marks nothing. */
  mark(pieces) {
    const { source = [], target = [] } = pieces ?? {};
    // The decoder's input is shifted by one: its rows and columns begin with the start token.
    const written = target.map((i) => i + 1);
    const marks = { cross: [target, source], encoder: [source, source], decoder: [written, written] };
    this.#heat.mark(...marks[this.kind]);
  }

  #fillLayers() {
    const { encoder, decoder } = this.#leg.layers;
    const count = this.kind === "encoder" ? encoder : decoder;
    const kept = this.#layer.value === "mean" || this.#layer.value < count ? this.#layer.value : "";
    fill(this.#layer, [...numbered(count), ["mean", "Mean"]], kept || count - 1);
  }

  #changeKind() {
    this.#fillLayers();
    this.#load();
  }

  /** Choosing the selected head again returns to the mean of all heads. */
  #take(head) {
    this.#head.value = this.#head.value === head ? "mean" : head;
    this.#load();
    element("heat-map").scrollIntoView({ block: "nearest" });
  }

  #query(more = {}) {
    const [kind, layer, head] = [this.kind, this.#layer.value, this.#head.value];
    return { kind, layer, head, ...more };
  }

  async #load() {
    this.#request.abort();
    const request = new AbortController();
    this.#request = request;
    const plot = element("heat-map");
    plot.setAttribute("aria-busy", "true");
    try {
      const answer = await this.#subject.attention(this.#place, this.#query(), request.signal);
      if (request.signal.aborted) return;
      this.#draw(answer);
      plot.setAttribute("aria-busy", "false");
      await this.#loadSheet(request.signal);
    } catch (error) {
      if (!request.signal.aborted) this.#events.failed(error);
    }
  }

  #draw(answer) {
    const { weights } = answer.maps[0];
    this.#map = { rows: answer.rows, columns: answer.columns, weights };
    const { kind, layer, head } = this.#query();
    const which = (noun, value) => (value === "mean" ? `mean of all ${noun}s` : `${noun} ${value}`);
    const name = `${NAMES[kind]}, ${which("layer", layer)}, ${which("head", head)}`;
    Object.assign(element("heat-map").dataset, { kind, layer, head });
    element("maps").classList.toggle("wide", answer.columns.length > WIDE);
    this.#heat.show(this.#map, name);
    this.#heads.choose(head);
    this.#numbers.show(this.#map, name);
    const most = Math.max(...weights.map((row) => Math.max(...row)));
    element("legend-most").textContent = most.toFixed(2);
    this.#link("png", { format: "png" });
    this.#link("npy", { format: "npy" });
    this.#link("json", { format: "json" });
    this.#link("sheet", { format: "png", head: "all" });
  }

  async #loadSheet(signal) {
    const query = this.#query({ head: "all" });
    const sheet = JSON.stringify(query);
    if (sheet === this.#sheetOf) return;
    const { maps } = await this.#subject.attention(this.#place, query, signal);
    if (signal.aborted) return;
    this.#sheetOf = sheet;
    this.#heads.show(maps, this.#head.value);
  }

  #link(name, more) {
    const link = element(`download-${name}`);
    const query = this.#query(more);
    link.href = this.#subject.address(this.#place, query) || "#attention";
    link.onclick = (event) => this.#download(event, query);
  }

  /** Fetches and saves the bytes, because a link can neither send a key nor texts. */
  async #download(event, query) {
    if (!this.#events.keyed() && this.#subject.address(this.#place, query)) return;
    event.preventDefault();
    try {
      const url = URL.createObjectURL(await this.#subject.bytes(this.#place, query));
      make("a", { href: url, download: `attention.${query.format}` }).click();
      setTimeout(() => URL.revokeObjectURL(url), SAVED_MS);
    } catch (error) {
      this.#events.failed(error);
    }
  }

  #pointed(place) {
    if (!place || !this.#map) {
      this.#value.textContent = "";
      this.#events.pointed(null);
      return;
    }
    const { row, column, weight } = place;
    const { rows, columns, weights } = this.#map;
    const name = (piece) => written(piece).text;
    this.#value.textContent = `${name(rows[row])} → ${name(columns[column])}: ${weight.toFixed(3)}`;
    this.#events.pointed({ kind: this.kind, row, weights: weights[row] });
  }

  /** H and L select the next head and layer; with Shift, the previous one. */
  #step(event) {
    const menu = { h: this.#head, l: this.#layer }[event.key.toLowerCase()];
    if (!menu || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    const count = menu.options.length;
    menu.selectedIndex = (menu.selectedIndex + (event.shiftKey ? count - 1 : 1)) % count;
    this.#load();
  }

  #paintLegend() {
    paint(element("legend"), LEGEND, 1);
  }
}

/** Layers and heads count from 0, as in the addresses of their maps. */
const numbered = (count) => Array.from({ length: count }, (_, i) => [String(i), String(i)]);
