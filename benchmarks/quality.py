"""BLEU and chrF of bundles, through HTTP: the scores we publish are those that users get.

    python -m benchmarks.quality [NAME ...] [--record] [--runs DIR]

Every bundle is scored on the test set of the recipe that made it. Where the corpus comes
lower-cased and tokenised, too (``<test set>.lc.norm.tok``), the translations are given the same
treatment and scored against that, as the replications of the paper do. With ``--runs``, they are
compared with the beam search in PyTorch that `python -m training evaluate` left in its run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import httpx
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacremoses import MosesPunctNormalizer, MosesTokenizer

from benchmarks.server import serving
from models.bundle.bundle import MODEL_CARD, Bundle
from models.bundle.card import render_card
from models.bundle.manifest import Manifest, Precision, Score
from training.cli import default_data_directory
from training.data.corpus import CorpusError, find_side, read_lines, read_pairs
from training.recipe import RunDirectory
from training.recipes import recipe_named

TEXTS_PER_REQUEST = 100
TIMEOUT_SECONDS = 600.0


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.quality", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help="bundles (default: all)")
    parser.add_argument("--bundles", type=Path, default=Path("bundles"))
    parser.add_argument("--data", type=Path, default=default_data_directory())
    parser.add_argument("--precision", choices=("int8", "fp32"), default="int8")
    parser.add_argument("--beam-size", type=int, default=4)
    parser.add_argument(
        "--record", action="store_true", help="write the scores into manifest and model card"
    )
    parser.add_argument(
        "--runs", type=Path, help="count differences from what PyTorch translated in these runs"
    )
    options = parser.parse_args(arguments)
    paths = [options.bundles / name for name in options.names] or sorted(
        path.parent for path in options.bundles.glob("[!.]*/manifest.json")
    )
    results: dict[str, list[Score]] = {}
    try:
        with serving(options.bundles, PRECISION=options.precision) as url:
            for path in paths:
                bundle = Bundle.open(path)
                results[path.name] = score(
                    bundle, url, options.data, options.precision, options.beam_size, options.runs
                )
    except CorpusError as error:
        print(f"quality: {error}", file=sys.stderr)
        return 2
    if options.record:
        for path in paths:
            record(Bundle.open(path), results[path.name])
    print(json.dumps({name: [s.model_dump() for s in scores] for name, scores in results.items()}))
    return 0


def score(
    bundle: Bundle,
    url: str,
    data: Path,
    precision: Precision,
    beam_size: int,
    runs: Path | None = None,
) -> list[Score]:
    """Translate the test set of the bundle's recipe and compare; prints a row for each score."""
    manifest = bundle.manifest
    test = recipe_named(manifest.provenance.recipe).data.test
    pairs = list(read_pairs(test, manifest.source, manifest.target, data))
    started = time.perf_counter()
    translations = translate(url, [pair.source for pair in pairs], manifest, beam_size)
    seconds = time.perf_counter() - started
    references = [pair.target for pair in pairs]
    scores = []

    def measure(metric: str, scorer: BLEU | CHRF, ours: list[str], theirs: list[str]) -> None:
        value = scorer.corpus_score(ours, [theirs]).score
        scores.append(
            Score(
                metric=metric,
                value=round(value, 2),
                test_set=test.name,
                precision=precision,
                beam_size=beam_size,
                signature=str(scorer.get_signature()),
            )
        )

    tokenised = _tokenised_reference(data, test.name, manifest.target)
    if tokenised is not None:
        measure(
            "BLEU, lower-cased and tokenised",
            BLEU(tokenize="none", lowercase=True, force=True),
            lower_cased_and_tokenised(translations, manifest.target),
            tokenised,
        )
    measure("BLEU", BLEU(), translations, references)
    measure("chrF", CHRF(), translations, references)
    print(f"{manifest.name} {manifest.version}: {len(pairs)} sentences of {test.name},")
    print(f"  {precision}, beam {beam_size}, through HTTP, {len(pairs) / seconds:.1f} sentences/s")
    for each in scores:
        print(f"  {each.metric:<33} {each.value:6.2f}  {each.signature}")
    if runs is not None:
        run = RunDirectory(runs / manifest.provenance.recipe)
        theirs = list(read_lines(run.translations))
        differing = sum(a != b for a, b in zip(translations, theirs, strict=True))
        print(f"  {differing} of {len(theirs)} translations differ from PyTorch's")
    return scores


def translate(url: str, texts: Sequence[str], manifest: Manifest, beam_size: int) -> list[str]:
    translations: list[str] = []
    with httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS) as client:
        for start in range(0, len(texts), TEXTS_PER_REQUEST):
            response = client.post(
                "/translate",
                json={
                    "q": texts[start : start + TEXTS_PER_REQUEST],
                    "source": manifest.source,
                    "target": manifest.target,
                    "beam_size": beam_size,
                },
            )
            if response.is_error:
                raise RuntimeError(f"the service refused: {response.text}")
            translations += response.json()["translatedText"]
    return translations


def lower_cased_and_tokenised(texts: Sequence[str], language: str) -> list[str]:
    """Moses's punctuation normaliser and tokenizer over lower-cased text.

    On Multi30k's raw references it gives the published ``lc.norm.tok`` files, line for line.
    """
    normaliser, tokenizer = MosesPunctNormalizer(language), MosesTokenizer(language)
    return [
        tokenizer.tokenize(normaliser.normalize(text.lower()), return_str=True) for text in texts
    ]


def _tokenised_reference(data: Path, name: str, language: str) -> list[str] | None:
    try:
        path = find_side(f"{name}.lc.norm.tok", language, data)
    except CorpusError:
        return None
    return list(read_lines(path))


def record(bundle: Bundle, scores: Sequence[Score]) -> None:
    """Publish the bundle again with these scores in its manifest and its card."""
    provenance = bundle.manifest.provenance
    kept = [
        old for old in provenance.scores if not any(_same_measurement(old, new) for new in scores)
    ]
    scored = provenance.model_copy(update={"scores": (*kept, *scores)})
    manifest = bundle.manifest.model_copy(update={"provenance": scored})
    card = bundle.path.parent / f".{bundle.path.name}.card"
    card.write_text(render_card(manifest), encoding="utf-8")
    try:
        files = {name: bundle.path / name for name in manifest.files} | {MODEL_CARD: card}
        Bundle.write(bundle.path, manifest, files)
    finally:
        card.unlink()


def _same_measurement(one: Score, other: Score) -> bool:
    def key(score: Score) -> tuple[object, ...]:
        return score.metric, score.test_set, score.precision, score.beam_size

    return key(one) == key(other)


if __name__ == "__main__":
    sys.exit(main())
