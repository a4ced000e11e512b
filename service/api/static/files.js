/** Translates files that are chosen or dropped on the page. */

import { element, make } from "./dom.js";

export class Files {
  #button = element("file-button");
  #input = element("file-input");
  #drop = element("drop");
  #box = element("file");
  #formats = [];
  #translate;
  #underWay = null;

  /** `translate(file, signal)` returns the address of the translated file. */
  constructor(translate) {
    this.#translate = translate;
    this.#button.addEventListener("click", () => this.#input.click());
    this.#input.addEventListener("change", () => {
      const [file] = this.#input.files;
      this.#input.value = "";
      if (file) this.#take(file);
    });
  }

  /** Enable file translation for the extensions in `formats`. */
  offer(formats) {
    this.#formats = formats.map((format) => format.toLowerCase());
    this.#input.accept = this.#formats.join(",");
    this.#button.hidden = false;
    this.#button.title = this.#formats.join(", ");
    const carriesFile = (event) => event.dataTransfer?.types.includes("Files");
    document.addEventListener("dragover", (event) => {
      if (!carriesFile(event)) return;
      event.preventDefault();
      this.#drop.hidden = false;
    });
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) this.#drop.hidden = true;
    });
    document.addEventListener("drop", (event) => {
      if (!carriesFile(event)) return;
      event.preventDefault();
      this.#drop.hidden = true;
      const [file] = event.dataTransfer.files;
      if (file) this.#take(file);
    });
  }

  async #take(file) {
    this.#underWay?.abort();
    const request = new AbortController();
    this.#underWay = request;
    const ending = file.name.slice(file.name.lastIndexOf(".")).toLowerCase();
    if (!this.#formats.includes(ending)) {
      this.#say(`${file.name} cannot be translated; a file can if it ends in ${this.#formats.join(", ")}.`);
      return;
    }
    this.#say(`Translating ${file.name} …`, this.#closer("Cancel"));
    try {
      const address = await this.#translate(file, request.signal);
      const link = make("a", { href: address, download: "", textContent: "Download the translation" });
      this.#say(`${file.name} is translated. `, link, this.#closer("Close"));
    } catch (error) {
      if (request.signal.aborted) return;
      this.#say(`${file.name} was not translated: ${error.message}`, this.#closer("Close"));
    }
  }

  #say(text, ...children) {
    this.#box.replaceChildren(make("span", { textContent: text }), ...children);
    this.#box.hidden = false;
  }

  #closer(name) {
    const button = make("button", { type: "button", className: "link-button", textContent: name });
    button.addEventListener("click", () => {
      this.#underWay?.abort();
      this.#box.hidden = true;
      this.#button.focus();
    });
    return button;
  }
}
