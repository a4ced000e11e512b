/** Translations of sentences that this page has requested, so that each is requested once. */

/** Some hundred bytes each. */
const MOST = 5000;

const kept = new Map();

/** The name of a sentence in requests with these fields. */
export const keyOf = (fields, sentence) => JSON.stringify([fields, sentence]);

/** The translation of a sentence, `{text, truncated, confidence}`, if it is known. */
export const known = (fields, sentence) => kept.get(keyOf(fields, sentence));

/** Keep the answer of the server to a request of one text, or of a list of several. */
export function learn(fields, sentences, answer) {
  const each = (value, i) => (sentences.length > 1 ? value?.[i] : value);
  sentences.forEach((sentence, i) => {
    kept.set(keyOf(fields, sentence), {
      text: each(answer.translatedText, i),
      truncated: each(answer.truncated, i),
      confidence: each(answer.confidence, i) ?? null,
    });
  });
  while (kept.size > MOST) kept.delete(kept.keys().next().value);
}
