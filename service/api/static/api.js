/** HTTP client of the translation API, with its errors. Independent of the page. */

import { t } from "./strings.js";

const UNREACHABLE_SECONDS = 3;
const BUSY_SECONDS = 5;

/** An error response; `retryAfter` is in seconds, null if a retry would not help. */
export class Refused extends Error {
  constructor(status, message, retryAfter = null) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }

  /** Refusals with other messages differ, too, for the page's state: an error's message is hidden. */
  toJSON() {
    return { ...this, message: this.message };
  }

  /** Whether the language of the text could not be detected. */
  get undetected() {
    return this.status === 400 && /cannot be detected/.test(this.message);
  }

  /** The language of an undetected text, `{language, command}`, if the server names it. */
  get unserved() {
    const found = /looks like .* \(([\w-]+)\), which is not on offer: (.*)$/.exec(this.message);
    return this.undetected && found ? { language: found[1], command: found[2] } : null;
  }

  /** Whether the server no longer has what was asked for. */
  get gone() {
    return this.status === 404 || this.status === 410;
  }

  /** Whether a key is missing or wrong. */
  get aboutKey() {
    return this.status === 401 || /API key|access token/i.test(this.message);
  }
}

/** The server did not answer. */
class Unreachable extends Error {
  constructor() {
    super(t("unreachable"));
    this.retryAfter = UNREACHABLE_SECONDS;
  }
}

export class Server {
  key = "";

  async languages() {
    return this.get("languages");
  }

  async settings() {
    return this.get("frontend/settings");
  }

  /** The sentences of a text, and what is between them in its translation. */
  async split(fields, signal) {
    return arrived((await this.post("sentences", fields, signal)).json());
  }

  /** If `stream` is among the fields, `part` is called with each piece of a translation and the
      number of its text. */
  async translate(fields, signal, part) {
    const response = await this.post("translate", fields, signal);
    if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return arrived(response.json());
    for await (const { name, data } of events(response)) {
      if (name === "part") part(data.translatedText, data.text);
      if (name === "done") return data;
      if (name === "error") throw new Refused(data.status, data.error);
    }
    throw new Unreachable();
  }

  /** Returns the address of the translated file. */
  async translateFile(file, fields, signal) {
    const form = new FormData();
    form.append("file", file);
    for (const [name, value] of Object.entries(fields)) if (value) form.append(name, value);
    if (this.key) form.append("api_key", this.key);
    const response = await this.#fetch("translate_file", { method: "POST", body: form, signal });
    const { translatedFileUrl: url } = await arrived(response.json());
    // Behind a proxy, the server may have another name than this page uses.
    return `download_file/${new URL(url, location.href).pathname.split("/").pop()}`;
  }

  /** The bytes at one of our addresses, requested with the key. */
  async bytes(address) {
    return arrived((await this.#fetch(address)).blob());
  }

  /** The JSON at one of our addresses. */
  async get(address, signal) {
    return arrived((await this.#fetch(address, { signal })).json());
  }

  /** Post JSON to one of our addresses, with the key if there is one; returns the response. */
  async post(address, fields, signal) {
    const body = JSON.stringify(this.key ? { ...fields, api_key: this.key } : fields);
    const headers = { "content-type": "application/json" };
    return this.#fetch(address, { method: "POST", body, headers, signal });
  }

  async #fetch(address, options = {}) {
    const headers = { ...options.headers };
    if (this.key) headers.authorization = `Bearer ${this.key}`;
    const response = await arrived(fetch(address, { ...options, headers }));
    if (!response.ok) throw await refusal(response);
    return response;
  }
}

/** Awaits what a connection brings. Browsers throw a `TypeError` where it fails. */
async function arrived(promise) {
  try {
    return await promise;
  } catch (error) {
    throw error instanceof TypeError ? new Unreachable() : error;
  }
}

async function refusal(response) {
  const text = await arrived(response.text());
  let message;
  try {
    message = JSON.parse(text).error;
  } catch { /* A proxy answered in another format. */ }
  const seconds = Number.parseInt(response.headers.get("retry-after") ?? "", 10);
  const passes = [429, 502, 503].includes(response.status);
  const wait = Number.isNaN(seconds) ? BUSY_SECONDS : Math.max(1, seconds);
  return new Refused(
    response.status,
    message || t("status", { status: response.status }),
    passes ? wait : null,
  );
}

/** Server-sent events of a response, `{name, data}`, as they arrive. */
async function* events(response) {
  const decoder = new TextDecoder();
  let waiting = "";
  for await (const bytes of chunks(response.body.getReader())) {
    const blocks = (waiting + decoder.decode(bytes, { stream: true })).split("\n\n");
    waiting = blocks.pop();
    yield* blocks.map(event).filter(({ name }) => name);
  }
}

/** Not every browser supports `for await` on streams. */
async function* chunks(reader) {
  try {
    for (;;) {
      const { done, value } = await arrived(reader.read());
      if (done) return;
      yield value;
    }
  } finally {
    reader.releaseLock();
  }
}

function event(block) {
  const fields = block.split("\n").map((line) => line.split(/: (.*)/s));
  const { event: name, data } = Object.fromEntries(fields);
  return { name, data: data === undefined ? null : JSON.parse(data) };
}
