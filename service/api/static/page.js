/** Entry point of the page: creates the state, and connects its views with what users do. */

import { Alternatives } from "./alternatives.js";
import { Server } from "./api.js";
import { Attention } from "./attention.js";
import { element, localise } from "./dom.js";
import { Files } from "./files.js";
import { Glossary } from "./glossary.js";
import { History } from "./history.js";
import { showLanguages, showModels } from "./languages.js";
import { recall, recallDraft, remember, rememberDraft } from "./memory.js";
import { Models } from "./models.js";
import { Key, announce, showHints, showProblem } from "./notices.js";
import { Sentences } from "./sentences.js";
import { showSettings } from "./settings.js";
import { copy, dropLink, readLink, writeLink } from "./sharing.js";
import { Speaking } from "./speaking.js";
import { DETECT, Store, draft, looksLikeHtml, maySwap, otherTarget, pair, redone, sourcesOf, spoken, stale, targetChoices, undoable, undone } from "./state.js";
import { Steering } from "./steering.js";
import { TABLES, language, nativeName, speak, t } from "./strings.js";
import { scrollTogether, showSource, showTranslation } from "./texts.js";
import { Translating } from "./translating.js";
import { Typing } from "./typing.js";

/** Whether the Alt key types letters, as on Apple's keyboards. */
const APPLE = /^(Mac|iP)/.test(navigator.platform);

document.documentElement.lang = language;
localise(document);
if (APPLE) element("swap").title = element("swap").title.replace(/ \(.*\)$/, "");

const store = new Store();
const server = new Server();
const translating = new Translating(server, store);
const again = () => (store.state.offered.length ? translating.now() : begin());

showLanguages(store, (source, target) => choose(pair(store.state, source, target)), swap);
showModels(store, (model) => { remember("model", model); apply({ model }); });
showSource(store, typed);
showTranslation(store);
scrollTogether();
showSettings(store);
showProblem(store, again);
showHints(store, { format: setFormat, translateTo: (target) => choose(pair(store.state, store.state.source, target)) });
announce(store);
new Key(server, store, begin);
new Files(server, store);
new Glossary(store, () => translating.soon());
new Models(server);
new History(store, (former) => apply(undoable(store.state, { ...former, fixed: true })));
new Speaking(store);
new Sentences(server, store);
new Typing(server, store);
new Alternatives(server, store);
new Steering(server, store, translating);
new Attention(server, store, () => translating.now());

/* Actions of users */

function typed(text, ended) {
  dropLink();
  store.change({ text, unknownLink: [], ...(text.trim() ? {} : { fixed: false }), ...(looksLikeHtml({ text }) ? {} : { format: "text" }) });
  translating.soon(ended);
}

function apply(patch) {
  dropLink();
  store.change({ unknownLink: [], ...patch });
  if (patch.result && !stale(store.state)) translating.stop();
  else translating.now();
}

function choose(languages) {
  remember("languages", [languages.source, languages.target]);
  apply({ ...languages, fixed: true });
}

/* A text in the target language is translated to another one. */
store.watch((state) => ({ target: otherTarget(state) }), ({ target }) => {
  if (!target) return;
  store.change(pair(store.state, DETECT, target));
  translating.now();
});

/* Where texts are not translated while they are typed, a button translates them. */
store.watch(({ live }) => ({ live }), ({ live }) => {
  element("translate").hidden = live;
  if (live && stale(store.state)) translating.soon();
});

function setFormat(format) {
  apply({ format });
}

function clear() {
  apply(undoable(store.state, { text: "", format: "text", fixed: false }));
  element("source-text").focus();
}

function swap() {
  const { state } = store;
  if (!maySwap(state)) return;
  const languages = pair(state, state.target, spoken(state));
  const text = state.result?.translation || state.text;
  remember("languages", [languages.source, languages.target]);
  apply(undoable(state, { ...languages, text }));
  element("source-text").focus();
}

/** Undo with the keyboard what a button did; the browser undoes typing. */
function undoKey(event) {
  const { past, future, text } = store.state;
  if (text !== lastWritten || !(event.shiftKey ? future : past).length) return false;
  apply(event.shiftKey ? redone(store.state) : undone(store.state));
  return true;
}

let lastWritten = null;
store.watch(({ past, future }) => ({ past, future }), () => { lastWritten = store.state.text; });

const clicks = {
  clear,
  translate: () => translating.now(),
  why: () => store.change({ why: !store.state.why }),
  undo: () => apply(undone(store.state)),
  redo: () => apply(redone(store.state)),
  format: () => setFormat(store.state.format === "html" ? "text" : "html"),
  copy: ({ currentTarget }) =>
    copy(store.state.result.translation, currentTarget, store.state.result.inputs.format === "html"),
  share: ({ currentTarget }) => copy(writeLink(store.state), currentTarget),
};
for (const [id, clicked] of Object.entries(clicks)) element(id).addEventListener("click", clicked);

document.addEventListener("keydown", (event) => {
  const control = event.ctrlKey || event.metaKey;
  if (control && event.key === "Enter") translating.now();
  else if (event.altKey && !control && event.code === "KeyS" && !APPLE) swap();
  else if (!(control && event.key.toLowerCase() === "z" && event.target === element("source-text") && undoKey(event))) return;
  event.preventDefault();
});
window.addEventListener("hashchange", () => {
  if (readLink()) restore();
});

/* The attention panel */

store.watch(({ why, text, result, error }) => ({ why, shown: why || Boolean(text.trim() && (result || !error)) }), ({ why, shown }) => {
  element("why").hidden = !shown;
  element("attention").hidden = !why;
  element("why").setAttribute("aria-expanded", String(why));
  element("why").textContent = t(why ? "hideWhy" : "seeWhy");
});

/* Startup */

const speech = element("page-language");
speech.replaceChildren(...Object.keys(TABLES).map((code) => new Option(nativeName(code), code)));
speech.value = language;
speech.addEventListener("change", () => speak(speech.value));

/** Take text and languages from the link, else from the draft of this tab. */
function restore() {
  const { state } = store;
  const link = readLink();
  const given = link ?? (state.text ? null : recallDraft());
  if (given) {
    const sides = link ? [
      [link.source, [DETECT, "", ...sourcesOf(state)]],
      [link.target, ["", ...targetChoices({ ...state, source: DETECT })]],
    ] : [];
    const unknownLink = [...new Set(sides.filter(([code, known]) => !known.includes(code)).map(([code]) => code))];
    const patch = { ...pair(state, given.source, given.target), text: given.text, format: given.format ?? "text" };
    const other = state.text && state.text !== given.text;
    store.change({ ...(other ? undoable(state, patch) : patch), why: link?.why ?? state.why, unknownLink, fixed: Boolean(link) });
  }
  if (!store.state.result?.own || stale(store.state)) translating.now();
}

/** Learn what the server offers to the present key, and translate. */
async function begin() {
  store.change({ error: null });
  const { source: from, target: to, offered: before } = store.state;
  const { key } = server;
  try {
    const [offered, settings, { models }] = await Promise.all([server.languages(), server.settings(), server.get("models")]);
    if (server.key !== key) return;
    const first = recall("languages", [settings.language?.source?.code, settings.language?.target?.code]);
    const [source, target] = to ? [from, to] : first;
    store.change({
      offered,
      models,
      model: recall("model", ""),
      limit: settings.charLimit ?? -1,
      keys: settings.keyRequired ? "required" : settings.apiKeys ? "optional" : "none",
      formats: settings.filesTranslation ? settings.supportedFilesFormat.map((each) => each.toLowerCase()) : [],
      ...pair({ ...store.state, offered }, source, target),
    });
  } catch (error) {
    if (server.key === key) store.change({ error });
    return;
  }
  restore();
  // A draft is not replaced before it has been read.
  if (!before.length) store.watch(draft, (written) => rememberDraft(written.text ? written : null));
}

begin();
