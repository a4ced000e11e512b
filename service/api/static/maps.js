/** Choice of an attention map by kind, layer and head, and its display. */

import { element, fill, save } from "./dom.js";
import { mostOf, paint } from "./colours.js";
import { HeatMap } from "./heatmap.js";
import { Heads } from "./heads.js";
import { Lines } from "./lines.js";
import { Numbers } from "./numbers.js";
import { written } from "./pieces.js";
import { t } from "./strings.js";

const NAMES = { cross: "kindCross", encoder: "kindEncoder", decoder: "kindDecoder" };
const NUMBERED = { layer: ["meanOfLayers", "numberedLayer"], head: ["meanOfHeads", "numberedHead"] };
const WIDE = 28;
const LEGEND = [Array.from({ length: 128 }, (_, i) => i / 127)];

export class Maps {
  #events;
  #layer = element("layer");
  #head = element("head");
  #kinds = [...document.querySelectorAll("input[name=kind]")];
  #value = element("heat-value");
  #heat = new HeatMap(element("heat-map"), (place) => this.#pointed(place));
  #lines = new Lines((place) => this.#pointed(place));
  #heads = new Heads((layer, head) => this.#take(layer, head));
  #numbers = new Numbers();
  #request = new AbortController();
  #sheetOf = "";
  #subject = null;
  #place = {};
  #leg = null;
  #map = null;

  /** `events` has the callbacks `failed(error)`, and `pointed` with `{kind, row, weights}`, or null,
      for the row under the crosshair. */
  constructor(events) {
    this.#events = events;
    for (const kind of this.#kinds) kind.addEventListener("change", () => this.#changeKind());
    this.#layer.addEventListener("change", () => this.#load());
    this.#head.addEventListener("change", () => this.#load());
    element("heat-map").addEventListener("keydown", (event) => this.#step(event));
    this.#heat.keepBelow(document.querySelector(".sentences"));
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
    fill(this.#head, [["mean", t("mean")], ...numbered(leg.heads)], this.#head.value || "mean");
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
    fill(this.#layer, [...numbered(count), ["mean", t("mean")]], kept || count - 1);
  }

  #changeKind() {
    this.#fillLayers();
    this.#load();
  }

  /** Choosing the selected head again returns to the mean of all heads. */
  #take(layer, head) {
    const again = this.#layer.value === layer && this.#head.value === head;
    this.#layer.value = layer;
    this.#head.value = again ? "mean" : head;
    this.#load();
    element("maps").scrollIntoView({ block: "nearest" });
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
    this.#value.textContent = t("loading");
    try {
      const answer = await this.#subject.attention(this.#place, this.#query(), request.signal);
      if (request.signal.aborted) return;
      this.#value.textContent = "";
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
    const which = (noun, value) =>
      (value === "mean" ? t(NUMBERED[noun][0]) : t(NUMBERED[noun][1], { n: Number(value) + 1 }));
    const name = t("mapName", { kind: t(NAMES[kind]), layer: which("layer", layer), head: which("head", head) });
    Object.assign(element("heat-map").dataset, { kind, layer, head });
    element("maps").classList.toggle("wide", answer.columns.length > WIDE);
    this.#heat.show(this.#map, name);
    this.#lines.show(this.#map, name);
    this.#heads.choose(layer, head);
    this.#numbers.show(this.#map, name);
    element("legend-most").textContent = mostOf(weights).toFixed(2);
    this.#link("png", { format: "png" });
    this.#link("npy", { format: "npy" });
    this.#link("json", { format: "json" });
    this.#link("sheet", { format: "png", layer: "all", head: "all" });
  }

  async #loadSheet(signal) {
    const query = this.#query({ layer: "all", head: "all" });
    const sheet = JSON.stringify(query);
    if (sheet === this.#sheetOf) return;
    const { maps } = await this.#subject.attention(this.#place, query, signal);
    if (signal.aborted) return;
    this.#sheetOf = sheet;
    this.#heads.show(maps, this.#layer.value, this.#head.value);
  }

  #link(name, more) {
    const link = element(`download-${name}`);
    const query = this.#query(more);
    link.href = this.#subject.address(this.#place, query) || "#attention";
    const { kind, layer, head, format } = query;
    const file = `attention-${kind}-layer-${layer}-head-${head}.${format}`;
    link.onclick = (event) => this.#download(event, query, file);
  }

  /** Fetches and saves the bytes, because a link can neither send a key nor texts. */
  async #download(event, query, name) {
    event.preventDefault();
    try {
      save(await this.#subject.bytes(this.#place, query), name);
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
const numbered = (count) => Array.from({ length: count }, (_, i) => [String(i), String(i + 1)]);
