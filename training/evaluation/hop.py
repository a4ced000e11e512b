"""BLEU and chrF of a checkpoint on its recipe's test set, with sacreBLEU's signatures."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from tqdm import tqdm

from models.bundle.manifest import DecodingDefaults
from models.bundle.tokenizer import Tokenizer
from models.transformer.transformer import Transformer
from training.data.corpus import read_pairs
from training.recipe import Recipe, RunDirectory
from training.search import CachedDecoder, Searching


@dataclass(frozen=True, slots=True)
class Evaluation:
    test_set: str
    sentences: int
    bleu: float
    bleu_signature: str
    chrf: float
    chrf_signature: str
    exact: float
    """Share of sentences translated exactly as the reference."""
    cut: int
    """Sentences of which the network could read only the beginning."""


def evaluate(
    recipe: Recipe, run: RunDirectory, network: Transformer, data_directory: Path
) -> Evaluation:
    """Translate the test set with beam search; writes ``translations.txt`` and ``scores.json``."""
    tokenizer = Tokenizer.load(run.tokenizer)
    special = tokenizer.special_ids
    decoding = DecodingDefaults.model_validate(recipe.decoding)
    searching = Searching(special, decoding.beam_size, decoding.length_penalty)
    decoder = CachedDecoder(network)
    limit = network.config.max_length
    pairs = list(
        read_pairs(recipe.data.test, recipe.data.source, recipe.data.target, data_directory)
    )
    translations = []
    cut = 0
    for pair in tqdm(pairs, unit="sentence", desc=recipe.data.test.name, dynamic_ncols=True):
        pieces = tokenizer.encode(pair.source)
        cut += len(pieces) >= limit
        source_ids = (*pieces[: limit - 1], special.eos)
        best = searching.best(decoder, source_ids, limit)[0]
        translations.append(tokenizer.decode(best.token_ids))
    references = [pair.target for pair in pairs]
    bleu, chrf = BLEU(), CHRF()
    result = Evaluation(
        test_set=recipe.data.test.name,
        sentences=len(pairs),
        bleu=bleu.corpus_score(translations, [references]).score,
        bleu_signature=str(bleu.get_signature()),
        chrf=chrf.corpus_score(translations, [references]).score,
        chrf_signature=str(chrf.get_signature()),
        exact=sum(map(str.__eq__, translations, references)) / len(pairs),
        cut=cut,
    )
    run.translations.write_text("".join(f"{line}\n" for line in translations), encoding="utf-8")
    run.scores.write_text(json.dumps(asdict(result), indent=2) + "\n", encoding="utf-8")
    return result
