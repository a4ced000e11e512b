/** Switches of the page, whose choice is kept in this browser. */

import { element } from "./dom.js";
import { remember } from "./memory.js";

/** Names in the state, and in the ids of check boxes. */
const SWITCHES = ["live", "keepHistory"];

export function showSettings(store) {
  for (const name of SWITCHES) {
    const box = element(`setting-${name}`);
    box.checked = store.state[name];
    box.addEventListener("change", () => {
      remember(name, box.checked);
      store.change({ [name]: box.checked });
    });
  }
}
