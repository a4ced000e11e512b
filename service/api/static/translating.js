/** When to ask for a translation. One request is under way at most, and only its answer counts:
    a newer one aborts it, and the server then stops working on it. */

const PAUSE_MS = 250;

export class Translating {
  #pause = 0;
  #underWay = null;
  #server;
  #wanted;
  #events;

  /** `wanted` returns the fields to ask with, or null if there is nothing to ask.
      Of `events`, `empty`, `started`, `part(text)` for each piece of a translation that is told in
      pieces, `answered(answer, fields)` and `failed(error)` are called. */
  constructor(server, wanted, events) {
    this.#server = server;
    this.#wanted = wanted;
    this.#events = events;
  }

  /** Ask once nobody has typed for a moment. */
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
