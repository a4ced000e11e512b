/** Requests translations of the state. At most one request is in progress: a newer one aborts it,
    and the server then cancels its work. */

import { query, resultOf } from "./state.js";

const PAUSE_MS = 250;

export class Translating {
  #pause = 0;
  #underWay = null;
  #server;
  #store;

  constructor(server, store) {
    this.#server = server;
    this.#store = store;
  }

  /** Request a translation after a pause in typing. */
  soon() {
    clearTimeout(this.#pause);
    this.#pause = setTimeout(() => this.now(), PAUSE_MS);
  }

  /** Abort the request in progress, and forget the one that was to come. */
  stop() {
    clearTimeout(this.#pause);
    this.#underWay?.abort();
    this.#underWay = null;
    this.#store.change({ running: false, partial: null, error: null });
  }

  async now() {
    clearTimeout(this.#pause);
    this.#underWay?.abort();
    this.#underWay = null;
    const { state } = this.#store;
    const fields = query(state);
    if (!fields) {
      this.#store.change({ running: false, partial: null, result: null, error: null });
      return;
    }
    const request = new AbortController();
    this.#underWay = request;
    // Until the answer is complete, a former translation stays; without one, its parts are shown.
    this.#store.change({ running: true, partial: state.result ? null : "", error: null });
    try {
      const answer = await this.#server.translate(fields, request.signal, (text) => {
        const { partial } = this.#store.state;
        if (this.#underWay === request && partial !== null) this.#store.change({ partial: partial + text });
      });
      if (this.#underWay !== request) return;
      this.#store.change({ running: false, partial: null, result: resultOf(answer, state) });
    } catch (error) {
      if (this.#underWay !== request || error.name === "AbortError") return;
      this.#store.change({ running: false, result: null, error });
    }
  }
}
