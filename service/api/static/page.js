/** Entry point of the page: creates the components and connects their events. */

import { Alternatives } from "./alternatives.js";
import { Server } from "./api.js";
import { Attention } from "./attention.js";
import { copy } from "./clipboard.js";
import { counted, element } from "./dom.js";
import { Files } from "./files.js";
import { Hint } from "./hint.js";
import { Key } from "./key.js";
import { Languages } from "./languages.js";
import { dropLink, readLink, writeLink } from "./link.js";
import { Problem } from "./problem.js";
import { KeptTranslation, Pair } from "./subjects.js";
import { Translating } from "./translating.js";

const sourceText = element("source-text");
const targetText = element("target-text");
const state = element("state");
const SHORT = 400;
let mostCharacters = -1;
let explained = null;
let arriving = false;

const server = new Server();
const problem = new Problem();
const translating = new Translating(server, wanted, { empty, started, part, answered, failed });
const languages = new Languages({ changed: languageChanged, swapped: swap });
const alternatives = new Alternatives({ use: useAlternative, wanted: () => translating.now() });
const attention = new Attention(server, explain);
const hint = new Hint(languages, translateTo);
const key = new Key(server, () => (languages.ready ? translating.now() : begin()));
const files = new Files((file, signal) =>
  server.translateFile(file, languages.source, languages.target, signal));

/* Translating */

function wanted() {
  const q = sourceText.value;
  if (!q.trim() || !languages.target || tooLong()) return null;
  return {
    q,
    source: languages.source,
    target: languages.target,
    ...(alternatives.asked ? { alternatives: alternatives.asked } : {}),
    ...(attention.open ? { attention: true } : {}),
    ...(q.length > SHORT ? { stream: true } : {}),
  };
}

function started() {
  state.textContent = "Translating…";
  targetText.setAttribute("aria-busy", "true");
  arriving ||= !targetText.textContent;
  if (arriving) targetText.textContent = "";
  attention.stale();
}

/** Show a streamed part, unless a complete translation is still shown. */
function part(text) {
  if (arriving) targetText.append(text);
}

function answered(answer, fields) {
  show(answer.translatedText);
  state.textContent = answer.truncated ? "Cut: a sentence grew too long" : "";
  languages.detected(answer.detectedLanguage ?? null);
  alternatives.show(answer.alternatives, fields.target);
  hint.show(fields.source === "auto" ? languages.spoken : "", fields.target);
  problem.clear();
  explained = answer.id ? new KeptTranslation(server, answer.id) : null;
  if (explained) attention.show(explained);
}

function failed(error) {
  arriving = false;
  state.textContent = "";
  targetText.setAttribute("aria-busy", "false");
  if (error.aboutKey) key.show();
  problem.show(error, () => translating.now());
}

function empty() {
  show("");
  state.textContent = "";
  explained = null;
  languages.detected(null);
  alternatives.hide();
  hint.hide();
  problem.clear();
  attention.clear("Type something to translate, and see here where the model looked.");
  if (tooLong()) problem.show(new Error(`At most ${counted(mostCharacters, "character")} are translated at once.`));
}

function show(translation) {
  arriving = false;
  targetText.textContent = translation;
  targetText.lang = languages.target;
  targetText.classList.remove("stale");
  targetText.setAttribute("aria-busy", "false");
  element("copy").hidden = element("share").hidden = !translation;
}

function explain() {
  if (explained) attention.show(explained);
  else translating.now();
}

function useAlternative(text) {
  const replaced = targetText.textContent;
  show(text);
  // The server stores only its own choice; any other text needs a new request.
  const { spoken: source, target } = languages;
  explained = new Pair(server, { source, target, sourceText: sourceText.value, targetText: text });
  attention.show(explained);
  return replaced;
}

/* The text */

const tooLong = () => mostCharacters >= 0 && [...sourceText.value].length > mostCharacters;

function measure() {
  const size = [...sourceText.value].length;
  const most = mostCharacters >= 0 ? ` of ${mostCharacters.toLocaleString("en")}` : "";
  element("count").textContent = size ? counted(size, "character") + (size > 0.9 * mostCharacters ? most : "") : "";
  element("count").classList.toggle("over", tooLong());
  element("clear").hidden = size === 0;
  sourceText.lang = languages.spoken;
  // Grows the text area in browsers without `field-sizing`.
  if (!CSS.supports("field-sizing", "content")) {
    sourceText.style.height = "auto";
    sourceText.style.height = `${sourceText.scrollHeight}px`;
  }
}

function typed() {
  dropLink();
  measure();
  targetText.classList.add("stale");
  translating.soon();
}

function write(text) {
  sourceText.value = text;
  measure();
}

function languageChanged() {
  dropLink();
  measure();
  translating.now();
}

function swap() {
  if (!languages.maySwap) return;
  const translation = targetText.textContent;
  languages.choose(languages.target, languages.spoken);
  if (translation) write(translation);
  languageChanged();
  sourceText.focus();
}

function translateTo(language) {
  languages.choose(languages.source, language);
  languageChanged();
}

sourceText.addEventListener("input", typed);
element("clear").addEventListener("click", () => { write(""); typed(); sourceText.focus(); });
element("copy").addEventListener("click", ({ currentTarget }) => copy(targetText.textContent, currentTarget));
element("share").addEventListener("click", ({ currentTarget }) => {
  const { source, target } = languages;
  copy(writeLink({ source, target, text: sourceText.value, why: attention.open }), currentTarget);
});
document.addEventListener("keydown", (event) => {
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter") translating.now();
  else if (event.altKey && event.code === "KeyS") swap();
  else return;
  event.preventDefault();
});
window.addEventListener("hashchange", restore);

/* Startup */

function restore() {
  const link = readLink();
  if (link) {
    languages.choose(link.source, link.target);
    write(link.text);
    if (link.why !== attention.open) attention.toggle();
  }
  measure();
  translating.now();
}

async function begin() {
  try {
    const [offered, settings] = await Promise.all([server.languages(), server.settings()]);
    mostCharacters = settings.charLimit ?? -1;
    key.offer(settings);
    if (settings.filesTranslation) files.offer(settings.supportedFilesFormat);
    languages.offer(offered, {
      source: settings.language?.source?.code,
      target: settings.language?.target?.code,
    });
  } catch (error) {
    if (error.aboutKey) key.show();
    problem.show(error, begin);
    return;
  }
  problem.clear();
  restore();
}

begin();
