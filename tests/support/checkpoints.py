"""Writes tiny Hugging Face checkpoints with random weights, using transformers."""

from __future__ import annotations

import io
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import sentencepiece
import torch
from transformers import (
    GenerationConfig,
    M2M100Config,
    M2M100ForConditionalGeneration,
    MarianConfig,
    MarianMTModel,
    PreTrainedModel,
)

LONGEST = 40
"""Short, because random networks hardly ever end a translation."""
SIZES: dict[str, Any] = {
    "d_model": 32,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 64,
    "decoder_ffn_dim": 64,
    "max_position_embeddings": LONGEST,
    "dropout": 0.0,
}
_WORDS = {
    "source": "der die das hund katze läuft schläft über unter straße haus groß klein",
    "target": "the dog cat runs sleeps over under street house big small a an",
}
WORDS = {side: words.split() for side, words in _WORDS.items()}
STEPS, BATCH = 60, 32


def sentences(side: str, count: int, seed: int = 0) -> list[str]:
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS[side], k=rng.randint(2, 7))) for _ in range(count)]


def train_spm(texts: Sequence[str], path: Path, size: int, **options: Any) -> list[str]:
    """Train a SentencePiece model with default ids; returns its pieces."""
    content = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=content,
        vocab_size=size,
        hard_vocab_limit=False,
        minloglevel=2,
        num_threads=1,
        **options,
    )
    path.write_bytes(content.getvalue())
    model = sentencepiece.SentencePieceProcessor(model_proto=content.getvalue())
    return [model.id_to_piece(i) for i in range(model.vocab_size())]


def randomise(model: PreTrainedModel) -> None:
    """Randomise every weight, biases and norms included."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "embed_positions" in name:
                continue
            noise = torch.randn(parameter.shape, generator=generator)
            if parameter.dim() > 1:
                parameter.copy_(noise * parameter.size(-1) ** -0.5)
            else:
                parameter.add_(noise * 0.1)
        if isinstance(model, MarianMTModel):
            model.final_logits_bias.copy_(
                torch.randn(model.final_logits_bias.shape, generator=generator) * 0.5
            )


def teach(
    model: PreTrainedModel, read: Callable[[str], list[int]], write: Callable[[str], list[int]]
) -> None:
    """Train a few steps towards word-by-word translation, so that translations vary and end, yet
    have low certainty, which leaves a search many competing hypotheses."""
    sources = sentences("source", STEPS * BATCH, seed=7)
    words = dict(zip(WORDS["source"], WORDS["target"], strict=True))
    optimiser = torch.optim.Adam(model.parameters(), lr=4e-3)
    model.train()
    # Dropout must not depend on the tests that ran before.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        for start in range(0, len(sources), BATCH):
            batch = sources[start : start + BATCH]
            targets = [" ".join(words[word] for word in reversed(text.split())) for text in batch]
            pad = model.config.pad_token_id
            ids = _padded([read(text) for text in batch], pad)
            labels = _padded([write(text) for text in targets], -100)
            loss = model(input_ids=ids, attention_mask=ids != pad, labels=labels).loss
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    model.eval()


def _padded(rows: list[list[int]], value: int) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence(
        [torch.tensor(row) for row in rows], batch_first=True, padding_value=value
    )


def write_marian(
    directory: Path,
    *,
    tags: Sequence[str] = (),
    separate: bool = False,
    tied: bool = True,
    safe: bool = True,
    taught: bool = False,
    languages: tuple[str, str] = ("deu", "eng"),
    **changes: Any,
) -> MarianMTModel:
    """A checkpoint in the format of OPUS-MT, with tokenizers trained on a few words."""
    directory.mkdir(parents=True)
    pieces = {
        side: train_spm(
            sentences(side, 200), directory / f"{side}.spm", 60 if side == "source" else 50
        )
        for side in ("source", "target")
    }

    def vocabulary(*sides: str) -> dict[str, int]:
        found = dict.fromkeys(["</s>", "<unk>", *tags])
        for side in sides:
            found |= dict.fromkeys(p for p in pieces[side] if p != "<s>")
        # Remove a piece from the vocabulary, so that it is read as unk.
        del found[pieces[sides[0]][7]]
        return {piece: i for i, piece in enumerate([*found, "<pad>"])}

    vocabularies = (
        [vocabulary("source"), vocabulary("target")]
        if separate
        else [vocabulary("source", "target")]
    )
    for name, vocab in zip(("vocab.json", "target_vocab.json"), vocabularies, strict=False):
        (directory / name).write_text(json.dumps(vocab), encoding="utf-8")
    settings = {
        "source_lang": languages[0],
        "target_lang": languages[1],
        "separate_vocabs": separate,
    }
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    (directory / "README.md").write_text("---\nlicense: cc-by-4.0\n---\n# opus\n", encoding="utf-8")
    target = vocabularies[-1]
    config = MarianConfig(
        **{
            **SIZES,
            "vocab_size": len(vocabularies[0]),
            "decoder_vocab_size": len(target),
            "share_encoder_decoder_embeddings": not separate,
            "tie_word_embeddings": tied,
            "activation_function": "swish",
            "scale_embedding": True,
            "pad_token_id": target["<pad>"],
            "eos_token_id": target["</s>"],
            "decoder_start_token_id": target["<pad>"],
            "forced_eos_token_id": target["</s>"],
            **changes,
        }
    )
    model = MarianMTModel(config).eval()
    randomise(model)
    if taught:
        read, write = (
            _cutter(directory / f"{side}.spm", vocab, "<unk>")
            for side, vocab in (("source", vocabularies[0]), ("target", target))
        )
        eos = vocabularies[0]["</s>"], target["</s>"]
        teach(model, lambda text: [*read(text), eos[0]], lambda text: [*write(text), eos[1]])
    model.generation_config = GenerationConfig(
        num_beams=4,
        early_stopping=True,
        max_length=LONGEST,
        bad_words_ids=[[target["<pad>"]]],
        renormalize_logits=True,
        pad_token_id=target["<pad>"],
        eos_token_id=target["</s>"],
        decoder_start_token_id=target["<pad>"],
        forced_eos_token_id=target["</s>"],
    )
    model.save_pretrained(directory)
    if not safe:
        (directory / "model.safetensors").unlink()
        torch.save(model.state_dict(), directory / "pytorch_model.bin")
    return model


def _cutter(path: Path, vocabulary: Mapping[str, int], unk: str) -> Callable[[str], list[int]]:
    """A tokenizer from text to ids of a vocabulary, like transformers' slow tokenizers."""
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return lambda text: [
        vocabulary.get(piece, vocabulary[unk]) for piece in model.encode(text, out_type=str)
    ]


def _train_shared(directory: Path) -> dict[str, int]:
    """Train one SentencePiece model of both languages; returns its vocabulary."""
    directory.mkdir(parents=True)
    texts = [*sentences("source", 200), *sentences("target", 200)]
    pieces = train_spm(texts, directory / "sentencepiece.bpe.model", 90, model_type="bpe")
    vocab = dict.fromkeys(["<s>", "<pad>", "</s>", "<unk>", *pieces])
    return {piece: i for i, piece in enumerate(vocab)}


def write_m2m100(
    directory: Path, *, taught: bool = False, **changes: Any
) -> M2M100ForConditionalGeneration:
    """A checkpoint in the format of M2M100: one SentencePiece model, then the languages."""
    vocabulary = _train_shared(directory)
    (directory / "vocab.json").write_text(json.dumps(vocabulary), encoding="utf-8")
    special = {"additional_special_tokens": ["__de__", "__en__", "__zh__"]}
    (directory / "special_tokens_map.json").write_text(json.dumps(special), encoding="utf-8")
    return _save_m2m100(directory, vocabulary, taught, changes)


def write_nllb(
    directory: Path, *, taught: bool = False, **changes: Any
) -> M2M100ForConditionalGeneration:
    """A checkpoint in the format of NLLB: every name in ``tokenizer.json``."""
    vocabulary = _train_shared(directory)
    languages = ["deu_Latn", "eng_Latn", "zho_Hant"]
    added = {name: len(vocabulary) + i for i, name in enumerate([*languages, "<mask>"])}
    document = {
        "model": {"type": "BPE", "vocab": vocabulary},
        "added_tokens": [{"id": i, "content": name} for name, i in added.items()],
    }
    (directory / "tokenizer.json").write_text(json.dumps(document), encoding="utf-8")
    settings = {"additional_special_tokens": languages}
    (directory / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return _save_m2m100(directory, vocabulary, taught, changes)


def _save_m2m100(
    directory: Path, vocabulary: Mapping[str, int], taught: bool, changes: dict[str, Any]
) -> M2M100ForConditionalGeneration:
    # Three languages after the pieces, and one more row.
    config = M2M100Config(**{**SIZES, "vocab_size": len(vocabulary) + 4, **changes})
    model = M2M100ForConditionalGeneration(config).eval()
    randomise(model)
    if taught:
        cut = _cutter(directory / "sentencepiece.bpe.model", vocabulary, "<unk>")
        source, target = len(vocabulary), len(vocabulary) + 1
        teach(
            model,
            lambda text: [source, *cut(text), config.eos_token_id],
            lambda text: [target, *cut(text), config.eos_token_id],
        )
    model.generation_config = GenerationConfig(
        num_beams=4,
        early_stopping=True,
        max_length=LONGEST,
        pad_token_id=1,
        eos_token_id=2,
        bos_token_id=0,
        decoder_start_token_id=2,
    )
    model.save_pretrained(directory)
    return model


class Harmful:
    """Creates a file when it is unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (Path("harm"),)
