/** Schedules translation requests. At most one is in progress: a newer one aborts it, and the
    server then cancels its work. */

const PAUSE_MS = 250;

export class Translating {
  #pause = 0;
  #underWay = null;
  #server;
  #wanted;
  #events;

  /** `wanted` returns the request fields, or null if there is nothing to translate.
      `events` has the callbacks `empty`, `started`, `part(text)` for each part of a streamed
      translation, `answered(answer, fields)` and `failed(error)`. */
  constructor(server, wanted, events) {
    this.#server = server;
    this.#wanted = wanted;
    this.#events = events;
  }

  /** Request a translation after a pause in typing. */
  soon() {
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => this.now(), PAUSE_MS);
  }

  async now() {
    clearTimeout(this.#pause);
    this.#underWay?.abort();
    const fields = this.#wanted();
    if (!fields) {
      this.#underWay = null;
      this.#events.empty();
      return;
    }
    const request = new AbortController();
    this.#underWay = request;
    this.#events.started();
    try {
      const part = (text) => this.#underWay === request && this.#events.part(text);
      const answer = await this.#server.translate(fields, request.signal, part);
      if (this.#underWay === request) this.#events.answered(answer, fields);
    } catch (error) {
      if (this.#underWay === request && error.name !== "AbortError") this.#events.failed(error);
    } finally {
      if (this.#underWay === request) this.#underWay = null;
    }
  }
}
