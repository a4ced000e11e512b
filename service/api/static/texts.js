/** The two texts: the one that is written, with its length, and its translation. */

import { caretIn, element, placeCaret } from "./dom.js";
import { length, looksLikeHtml, spoken, stale, tooLong } from "./state.js";
import { t } from "./strings.js";

const NEARLY_FULL = 0.9;
/** Shorter work is not named, so that the foot stays calm while a text is typed. */
const NOTICED_MS = 500;
/** The end of a sentence of more than one letter, or of a line. */
const ENDED = /[\p{L}\p{N}\p{M}]{2}["'”’»)\]%]*[.!?…。！？।]["'”’»)\]]*$|\S\n$/u;

/** Show the source; `typed(text, ended)` is called with each change, and whether it ends a sentence. */
export function showSource(store, typed) {
  const area = element("source-text");
  area.addEventListener("input", ({ inputType }) => {
    const written = ["insertText", "insertLineBreak"].includes(inputType);
    typed(area.value, written && ENDED.test(area.value.slice(0, area.selectionStart)));
  });
  store.watch(({ text }) => ({ text }), ({ text }) => {
    if (area.value !== text) area.value = text;
    fit(area);
  });
  store.watch((state) => ({ language: spoken(state) }), ({ language }) => { area.lang = language; });
  store.watch((state) => ({ size: length(state), limit: state.limit, over: tooLong(state) }), ({ size, limit, over }) => {
    const near = limit >= 0 && size > NEARLY_FULL * limit;
    const key = near ? "charactersOf" : "characters";
    element("count").textContent = size ? t(key, { n: size, most: limit }) : "";
    element("count").classList.toggle("over", over);
    element("clear").hidden = size === 0;
  });
  store.watch((state) => ({ shown: looksLikeHtml(state), html: state.format === "html" }), ({ shown, html }) => {
    element("format").hidden = !shown;
    element("format").setAttribute("aria-pressed", String(html));
  });
  store.watch(({ past, future }) => ({ past: past.length, future: future.length }), ({ past, future }) => {
    element("undo").hidden = !past;
    element("redo").hidden = !future;
  });
}

/** Browsers without `field-sizing` do not fit a text area to its text. */
function fit(area) {
  if (CSS.supports("field-sizing", "content")) return;
  area.style.height = "auto";
  area.style.height = `${area.scrollHeight}px`;
}

/** Show the translation, or its parts as they arrive. */
export function showTranslation(store) {
  const box = element("target-text");
  store.watch((state) => ({ text: state.partial || state.result?.translation || "" }), ({ text }) => {
    if (box.textContent === text) return;
    const caret = document.activeElement === box ? caretIn(box) : null;
    box.textContent = text;
    if (caret !== null) placeCaret(box, caret);
    // The translation of what is being typed has to be in view.
    else scrollAlong(box, element("source-text"));
  });
  store.watch((state) => ({ target: state.result?.inputs.target ?? state.target }),
    ({ target }) => { box.lang = target; });
  store.watch((state) => ({ old: stale(state), running: state.running }), ({ old, running }) => {
    box.classList.toggle("stale", old);
    box.setAttribute("aria-busy", String(running));
  });
  let noticed = 0;
  store.watch(({ running }) => ({ running }), ({ running }) => {
    clearTimeout(noticed);
    if (running) noticed = setTimeout(() => { element("state").textContent = t("translating"); }, NOTICED_MS);
    else element("state").textContent = "";
  });
  store.watch((state) => ({ result: Boolean(state.result?.translation), old: stale(state) }), ({ result, old }) => {
    for (const name of ["copy", "share"]) {
      element(name).hidden = !result;
      element(name).disabled = old;
    }
  });
}

/** The text that was scrolled along, and where to. */
let led = null;

/** Scroll each text along with the other. */
export function scrollTogether() {
  const sides = [element("source-text"), element("target-text")];
  sides.forEach((side, i) => side.addEventListener("scroll", () => {
    // Scrolling one text scrolls the other, whose event must not scroll back.
    if (led?.side === side) {
      const along = Math.abs(side.scrollTop - led.top) < 2;
      led = null;
      if (along) return;
    }
    scrollAlong(sides[1 - i], side);
  }));
}

/** Scroll a text as far as its `leader`. */
function scrollAlong(side, leader) {
  const [room, leaderRoom] = [side, leader].map(({ scrollHeight, clientHeight }) => scrollHeight - clientHeight);
  if (room <= 0 || leaderRoom <= 0) return;
  const wanted = Math.round((leader.scrollTop / leaderRoom) * room);
  if (Math.abs(side.scrollTop - wanted) < 2) return;
  led = { side, top: wanted };
  side.scrollTop = wanted;
}
