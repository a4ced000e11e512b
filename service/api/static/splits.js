/** Requests and results of a text that is translated by sentences. */

import { points } from "./spans.js";
import { glossary, inputs, ofModel, resultOf, terms } from "./state.js";

/** The fields of the request for the sentences of the text. */
export const splitFields = (state) => ({
  q: state.text,
  source: state.source,
  target: state.target,
  ...ofModel(state, state),
  ...glossary(inputs(state)),
});

/** The fields of requests for translations of sentences, besides their texts. `found` is the server's
    answer about the sentences; its model, which the server may choose by the whole text, translates
    all of them. */
export const sentenceFields = (state, found) => ({
  source: found.source,
  target: state.target,
  ...ofModel(state, { model: modelOf(state, found) }, found.source),
  ...glossary(inputs(state)),
  ...(state.doubts && !terms(state).length ? { confidence: true } : {}),
});

/** The chosen model, if it translates the language that the server has found, else the server's. */
const modelOf = (state, found) => found.model && (ofModel(state, state, found.source).model ?? found.model);

/** The translation of a text: what is between its sentences, and their translations. */
export const interleaved = (separators, texts) =>
  separators.map((separator, i) => separator + (texts[i] ?? "")).join("");

/** The result of a text whose sentences have these translations, `{text, truncated, confidence}`. */
export function assembled(state, found, translations) {
  const { sentences, separators, detectedLanguage, unservedLanguage } = found;
  const translatedText = interleaved(separators, translations.map(({ text }) => text));
  const targets = [];
  const words = [];
  let position = 0;
  let before = 0;
  translations.forEach(({ text, confidence }, i) => {
    position += separators[i].length;
    before += points(separators[i]);
    for (const word of confidence?.words ?? []) words.push({ ...word, start: word.start + before, end: word.end + before });
    targets.push({ start: position, end: position += text.length });
    before += points(text);
  });
  const sources = located(state.text, sentences);
  const known = translations.some(({ confidence }) => confidence);
  const answer = {
    translatedText,
    model: modelOf(state, found),
    detectedLanguage,
    unservedLanguage,
    truncated: translations.some(({ truncated }) => truncated),
    confidence: known ? { words } : null,
  };
  return { ...resultOf(answer, state), sentences: sources ? sources.map((source, i) => ({ source, target: targets[i] })) : [] };
}

/** Spans of parts that follow one another in a text; null if one is not in it. */
export function located(text, parts) {
  let position = 0;
  const spans = parts.map((part) => {
    const start = text.indexOf(part, position);
    position = start + part.length;
    return start < 0 ? null : { start, end: position };
  });
  return spans.includes(null) ? null : spans;
}
