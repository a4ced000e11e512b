/** Translates files that are chosen or dropped on the page, one after the other. */

import { element, linkButton, make, save } from "./dom.js";
import { DETECT, ofModel } from "./state.js";
import { t } from "./strings.js";

const ENDING = /\.[^.]*$/;

export class Files {
  #list = element("files");
  #server;
  #store;
  #queue = [];
  #busy = false;
  /** The files taken since none was left, without cancelled ones, and those of them that are done. */
  #taken = new Set();
  #done = new Set();

  constructor(server, store) {
    this.#server = server;
    this.#store = store;
    element("files-cancel").addEventListener("click", () => {
      for (const job of this.#taken) if (!this.#done.has(job)) this.#drop(job);
      element("file-button").focus();
    });
    const [button, input] = [element("file-button"), element("file-input")];
    button.addEventListener("click", () => input.click());
    input.addEventListener("change", () => {
      this.#take([...input.files]);
      input.value = "";
    });
    store.watch(({ formats }) => ({ formats }), ({ formats }) => {
      input.accept = formats.join(",");
      button.hidden = !formats.length;
      button.title = formats.join(", ");
    });
    this.#listen(element("drop"));
  }

  #listen(drop) {
    const carriesFile = (event) =>
      this.#store.state.formats.length && event.dataTransfer?.types.includes("Files");
    document.addEventListener("dragover", (event) => {
      if (!carriesFile(event)) return;
      event.preventDefault();
      drop.hidden = false;
    });
    document.addEventListener("dragleave", (event) => {
      if (!event.relatedTarget) drop.hidden = true;
    });
    document.addEventListener("drop", (event) => {
      if (!carriesFile(event)) return;
      event.preventDefault();
      drop.hidden = true;
      this.#take([...event.dataTransfer.files]);
    });
  }

  #take(files) {
    const { formats } = this.#store.state;
    for (const file of files) {
      const item = make("li", { className: "notice" });
      this.#list.append(item);
      this.#list.hidden = false;
      const job = { file, item, request: new AbortController() };
      if (formats.includes((ENDING.exec(file.name)?.[0] ?? "").toLowerCase())) this.#enqueue(job);
      else this.#say(job, "fileUnsupported", { formats: formats.join(", ") }, this.#closer(job, "close"));
    }
    this.#showProgress();
    this.#next();
  }

  /** Translate a file, as is chosen at this moment. */
  #enqueue(job) {
    const { state } = this.#store;
    const { source, target } = state;
    const { model } = ofModel(state, state, source === DETECT ? "" : source);
    Object.assign(job, { source, target, model });
    this.#queue.push(job);
    this.#taken.add(job);
    this.#done.delete(job);
    this.#say(job, "fileQueued", {}, this.#closer(job, "cancel"));
  }

  async #next() {
    if (this.#busy || !this.#queue.length) return;
    this.#busy = true;
    const job = this.#queue.shift();
    await this.#translate(job);
    if (this.#taken.has(job)) this.#done.add(job);
    this.#busy = false;
    this.#showProgress();
    this.#next();
  }

  async #translate(job) {
    const { file, source, target, model, request } = job;
    const progress = make("progress", { ariaLabel: t("fileTranslating", { name: file.name }) });
    this.#say(job, "fileTranslating", {}, progress, this.#closer(job, "cancel"));
    try {
      const address = await this.#server.translateFile(file, { source, target, model }, request.signal);
      const translated = await this.#server.bytes(address);
      if (request.signal.aborted) return;
      const name = file.name.replace(ENDING, `.${target}$&`);
      const download = linkButton(t("downloadTranslation"), () => save(translated, name), { title: name });
      this.#say(job, "fileTranslated", {}, download, this.#closer(job, "close"));
    } catch (error) {
      if (request.signal.aborted) return;
      const again = linkButton(t("tryAgain"), () => {
        this.#enqueue(job);
        this.#next();
      });
      this.#say(job, "fileFailed", { reason: error.message }, again, this.#closer(job, "close"));
    }
  }

  #say({ file, item }, key, values, ...children) {
    const bar = make("span", { textContent: `${t(key, { name: file.name, ...values })} ` });
    const focused = item.contains(document.activeElement);
    item.classList.toggle("problem", ["fileFailed", "fileUnsupported"].includes(key));
    item.replaceChildren(bar, ...children);
    if (focused) item.querySelector("button").focus();
    if (!["fileQueued", "fileTranslating"].includes(key)) element("files-status").textContent = bar.textContent;
  }

  #closer(job, name) {
    return linkButton(t(name), () => {
      this.#drop(job);
      element("file-button").focus();
    });
  }

  #drop(job) {
    job.request.abort();
    this.#queue = this.#queue.filter((other) => other !== job);
    if (!this.#done.has(job)) this.#taken.delete(job);
    job.item.remove();
    this.#list.hidden = !this.#list.children.length;
    this.#showProgress();
  }

  /** Show how many of several files are done; those that failed are. */
  #showProgress() {
    const [n, most] = [this.#done.size, this.#taken.size];
    element("files-progress").hidden = most < 2 || n === most;
    element("files-done").textContent = t("filesDone", { n, most });
    Object.assign(element("files-bar"), { max: most || 1, value: n });
    if (n < most) return;
    this.#taken.clear();
    this.#done.clear();
  }
}
