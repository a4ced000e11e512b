"""Engine dashboard: request stages, distributions, iterations and the process."""

from __future__ import annotations

from parts import M, Panel, Query, Row, S
from queries import (
    DURATION,
    QUANTILES,
    TRANSLATING,
    heatmap,
    quantile,
    rate,
    rates_by,
)

STAGES = Row(
    "Where the time goes",
    [
        Panel(
            f"Stages, {text}",
            "Of what one request or sentence takes; a step is one token of every running sentence.",
            [
                Query(quantile(share, f"nmt_{name}_duration_seconds", M), legend)
                for name, legend in (
                    ("tokenize", "tokenize"),
                    ("queue", "wait"),
                    ("encode", "encode"),
                    ("decode_step", "step"),
                )
            ],
            "s",
        )
        for share, text in QUANTILES
    ],
)

SHAPES = Row(
    "Shapes",
    [
        heatmap(
            "Time to answer",
            "Requests for translations, by seconds.",
            DURATION,
            f"{S},{TRANSLATING}",
            "s",
        ),
        heatmap("Time of a step", "Steps, by seconds.", "nmt_decode_step_duration_seconds", M, "s"),
        heatmap("Rows in a step", "Steps, by hypotheses.", "nmt_batch_size", M, "short"),
        heatmap(
            "Length of sources", "Sentences, by tokens.", "nmt_source_length_tokens", M, "short"
        ),
        heatmap(
            "Length of translations",
            "Sentences, by tokens.",
            "nmt_target_length_tokens",
            M,
            "short",
        ),
        heatmap(
            "Length ratio",
            "Sentences, by tokens of the translation for each of the source.",
            "nmt_length_ratio",
            M,
            "short",
        ),
    ],
)

WORK = Row(
    "Work",
    [
        Panel(
            "Iterations",
            "Encodes and steps in a second.",
            [
                Query(f"sum({rate(f'nmt_encode_duration_seconds_count{{{M}}}')})", "encodes"),
                Query(f"sum({rate(f'nmt_decode_step_duration_seconds_count{{{M}}}')})", "steps"),
            ],
            "ops",
        ),
        Panel(
            "Characters",
            "Of source text translated, in a second.",
            [rates_by("model", f"nmt_characters_total{{{M}}}")],
            "ops",
            stacked=True,
        ),
        Panel(
            "Sentences that start over",
            "For want of memory, in a second.",
            [rates_by("model", f'nmt_batch_retires_total{{{M},reason="preempted"}}')],
            "ops",
        ),
        Panel(
            "Requests being answered",
            "At the moment of the scrape, the scrape among them.",
            [Query(f"nmt_requests_running{{{S}}}", "{{instance}}")],
        ),
        Panel(
            "The books",
            "Accepted less answered less running; anything but 0 is a bug.",
            [
                Query(
                    f"sum by (instance) (nmt_requests_accepted_total{{{S}}})"
                    f" - sum by (instance) (nmt_requests_total{{{S}}})"
                    f" - sum by (instance) (nmt_requests_running{{{S}}})",
                    "{{instance}}",
                )
            ],
            minimum=None,
        ),
        Panel(
            "Deaths of engines",
            "Since the process started.",
            [
                Query(
                    f"sum by (instance, model) (nmt_engine_deaths_total{{{M}}})",
                    "{{model}} {{instance}}",
                )
            ],
            steps=((None, "transparent"), (1, "red")),
        ),
    ],
)

PROCESS = Row(
    "Process",
    [
        Panel(
            "Time to load a bundle",
            "Mean since the process started.",
            [
                Query(
                    f"sum by (model) (nmt_model_load_duration_seconds_sum{{{M}}})"
                    f" / sum by (model) (nmt_model_load_duration_seconds_count{{{M}}})",
                    "{{model}}",
                )
            ],
            "s",
        ),
        Panel(
            "Since the last good reload",
            "Grows while a bundle cannot be loaded, and where DRAGOMAN_RELOAD_SECONDS is 0.",
            [Query(f"time() - nmt_reload_success_timestamp_seconds{{{S}}}", "{{instance}}")],
            "s",
        ),
        Panel(
            "Translations with attention",
            "Kept, so that it may be asked for.",
            [
                Query(f"sum(nmt_attention_store_entries{{{S}}})", "kept"),
                Query(
                    f"sum(increase(nmt_attention_evictions_total{{{S}}}[5m]))",
                    "forgotten in five minutes",
                ),
            ],
        ),
        Panel(
            "Memory of translations with attention",
            "By estimate; DRAGOMAN_ATTENTION_MEGABYTES bounds it.",
            [Query(f"nmt_attention_store_bytes{{{S}}}", "{{instance}}")],
            "bytes",
        ),
        Panel(
            "Open files and connections",
            "Of those that the process may open.",
            [
                Query(f"process_open_fds{{{S}}} / process_max_fds{{{S}}}", "{{instance}}"),
            ],
            "percentunit",
        ),
        Panel(
            "Garbage collections",
            "Of Python, by generation, in a second.",
            [rates_by("generation", f"python_gc_collections_total{{{S}}}")],
            "ops",
        ),
        Panel(
            "Versions",
            "Of the service, by instance.",
            [Query(f"nmt_build_info{{{S}}}", kind="table")],
            kind="table",
            minimum=None,
        ),
    ],
)

ROWS = (STAGES, SHAPES, WORK, PROCESS)
