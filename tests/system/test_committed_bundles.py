"""Tests of the committed bundles behind a real server."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from benchmarks.server import serving
from models.bundle.bundle import Bundle
from tests.support.books import read_books, series

BUNDLES = Path(__file__).parents[2] / "bundles"
WORD = re.compile(r"\w+|[.,]")
pytestmark = pytest.mark.slow

CAPTIONS = [
    "Zwei junge Männer spielen Fußball auf einer Wiese.",
    "Ein Hund läuft durch den Schnee.",
    "Eine Frau in einem roten Kleid singt auf einer Bühne vor vielen Menschen.",
    "Drei Kinder sitzen auf einer Bank im Park und essen Eis.",
    "Ein Mann fährt Fahrrad.",
    "Ein kleines Mädchen mit einem blauen Hut spielt am Strand im Sand.",
    "Mehrere Leute warten an einer Bushaltestelle.",
    "Ein alter Mann mit Bart liest auf einem Stuhl vor seinem Haus eine Zeitung.",
]


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with serving(BUNDLES, SLOTS="16") as (url, _), httpx.Client(base_url=url, timeout=60) as client:
        yield client


def translate(client: httpx.Client, text: str) -> str:
    response = client.post("/translate", json={"q": text, "source": "de", "target": "en"})
    assert response.status_code == 200, response.text
    translated: str = response.json()["translatedText"]
    return translated


def batches(client: httpx.Client) -> tuple[float, float, float]:
    """Sentences that joined a running batch, sentences that left one, and steps."""
    books = read_books(client.get("/metrics").text)
    joins = series(books, "nmt_batch_joins_total")
    retires = series(books, "nmt_batch_retires_total")
    steps = series(books, "nmt_decode_step_duration_seconds_count")
    return (
        sum(n for labels, n in joins.items() if "running" in labels),
        sum(n for labels, n in retires.items() if "running" in labels),
        sum(steps.values()),
    )


def test_captions_are_translated_in_both_directions(client: httpx.Client) -> None:
    english = translate(client, CAPTIONS[0]).lower()
    assert "two young men" in english
    assert "soccer" in english or "football" in english
    response = client.post(
        "/translate",
        json={"q": "A dog runs through the snow.", "source": "en", "target": "de"},
    )
    german = response.json()["translatedText"]
    assert "Hund" in german
    assert "Schnee" in german


def test_concurrent_sentences_are_batched_and_translate_as_if_alone(client: httpx.Client) -> None:
    # All different, since equal concurrent sentences are coalesced.
    texts = [f"{caption.rstrip('.')} ({number})." for caption in CAPTIONS for number in range(8)]
    alone = [translate(client, text) for text in texts]
    before = batches(client)
    with ThreadPoolExecutor(len(texts)) as pool:
        together = list(pool.map(lambda text: translate(client, text), texts))

    assert together == alone
    joined, left, steps = (now - then for now, then in zip(batches(client), before, strict=True))
    # 64 sentences and 16 slots: many of the others joined a running batch.
    assert joined > 16
    assert left > 16
    # Without batching, each of several hundred tokens would take a step.
    assert steps < 200


def test_committed_bundle_is_complete_and_states_its_quality() -> None:
    manifest = Bundle.open(BUNDLES / "general-de-en").manifest
    assert manifest.precisions == ("int8", "fp16")
    assert len(manifest.examples) >= 3
    assert {score.metric for score in manifest.provenance.scores} >= {
        "BLEU, lower-cased and tokenised",
        "BLEU",
        "chrF",
    }


SAME = {"Mädchen": "girl", "roten": "red", "Kleid": "dress", ".": "."}
GIRL = {
    "de": "Ein kleines Mädchen in einem roten Kleid isst einen Apfel.",
    "en": "A little girl in a red dress is eating an apple.",
}


@pytest.mark.parametrize(("source", "target"), [("de", "en"), ("en", "de")])
def test_words_of_equal_meaning_are_aligned(client: httpx.Client, source: str, target: str) -> None:
    body = {"source": source, "target": target, "alignment": True, "layer": "all", "head": "all"}
    texts = {"source_text": GIRL[source], "target_text": GIRL[target]}
    answer = client.post("/attention", json=body | texts).json()
    words = {side: answer["alignment"][f"{side}_words"] for side in ("source", "target")}
    linked = {
        tuple(words[side][link[side]]["text"] for side in ("source", "target"))
        for link in answer["alignment"]["links"]
    }
    assert {pair if source == "de" else pair[::-1] for pair in SAME.items()} <= linked
    for each in answer["maps"]:
        assert all(abs(sum(row) - 1) < 1e-4 for row in each["weights"])


def test_any_beginning_is_kept(client: httpx.Client) -> None:
    wholes = [translate(client, caption) for caption in CAPTIONS[:4]]
    beginnings = [whole[:length] for whole in wholes for length in (1, 2, 5, 9, 14, 23)]
    for caption in CAPTIONS[:4]:
        for prefix in [*beginnings, "Xq zz ß漢\t", "The  "]:
            body = {"q": caption, "source": "de", "target": "en", "prefix": prefix}
            found = client.post("/translate", json=body).json()["translatedText"]
            assert found.startswith(prefix)
    # A beam may find another end, because only one hypothesis begins so.
    for caption in CAPTIONS[:4]:
        body = {"q": caption, "source": "de", "target": "en", "beam_size": 1}
        whole = client.post("/translate", json=body).json()["translatedText"]
        body["prefix"] = whole[: len(whole) // 2]
        assert client.post("/translate", json=body).json()["translatedText"] == whole


def test_alternatives_are_whole_words_at_their_place(client: httpx.Client) -> None:
    body = {"q": CAPTIONS[1], "source": "de", "target": "en", "position": 6}
    answer = client.post("/alternatives", json=body).json()
    found = {each["word"]: each for each in answer["alternatives"]}
    assert {"walks", "runs"} <= set(found)
    assert found["runs"]["translation"].startswith("A dog runs ")


@pytest.mark.parametrize(
    ("text", "replaced", "glossary"),
    [
        ("Der Hund und die Katze schlafen.", "dog cat", {"Hund": "puppy", "Katze": "kitty"}),
        ("Der Hund und die Katze schlafen.", "cat", {"Katze": "kitty"}),
        ("Mein Hund ist alt und der Hund schläft.", "dog", {"Hund": "Quuxzilla 3000"}),
        ("Mein Hund ist alt und der Hund schläft.", "dog", {"Hund": "Labrador Retriever"}),
        (
            "Die Regierung hat am Montag neue Maßnahmen beschlossen, um die Wirtschaft zu stützen.",
            "government measures",
            {"Maßnahmen": "steps", "Regierung": "cabinet"},
        ),
    ],
)
def test_glossary_terms_replace_their_words_and_all_others_stay(
    client: httpx.Client, text: str, replaced: str, glossary: dict[str, str]
) -> None:
    body = {"q": text, "source": "de", "target": "en"}
    without = client.post("/translate", json=body).json()["translatedText"]
    found = client.post("/translate", json={**body, "glossary": glossary}).json()["translatedText"]
    for source, target in glossary.items():
        assert found.count(target) == text.count(source)
    # An article may be replaced together with its noun.
    articles = {"a", "an", "the"}
    others = [word for word in WORD.findall(without) if word.lower() not in articles]
    kept = [word for word in others if word not in replaced.split()]
    following = iter(WORD.findall(found))
    assert len(kept) < len(others)
    assert all(word in following for word in kept)
