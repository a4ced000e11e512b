/** Dialog in which the terms of a pair of languages are edited. They are kept in this browser. */

import { element, make, save } from "./dom.js";
import { nameOf } from "./languages.js";
import { follow, recall, remember } from "./memory.js";
import { fitting, inPair, modelChoices, pairName, spoken, stale, terms } from "./state.js";
import { t } from "./strings.js";

const MOST_TERMS = 1000;
const MOST_CHARACTERS = 250;

export class Glossary {
  #dialog = element("glossary");
  #rows = element("glossary-rows");
  #problem = element("glossary-problem");
  #button = element("glossary-button");
  #store;
  #changed;
  #languages = {};

  /** `changed` is called when other terms are to be written than before. */
  constructor(store, changed) {
    this.#store = store;
    this.#changed = changed;
    this.#button.addEventListener("click", () => this.#open());
    for (const id of ["glossary-close", "glossary-done"]) {
      element(id).addEventListener("click", () => this.#dialog.close());
    }
    element("glossary-clear").addEventListener("click", () => {
      this.#show([]);
      this.#take();
    });
    element("glossary-save").addEventListener("click", () => this.#save());
    const file = element("glossary-file");
    element("glossary-file-button").addEventListener("click", () => file.click());
    file.addEventListener("change", async () => {
      if (file.files.length) this.#add(decoded(await file.files[0].arrayBuffer()));
      file.value = "";
    });
    this.#rows.addEventListener("input", () => this.#take());
    this.#rows.addEventListener("keydown", (event) => this.#key(event));
    this.#rows.addEventListener("paste", (event) => this.#paste(event));
    store.watch((state) => ({ direct: modelChoices(state).length > 0, source: spoken(state), n: terms(state).length }), ({ direct, source, n }) => {
      this.#button.hidden = !direct || !source;
      this.#button.textContent = n ? t("glossaryOf", { n }) : t("glossary");
      this.#button.classList.toggle("in-use", n > 0);
    });
    follow("glossaries", (glossaries) => {
      store.change({ glossaries: glossaries ?? {} });
      if (stale(store.state)) changed();
    });
    store.watch(({ error }) => ({ error }), ({ error }) => {
      if (this.#dialog.open && error) this.#say(error.message);
    });
  }

  #open() {
    const { state } = this.#store;
    this.#languages = { source: spoken(state), target: state.target };
    const { source, target } = this.#languages;
    element("glossary-title").textContent = t("glossaryTitle", { source: nameOf(source), target: nameOf(target) });
    element("glossary-source").textContent = nameOf(source);
    element("glossary-target").textContent = nameOf(target);
    this.#show(inPair(state, source, target));
    this.#say("");
    this.#dialog.showModal();
    this.#rows.querySelector("input").focus();
  }

  #show(found) {
    this.#rows.replaceChildren(...found.map(([source, target]) => this.#row(source, target)));
    this.#read();
  }

  #row(source, target) {
    const cell = (side, value) => make("td", {}, make("input", {
      value,
      ariaLabel: nameOf(this.#languages[side]),
      lang: this.#languages[side],
      maxLength: MOST_CHARACTERS,
      autocomplete: "off",
      data: { side },
    }));
    const remove = make("button", { type: "button", className: "icon-button", textContent: "×" });
    remove.addEventListener("click", () => {
      const { nextElementSibling: next } = row;
      row.remove();
      this.#take();
      (next ?? this.#rows.lastElementChild).querySelector("input").focus();
    });
    const row = make("tr", {}, cell("source", source), cell("target", target), make("td", {}, remove));
    return row;
  }

  /** Content of the rows, without blanks around it. */
  #written() {
    return [...this.#rows.children].map((row) => {
      const [source, target] = [...row.querySelectorAll("input")];
      return { row, source: source.value.trim(), target: target.value.trim(), field: source };
    });
  }

  /** The terms of the rows that are complete, and those that are there twice. The last row is empty. */
  #read() {
    const found = new Map();
    const twice = new Set();
    const written = this.#written();
    for (const { row, source, target, field } of written) {
      const repeated = found.has(source);
      if (repeated) twice.add(source);
      else if (source && target) found.set(source, target);
      field.setAttribute("aria-invalid", String(repeated));
      const remove = row.querySelector("button");
      remove.ariaLabel = remove.title = t("removeTerm", { term: source || target });
      remove.hidden = !source && !target;
    }
    const last = written.at(-1);
    if (!last || ((last.source || last.target) && written.length < MOST_TERMS)) {
      const row = this.#row("", "");
      row.querySelector("button").hidden = true;
      this.#rows.append(row);
    }
    return { found: [...found], twice: [...twice] };
  }

  /** Keep the terms of the rows. */
  #take() {
    const { found, twice } = this.#read();
    const kept = fitting(found.slice(0, MOST_TERMS));
    this.#say(kept.length < found.length ? t("glossaryFull", { n: kept.length }) : twice.map((term) => t("glossaryTwice", { term })).join(" "));
    this.#keep(kept);
  }

  #keep(found) {
    const { source, target } = this.#languages;
    // Another tab may have changed other pairs.
    const { [pairName(source, target)]: before, ...others } = recall("glossaries") ?? this.#store.state.glossaries;
    if (JSON.stringify(before ?? []) === JSON.stringify(found)) return;
    const glossaries = found.length ? { ...others, [pairName(source, target)]: found } : others;
    remember("glossaries", glossaries);
    this.#store.change({ glossaries });
    this.#changed();
  }

  /** Add the terms of a text with a line for each; of terms with one source, the last counts. */
  #add(text) {
    const { found, wrong } = parsed(text);
    const written = this.#written().filter(({ source, target }) => source || target);
    const all = [...new Map([...written.map(({ source, target }) => [source, target]), ...found])];
    const kept = fitting(all.slice(0, MOST_TERMS));
    this.#show(kept);
    this.#take();
    if (kept.length < all.length) this.#say(t("glossaryFull", { n: kept.length }));
    else if (wrong.length) this.#say(t("glossaryLines", { lines: wrong.join(", ") }));
  }

  #paste(event) {
    const text = event.clipboardData.getData("text");
    if (!/[\t\n]/.test(text.trim())) return;
    event.preventDefault();
    this.#add(text);
    this.#rows.lastElementChild.querySelector("input").focus();
  }

  /** Enter leads to the next field. */
  #key(event) {
    if (event.key !== "Enter" || event.isComposing || !event.target.matches("input")) return;
    const fields = [...this.#rows.querySelectorAll("input")];
    fields[fields.indexOf(event.target) + 1]?.focus();
    event.preventDefault();
  }

  #save() {
    const { source, target } = this.#languages;
    const lines = inPair(this.#store.state, source, target).map((term) => `${term.join("\t")}\n`);
    save(new Blob(lines, { type: "text/tab-separated-values" }), `glossary.${source}-${target}.tsv`);
  }

  #say(text) {
    this.#problem.textContent = text;
    this.#problem.hidden = !text;
  }
}

/** The text of a file: of a spreadsheet program of Windows, unless it is UTF-8. */
function decoded(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return new TextDecoder("windows-1252").decode(bytes);
  }
}

/** The terms in lines of text, `[source, target]`, separated by tabs or, without any, by semicolons
    or commas, and the numbers of the lines that have none. */
function parsed(text) {
  const lines = text.replace(/^\uFEFF/, "").split(/\r?\n/);
  const cells = text.includes("\t") ? (line) => line.split("\t") : columnsBy(lines[0].includes(";") ? ";" : ",");
  const found = [];
  const wrong = [];
  lines.forEach((line, i) => {
    const [source = "", target = ""] = cells(line).map((cell) => cell.trim());
    if (source && target) found.push([source.slice(0, MOST_CHARACTERS), target.slice(0, MOST_CHARACTERS)]);
    else if (line.trim()) wrong.push(i + 1);
  });
  return { found, wrong };
}

/** Returns the function for the columns of a line of CSV, quoted as in RFC 4180; `mark` separates them. */
function columnsBy(mark) {
  const pattern = new RegExp(`(?:^|${mark})(?:"((?:[^"]|"")*)"|([^${mark}]*))`, "g");
  return (line) => [...line.matchAll(pattern)].map(([, quoted, bare]) => quoted?.replaceAll('""', '"') ?? bare);
}
