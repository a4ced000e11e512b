/** SentencePiece pieces: their display text, and the words that they belong to. */

const WORD_START = "\u2581";
const SPECIAL = new Map([["<s>", "start"], ["</s>", "end"], ["<unk>", "unknown"], ["<pad>", "padding"]]);
/** Pieces that name the language to write: `<2en>`, `>>deu<<`, `__fr__`. */
const TAG = /^(?:<2([\w-]+)>|>>([\w-]+)<<|__([\w-]+)__)$/;
const FAR = 16;

/** Display form of a piece: `text`, and whether it stands for no text. */
export function written(piece) {
  if (SPECIAL.has(piece)) return { text: SPECIAL.get(piece), special: true };
  const [language] = (TAG.exec(piece) ?? []).slice(1).filter(Boolean);
  if (language) return { text: `→ ${language}`, special: true };
  const bare = bareText(piece);
  if (!bare) return { text: "␣", special: true };
  const continues = !piece.startsWith(WORD_START) && /[\p{L}\p{N}]/u.test(bare);
  return { text: continues ? `\u2010${bare}` : bare, special: false };
}

/** Index of each piece's word in `words`, spans of characters of `text`; -1 for none. */
export function wordsOfPieces(pieces, text, words) {
  const characters = normalised(text);
  const plain = characters.map(({ character }) => character).join("");
  let position = 0;
  return pieces.map((piece) => {
    const bare = SPECIAL.has(piece) ? "" : bareText(piece);
    if (!bare) return -1;
    const found = plain.indexOf(bare, position);
    if (found < 0 || found - position > FAR) return -1;
    position = found + bare.length;
    const { at } = characters[found];
    return words.findIndex(({ start, end }) => start <= at && at < end);
  });
}

/** The characters as the tokenizer reads them, without blanks, each with its offset in `text`.
    Offsets count code points, as on the server; `character` is one UTF-16 unit. */
function normalised(text) {
  return [...text].flatMap((character, at) =>
    bareText(character.normalize("NFKC")).split("").map((unit) => ({ character: unit, at })));
}

const bareText = (piece) => piece.replaceAll(WORD_START, "").replace(/\s/gu, "");
