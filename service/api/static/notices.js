/** Messages of the page: errors with a countdown to the next try, hints with offers, the API key,
    and what screen readers announce. */

import { Refused } from "./api.js";
import { element, linkButton, make, sentenceCase } from "./dom.js";
import { nameOf, sure } from "./languages.js";
import { recall, remember } from "./memory.js";
import { detection, looksLikeHtml, spoken, stale, targetsOf, tooLong } from "./state.js";
import { t } from "./strings.js";

const KINDLY = { 413: "tooLarge", 429: "tooMany", 503: "busy", 504: "tooSlow" };
const REST_MS = 1000;

/** Show the error of the state; `again` is called when a retry may succeed. */
export function showProblem(store, again) {
  const box = element("problem");
  let ticking = 0;

  store.watch((state) => ({ error: state.error, most: tooLong(state) ? state.limit : 0 }), ({ error, most }) => {
    clearInterval(ticking);
    box.replaceChildren();
    box.hidden = !error && !most;
    if (box.hidden) return;
    box.dataset.status = error?.status ?? "";
    if (most) {
      box.append(make("span", { textContent: t("mostCharacters", { n: most }) }));
      return;
    }
    const kindly = kindlyOf(error);
    const said = sentenceCase(error.message).replace(/([^.?!…])$/, "$1.");
    box.append(make("span", { textContent: kindly ?? said }));
    // The server speaks English. Of an undetected text, its message says the same again.
    if (kindly && !error.undetected) box.append(" ", make("span", { className: "detail", textContent: said, lang: "en" }));
    if (error.retryAfter) countDown(error.retryAfter);
  });

  function countDown(seconds) {
    const left = make("span", { data: { left: seconds } });
    // The box is an alert; without this, screen readers would announce every second.
    left.setAttribute("aria-live", "off");
    const say = () => {
      left.dataset.left = seconds;
      left.textContent = t("seconds", { n: seconds });
    };
    const go = () => {
      clearInterval(ticking);
      again();
    };
    say();
    box.append(" ", left, " ", linkButton(t("tryNow"), go));
    ticking = setInterval(() => {
      seconds -= 1;
      if (seconds <= 0) go();
      else say();
    }, 1000);
  }
}

function kindlyOf(error) {
  if (!(error instanceof Refused)) return undefined;
  if (error.unserved) return notServed(error.unserved);
  if (error.undetected) return t("languageUnknown");
  if (error.aboutKey && error.status === 403) return t("keyRefused");
  return KINDLY[error.status] && t(KINDLY[error.status]);
}

const notServed = ({ language, command }) => t("unservedLanguage", { language: nameOf(language), command });

/** Show hints on the text and its translation; `act` has the functions that hints offer. */
export function showHints(store, act) {
  store.watch((state) => ({ hints: hints(state) }), ({ hints: all }) => {
    element("hint").hidden = !all.length;
    element("hint").replaceChildren(...all.map(({ text, offer, action }) => {
      const button = action ? [linkButton(offer, () => act[action[0]](action[1]))] : [];
      return make("p", {}, make("span", { textContent: `${text} ` }), ...button);
    }));
  });
}

/** Hints as `{text}`, or `{text, offer, action}` with the name and the argument of a function. */
function hints(state) {
  const found = [];
  const { result, target, unknownLink } = state;
  if (unknownLink.length) {
    found.push({ text: t("unknownLanguage", { languages: unknownLink.join(", ") }) });
  }
  if (state.format === "text" && looksLikeHtml(state)) {
    found.push({ text: t("htmlFound"), offer: t("translateAsHtml"), action: ["format", "html"] });
  }
  if (state.stuck) found.push({ text: t("notContinued", { reason: state.stuck }) });
  // While a text is typed, the hints on its translation stay.
  const { source, target: translated } = result?.inputs ?? {};
  if (source !== state.source || translated !== target) return found;
  if (result.unserved) {
    found.push({ text: notServed(result.unserved) });
  }
  const [other] = targetsOf(state, target);
  if (!result.unserved && detection(state) && spoken(state) === target && other) {
    found.push({
      text: t("seemsToBe", { language: nameOf(target) }),
      offer: t("translateToLanguage", { language: nameOf(other) }),
      action: ["translateTo", other],
    });
  }
  if (result.truncated) found.push({ text: t("cut") });
  return found;
}

/** Announce the translation to screen readers after a second without changes. */
export function announce(store) {
  let resting = 0;
  store.watch((state) => ({ text: announcement(state) }), ({ text }) => {
    clearTimeout(resting);
    resting = setTimeout(() => { element("announcer").textContent = text; }, REST_MS);
  });
}

function announcement(state) {
  const { result } = state;
  if (!result || stale(state)) return "";
  const found = detection(state);
  return [result.translation, ...(found ? [sure(found)] : []), ...hints(state).map(({ text }) => text)].join("\n");
}

/** A key without the invisible characters and quotation marks that come along when it is copied; no
    other characters are sent in a header. */
const plain = (key) => key.replace(/[^\x21-\x7e]/g, "");

/** The field for the API key, which is stored in this browser only. */
export class Key {
  #box = element("key");
  #button = element("key-button");
  #value = element("key-value");
  #asked = false;

  /** Entering another key sets `server.key` and calls `changed`. */
  constructor(server, store, changed) {
    server.key = this.#value.value = plain(recall("key", ""));
    this.#button.addEventListener("click", () => {
      this.#open(this.#box.hidden);
      (this.#box.hidden ? this.#button : this.#value).focus();
    });
    element("key-form").addEventListener("submit", (event) => {
      event.preventDefault();
      server.key = this.#value.value = plain(this.#value.value);
      remember("key", server.key);
      changed();
    });
    store.watch(({ keys }) => ({ keys }), ({ keys }) => {
      this.#button.hidden = keys === "none" && !server.key;
      if (keys !== "required" || server.key) return;
      this.#ask();
      // Once, and not while a text is being written.
      if (!store.state.text) this.#value.focus();
    });
    store.watch(({ error }) => ({ error }), ({ error }) => { if (error?.aboutKey) this.#ask(); });
    store.watch(({ result, keys }) => ({ result, missing: keys === "required" && !server.key }), ({ result, missing }) => {
      if (result && !missing && this.#asked) this.#close();
    });
  }

  /** Open the field without moving the focus. */
  #ask() {
    this.#asked = true;
    this.#button.hidden = false;
    this.#open(true);
  }

  #close() {
    const focused = this.#box.contains(document.activeElement);
    this.#asked = false;
    this.#open(false);
    if (focused) element("source-text").focus();
  }

  #open(open) {
    this.#box.hidden = !open;
    this.#button.setAttribute("aria-expanded", String(open));
  }
}
