/** Field for the API key, which is stored in this browser only. */

import { element } from "./dom.js";
import { recall, remember } from "./memory.js";

export class Key {
  #box = element("key");
  #button = element("key-button");
  #value = element("key-value");

  /** Entering another key sets `server.key` and calls `changed`. */
  constructor(server, changed) {
    server.key = this.#value.value = recall("key", "");
    this.#button.addEventListener("click", () => {
      if (this.#box.hidden) this.show();
      else this.#hide();
    });
    element("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      server.key = this.#value.value.trim();
      remember("key", server.key);
      changed();
    });
  }

  /** Show the field if the server has keys; open it if a key is required and missing. */
  offer({ apiKeys, keyRequired }) {
    this.#button.hidden = !(apiKeys || keyRequired);
    if (keyRequired && !this.#value.value) this.show();
  }

  show() {
    this.#button.hidden = false;
    this.#open(true);
    this.#value.focus();
  }

  #hide() {
    this.#open(false);
    this.#button.focus();
  }

  #open(open) {
    this.#box.hidden = !open;
    this.#button.setAttribute("aria-expanded", String(open));
  }
}
