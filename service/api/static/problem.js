/** Error box of the page, with a countdown to the next try. */

import { counted, element, make, sentenceCase } from "./dom.js";
import { Refused } from "./api.js";

const KINDLY = {
  403: "This API key was not accepted.",
  413: "That is more text than this server takes at once.",
  429: "This server has heard a lot from you just now.",
  503: "The server is busy.",
  504: "That took too long. A shorter text may do.",
};

export class Problem {
  #box = element("problem");
  #ticking = 0;

  clear() {
    clearInterval(this.#ticking);
    this.#box.hidden = true;
    this.#box.replaceChildren();
  }

  /** Show an error; `again`, if given, is called when a retry may succeed. */
  show(error, again = null) {
    this.clear();
    const kindly = error instanceof Refused ? KINDLY[error.status] : undefined;
    const said = sentenceCase(error.message).replace(/([^.?!…])$/, "$1.");
    this.#box.append(make("span", { textContent: kindly ?? said }));
    if (kindly) this.#box.append(" ", make("span", { className: "detail", textContent: said }));
    this.#box.dataset.status = error.status ?? "";
    this.#box.hidden = false;
    if (again && error.retryAfter) this.#countDown(error.retryAfter, again);
  }

  #countDown(seconds, again) {
    const left = make("span", { data: { left: seconds } });
    // The box is an alert; without this, screen readers would announce every second.
    left.setAttribute("aria-live", "off");
    const now = make("button", { type: "button", className: "link-button", textContent: "Try now" });
    const go = () => {
      this.clear();
      again();
    };
    const say = () => {
      left.dataset.left = seconds;
      left.textContent = `Trying again in ${counted(seconds, "second")}.`;
    };
    say();
    now.addEventListener("click", go);
    this.#box.append(" ", left, " ", now);
    this.#ticking = setInterval(() => {
      seconds -= 1;
      if (seconds <= 0) go();
      else say();
    }, 1000);
  }
}
