"""Hypothesis strategies for decoding options."""

from __future__ import annotations

from hypothesis import strategies as st

from service.engine.types import DecodingOptions

MAX_ROWS = 5
sometimes = st.sampled_from([False, False, True])


@st.composite
def plain_options(draw: st.DrawFn) -> DecodingOptions:
    beam_size = draw(st.integers(1, MAX_ROWS))
    return DecodingOptions(
        beam_size=beam_size,
        num_hypotheses=draw(st.integers(1, beam_size)),
        max_decoding_length=draw(st.integers(1, 10)),
        length_penalty=draw(st.sampled_from([0.0, 0.6, 1.0])),
    )


@st.composite
def any_options(draw: st.DrawFn, tokens: st.SearchStrategy[int]) -> DecodingOptions:
    def maybe(strategy: st.SearchStrategy, otherwise: object) -> object:
        return draw(strategy) if draw(sometimes) else otherwise

    samples = draw(sometimes)
    beam_size = 1 if samples else draw(st.integers(1, MAX_ROWS))
    patience = 1.0 if samples else draw(st.sampled_from([0.5, 1.0, 1.0, 2.0]))
    most = MAX_ROWS if samples else max(1, int(beam_size * patience + 0.5))
    max_length = draw(st.integers(1, 10))
    prefix = maybe(st.lists(tokens, max_size=max_length - 1).map(tuple), ())
    assert isinstance(prefix, tuple)
    return DecodingOptions(
        beam_size=beam_size,
        patience=patience,
        num_hypotheses=draw(st.integers(1, most)),
        length_penalty=draw(st.sampled_from([-0.5, 0.0, 0.6, 1.0])),
        length_normalisation=draw(st.sampled_from(["power", "gnmt"])),
        coverage_penalty=0.0 if samples else maybe(st.floats(0, 1), 0.0),
        repetition_penalty=maybe(st.sampled_from([0.5, 1.3, 3.0]), 1.0),
        no_repeat_ngram_size=maybe(st.integers(1, 3), 0),
        disable_unk=draw(sometimes),
        suppress_sequences=maybe(
            st.lists(
                st.lists(st.integers(2, 11), min_size=1, max_size=3).map(tuple), max_size=3
            ).map(tuple),
            (),
        ),
        target_prefix=prefix,
        forced_prefix_length=maybe(st.integers(0, len(prefix)), 0),
        prefix_bias_beta=0.0 if samples else maybe(st.sampled_from([0.2, 0.9]), 0.0),
        min_decoding_length=draw(st.integers(0, min(3, max_length))),
        max_decoding_length=max_length,
        sampling_topk=draw(st.sampled_from([0, 2, 5])) if samples else 1,
        sampling_topp=draw(st.sampled_from([0.5, 0.9, 1.0])),
        sampling_temperature=draw(st.sampled_from([0.5, 1.0, 2.0])),
        seed=draw(st.integers(0, 2**64 - 1)),
    )
