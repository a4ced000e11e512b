/** State of the page in one value, and the values that follow from it. */

import { recall } from "./memory.js";

export const DETECT = "auto";
const STREAMED_FROM = 400;
const TAG = /<\/?[a-z][a-z0-9-]*(\s[^<>]*)?\/?>|&[a-z]+;/i;

const MOST_UNDONE = 100;
/** Characters of the terms of a request. */
const MOST_IN_TERMS = 50_000;
/** Input that decides a translation, besides the user's changes of it. */
const INPUTS = ["source", "target", "text", "format", "model"];

const START = Object.freeze({
  /* State of the server: languages, most characters of a text, API keys, file extensions. */
  offered: [],
  models: [],
  limit: -1,
  keys: "none",
  formats: [],
  /* Input of the user. */
  source: DETECT,
  target: "",
  text: "",
  format: "text",
  /* Name of the model, "" for the best of the pair. */
  model: "",
  /* Whether the user has chosen the target for this text. */
  fixed: false,
  /* Terms of the user, `[source, target]`, by pair of languages. */
  glossaries: recall("glossaries", {}),
  doubts: recall("doubts", false),
  /* Whether a text is translated while it is typed. */
  live: recall("live", true),
  keepHistory: recall("keepHistory", true),
  why: false,
  sentence: 0,
  listed: recall("alternatives", false),
  past: [],
  future: [],
  unknownLink: [],
  /* State of the request: `partial` is the text streamed so far, `result` the last answer. */
  running: false,
  partial: null,
  result: null,
  error: null,
  /* Why the text that was typed into the translation was not continued. */
  stuck: "",
});

/** Holds the state. Views watch a selection of it, and are called when the selection changes. */
export class Store {
  #state = START;
  #watchers = [];
  #showing = false;

  get state() {
    return this.#state;
  }

  change(patch) {
    this.#state = Object.freeze({ ...this.#state, ...patch });
    // A view that changes the state is called again afterwards, not within its own call.
    if (this.#showing) return;
    this.#showing = true;
    try {
      while (this.#watchers.some((watcher) => watcher(this.#state)));
    } finally {
      this.#showing = false;
    }
  }

  /** Call `show(selection)` at once, and whenever `select(state)`, an object, has changed. */
  watch(select, show) {
    let before = null;
    const watcher = (state) => {
      const selection = select(state);
      if (before && same(before, selection)) return false;
      before = selection;
      show(selection);
      return true;
    };
    this.#watchers.push(watcher);
    watcher(this.#state);
  }
}

const same = (one, other) =>
  Object.keys(one).every((name) => one[name] === other[name]
    || JSON.stringify(one[name]) === JSON.stringify(other[name]));

/* Languages */

const named = (state, code) => state.offered.find((language) => language.code === code);

/** The languages that `code` can be translated to. */
export const targetsOf = (state, code) =>
  (named(state, code)?.targets ?? []).filter((target) => target !== code);

export const sourcesOf = (state) =>
  state.offered.map(({ code }) => code).filter((code) => targetsOf(state, code).length);

export const targetChoices = (state) => (state.source === DETECT
  ? [...new Set(sourcesOf(state).flatMap((code) => targetsOf(state, code)))]
  : targetsOf(state, state.source));

/** The fields of a pair, as far as the server offers it; otherwise its first languages. */
export function pair(state, source, target) {
  const from = source === DETECT || sourcesOf(state).includes(source) ? source : DETECT;
  const targets = targetChoices({ ...state, source: from });
  return { source: from, target: targets.includes(target) ? target : (targets[0] ?? "") };
}

/** The detected language of the text, null if none was detected or asked for. */
export function detection(state) {
  const detected = state.result?.detected;
  return state.source === DETECT && detected?.confidence > 0 ? detected : null;
}

/** The language of the text: the chosen one, or the detected one, or "" if unknown. */
export const spoken = (state) =>
  (state.source === DETECT ? (detection(state)?.language ?? "") : state.source);

/** The target to switch to, last chosen, because the text is in the present one; "" if it is not. */
export function otherTarget(state) {
  const { result, target, fixed } = state;
  if (!result || fixed || result.unserved || stale(state) || detection(state)?.language !== target) return "";
  const targets = targetsOf(state, target);
  return recall("recent", []).find((code) => targets.includes(code)) ?? targets[0] ?? "";
}

export const maySwap = (state) =>
  Boolean(spoken(state)) && spoken(state) !== state.target
  && targetsOf(state, state.target).includes(spoken(state));

/* Models */

/** The names of the models that translate the pair; of any pair to the target, while the source is unknown. */
export function modelChoices(state, source = spoken(state)) {
  const fits = (direction) => direction.target === state.target && (!source || direction.source === source);
  return state.models.filter(({ directions }) => directions.some(fits)).map(({ name }) => name);
}

/** The field of a request for a model, if it translates the pair; a server refuses any other pair, and
    chooses the model itself for a text whose language it is to detect. */
export const ofModel = (state, { model }, source = certain(state)) =>
  (model && source && modelChoices(state, source).includes(model) ? { model } : {});

/** The language of the text, "" if it has changed since its language was detected. */
const certain = (state) =>
  (state.source !== DETECT || state.result?.inputs.text === state.text ? spoken(state) : "");

/* Glossaries */

export const pairName = (source, target) => `${source}>${target}`;

export const inPair = (state, source, target) => state.glossaries[pairName(source, target)] ?? [];

/** The terms for a translation; while the language is still to be detected, those of every source. */
export const terms = ({ source, target, glossaries }) => fitting(source === DETECT
  ? Object.entries(glossaries).flatMap(([name, found]) => (name.endsWith(pairName("", target)) ? found : []))
  : inPair({ glossaries }, source, target));

/** The first terms, as many as a request may have; the same array if all fit, so that states which
    have not changed are compared by identity. */
export function fitting(found) {
  let left = MOST_IN_TERMS;
  const beyond = found.findIndex(([source, target]) => (left -= source.length + target.length) < 0);
  return beyond < 0 ? found : found.slice(0, beyond);
}

/** The field of a request for the terms of its inputs. */
export const glossary = ({ terms: found }) => (found.length ? { glossary: Object.fromEntries(found) } : {});

/* Texts */

export const length = (state) => [...state.text].length;

export const tooLong = (state) => state.limit >= 0 && length(state) > state.limit;

export const looksLikeHtml = (state) => TAG.test(state.text);

/** Input of the user to a translation, which can be undone. */
export const draft = (state) =>
  Object.fromEntries(INPUTS.map((name) => [name, state[name]]));

export const inputs = (state) => ({ ...draft(state), terms: terms(state) });

/** Whether the result is the one of another text, language, format or glossary than chosen now. */
export const stale = (state) =>
  state.result !== null && !same(state.result.inputs, inputs(state));

/** The fields of the request for a translation, null if there is nothing to translate. */
export function query(state) {
  const { text: q, source, target, format } = state;
  if (!q.trim() || !target || tooLong(state)) return null;
  return {
    q,
    source,
    target,
    format,
    ...ofModel(state, state),
    ...glossary(inputs(state)),
    ...(state.doubts && format !== "html" && !terms(state).length ? { confidence: true } : {}),
    ...(state.why ? { attention: true } : {}),
    ...streamed(q),
  };
}

/** The field of a request whose answer is shown as it arrives. */
export const streamed = (q) => (q.length > STREAMED_FROM ? { stream: true } : {});

export function resultOf(answer, state) {
  return {
    inputs: inputs(state),
    translation: answer.translatedText,
    detected: answer.detectedLanguage ?? null,
    unserved: answer.unservedLanguage ?? null,
    truncated: answer.truncated,
    translated: answer.model !== null,
    /* The name of the model, or those of the route. */
    model: answer.model,
    id: answer.id ?? null,
    kept: state.why,
    confidence: answer.confidence ?? null,
    /* Spans that the user has chosen or typed. Such a result is `own`. */
    choices: [],
    own: false,
    typed: false,
    /* Spans of sentences, `{source, target}`; null until they are known, empty if they cannot be. */
    sentences: null,
  };
}

/** The sentences of the result; the whole text if they are not known. */
export function sentencesOf({ result }) {
  const whole = (text) => ({ start: 0, end: text.length });
  return result.sentences?.length
    ? result.sentences
    : [{ source: whole(result.inputs.text), target: whole(result.translation) }];
}

/* Undo */

const moment = (state) => ({ ...draft(state), fixed: state.fixed, result: state.result });

/** The changes of `patch`, which replaces a text or languages and can be undone. */
export const undoable = (state, patch) =>
  ({ ...patch, past: [...state.past, moment(state)].slice(-MOST_UNDONE), future: [] });

export const undone = (state) => moved(state, "past", "future");

export const redone = (state) => moved(state, "future", "past");

function moved(state, from, to) {
  if (!state[from].length) return {};
  return { ...state[from].at(-1), [from]: state[from].slice(0, -1), [to]: [...state[to], moment(state)] };
}
