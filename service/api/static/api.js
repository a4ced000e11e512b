/** HTTP client of the translation API, with its errors. Independent of the page. */

import { events } from "./events.js";

const UNREACHABLE_SECONDS = 3;
const BUSY_SECONDS = 5;

/** An error response; `retryAfter` is in seconds, null if a retry would not help. */
export class Refused extends Error {
  constructor(status, message, retryAfter = null) {
    super(message);
    this.status = status;
    this.retryAfter = retryAfter;
  }

  /** Whether a key is missing or wrong. */
  get aboutKey() {
    return this.status === 401 || this.status === 403 || /API key/i.test(this.message);
  }
}

/** The server did not answer. */
export class Unreachable extends Error {
  constructor() {
    super("The server cannot be reached.");
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

  /** With `stream` among the fields, `part` is called with each piece of the translation. */
  async translate(fields, signal, part) {
    const response = await this.post("translate", { ...fields, format: "text" }, signal);
    if (!response.headers.get("content-type")?.startsWith("text/event-stream")) return response.json();
    for await (const { name, data } of events(response)) {
      if (name === "part") part(data.translatedText);
      if (name === "done") return data;
      if (name === "error") throw new Refused(data.status, data.error);
    }
    throw new Unreachable();
  }

  /** Returns the address of the translated file. */
  async translateFile(file, source, target, signal) {
    const form = new FormData();
    form.append("file", file);
    form.append("source", source);
    form.append("target", target);
    if (this.key) form.append("api_key", this.key);
    const response = await this.#fetch("translate_file", { method: "POST", body: form, signal });
    const { translatedFileUrl: url } = await response.json();
    // Behind a proxy, the server may have another name than this page uses.
    return `download_file/${new URL(url, location.href).pathname.split("/").pop()}`;
  }

  /** The bytes at one of our addresses, requested with the key. */
  async bytes(address) {
    return (await this.#fetch(address)).blob();
  }

  /** The JSON at one of our addresses. */
  async get(address, signal) {
    return (await this.#fetch(address, { signal })).json();
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
    let response;
    try {
      response = await fetch(address, { ...options, headers });
    } catch (error) {
      if (error.name === "AbortError") throw error;
      throw new Unreachable();
    }
    if (!response.ok) throw await refusal(response);
    return response;
  }
}

async function refusal(response) {
  const text = await response.text();
  let message;
  try {
    message = JSON.parse(text).error;
  } catch { /* A proxy answered in another format. */ }
  const seconds = Number.parseInt(response.headers.get("retry-after") ?? "", 10);
  const passes = [429, 502, 503].includes(response.status);
  const wait = Number.isNaN(seconds) ? BUSY_SECONDS : Math.max(1, seconds);
  return new Refused(
    response.status,
    message || `The server answered with status ${response.status}.`,
    passes ? wait : null,
  );
}
