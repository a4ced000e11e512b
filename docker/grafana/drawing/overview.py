"""Overview dashboard: traffic, latency, queue and batch, failures, models and machines."""

from __future__ import annotations

from parts import M, Panel, Query, Row, S
from queries import (
    DURATION,
    FAULT_SHARE,
    REQUESTS,
    TRANSLATING,
    mean,
    quantile,
    quantiles,
    rate,
    rates_by,
)

NOW = Row(
    "Now",
    [
        Panel(
            "Ready",
            "Instances whose /readyz answers 200, and those that answer Prometheus at all.",
            [
                Query(f"sum(nmt_ready{{{S}}})", "ready"),
                Query(f"count(nmt_ready{{{S}}})", "running"),
            ],
            kind="stat",
            steps=((None, "red"), (1, "green")),
        ),
        Panel(
            "Alerts",
            "Alerts of Dragoman that fire; docs/operations.md says what to do.",
            [
                Query(
                    'count(ALERTS{alertname=~"Dragoman.+",alertstate="firing"}) or vector(0)',
                    "firing",
                )
            ],
            kind="stat",
            steps=((None, "green"), (1, "red")),
        ),
        Panel(
            "Requests",
            "Answered in a second, probes left out.",
            [Query(f"sum({rate(REQUESTS)})")],
            "reqps",
            "stat",
        ),
        Panel(
            "Sentences",
            "Translated in a second; results that were remembered are not among them.",
            [Query(f"sum({rate(f'nmt_finished_sentences_total{{{M}}}')})")],
            "ops",
            "stat",
        ),
        Panel(
            "Time to answer, p99",
            "Of requests for translations. The objective is 99 % within 2 s.",
            [Query(quantile(0.99, DURATION, f"{S},{TRANSLATING}"))],
            "s",
            "stat",
            steps=((None, "green"), (1, "yellow"), (2, "red")),
        ),
        Panel(
            "Failing",
            "Share of requests that failed and are not to blame.",
            [Query(FAULT_SHARE)],
            "percentunit",
            "stat",
            steps=((None, "green"), (0.001, "yellow"), (0.01, "red")),
        ),
        Panel(
            "Waiting",
            "Sentences that wait for a slot.",
            [Query(f"sum(nmt_sentences_waiting{{{M}}})")],
            kind="stat",
            steps=((None, "green"), (200, "yellow"), (1000, "red")),
        ),
        Panel(
            "Target tokens",
            "Written in a second, of the translations returned.",
            [Query(f"sum({rate(f'nmt_target_tokens_total{{{M}}}')})")],
            "ops",
            "stat",
        ),
    ],
    across=8,
    height=4,
)

HOW_MANY = Row(
    "How many, how fast",
    [
        Panel(
            "Requests by what became of them",
            "Probes left out. rejected: full, limited, without a key, or draining.",
            [rates_by("outcome", REQUESTS)],
            "reqps",
            stacked=True,
        ),
        Panel(
            "Time to answer",
            "Of requests for translations, refusals among them. Dots are traced requests.",
            quantiles(DURATION, f"{S},{TRANSLATING}", exemplars=True),
            "s",
            steps=((None, "transparent"), (2, "red")),
        ),
        Panel(
            "Refusals and failures by cause",
            "overloaded: the queue is full. deadline: waited too long. disconnect: hung up.",
            [rates_by("reason", f"nmt_request_failures_total{{{S}}}")],
            "reqps",
            stacked=True,
        ),
        Panel(
            "Requests by route",
            "Probes left out.",
            [rates_by("route", REQUESTS)],
            "reqps",
            stacked=True,
        ),
        Panel(
            "Sentences by model",
            "Translated in a second.",
            [rates_by("model", f"nmt_finished_sentences_total{{{M}}}")],
            "ops",
            stacked=True,
        ),
        Panel(
            "Slower than the objective",
            "Share of requests for translations that took longer than 2 s, of all instances. "
            "Alerts fire at 14.4 % for an hour, and at 6 % for six.",
            [
                Query(f'job:nmt_requests_slow:ratio_rate{window}{{job="$job"}}', window)
                for window in ("5m", "1h", "6h")
            ],
            "percentunit",
            steps=((None, "transparent"), (0.01, "red")),
        ),
    ],
)

WAITING = Row(
    "How long they wait, how full the batches are",
    [
        Panel(
            "Time waited for a slot",
            "Of sentences, from the request's arrival at the engine to its place in the batch.",
            quantiles("nmt_queue_duration_seconds", M),
            "s",
        ),
        Panel(
            "Sentences in the engine",
            "Running are in the batch; waiting have no slot yet.",
            [
                Query(f"sum(nmt_sentences_running{{{M}}})", "running"),
                Query(f"sum(nmt_sentences_waiting{{{M}}})", "waiting"),
            ],
            stacked=True,
        ),
        Panel(
            "Source tokens waiting",
            "By model. DRAGOMAN_MAX_QUEUE_TOKENS bounds what is accepted and not yet translated.",
            [Query(f"sum by (model) (nmt_queue_tokens{{{M}}})", "{{model}}")],
            stacked=True,
        ),
        Panel(
            "Rows in a step",
            "Hypotheses extended together: sentences times the beam.",
            [
                Query(mean("nmt_batch_size", M), "mean"),
                Query(quantile(0.95, "nmt_batch_size", M), "p95"),
            ],
        ),
        Panel(
            "Padding",
            "Share of what the encoder reads that is padding.",
            [Query(mean("nmt_batch_padding_ratio", M), "mean")],
            "percentunit",
            maximum=1,
        ),
        Panel(
            "Tokens",
            "Of sources and of the translations returned, in a second.",
            [
                Query(f"sum({rate(f'nmt_source_tokens_total{{{M}}}')})", "source"),
                Query(f"sum({rate(f'nmt_target_tokens_total{{{M}}}')})", "target"),
            ],
            "ops",
        ),
        Panel(
            "Joining the batch",
            "Batching is continuous where sentences join a batch that is running.",
            [rates_by("batch", f"nmt_batch_joins_total{{{M}}}")],
            "ops",
            stacked=True,
        ),
        Panel(
            "Leaving the batch",
            "preempted: back to the line, because memory for keys and values was short.",
            [
                Query(
                    f"sum by (reason, batch) ({rate(f'nmt_batch_retires_total{{{M}}}')})",
                    "{{reason}}, others {{batch}}",
                )
            ],
            "ops",
            stacked=True,
        ),
        Panel(
            "Why searches end",
            "complete: with the end of the sentence. length: at the longest allowed.",
            [rates_by("finish_reason", f"nmt_finished_sentences_total{{{M}}}")],
            "ops",
            stacked=True,
        ),
    ],
)

ON_OFFER = Row(
    "What is remembered, what is on offer",
    [
        Panel(
            "Sentences asked for",
            "hit: a recent result. coalesced: in flight for another request. miss: new.",
            [rates_by("result", f"nmt_cache_lookups_total{{{M}}}")],
            "ops",
            stacked=True,
        ),
        Panel(
            "Reloads",
            "Comparisons with the bundle directory in five minutes, by what came of them.",
            [
                Query(
                    f"sum by (outcome) (increase(nmt_reloads_total{{{S}}}[5m]))",
                    "{{outcome}}",
                )
            ],
        ),
        Panel(
            "Bundles that cannot be loaded",
            "/readyz names them and says why.",
            [Query(f"nmt_bundles_failed{{{S}}}", "{{instance}}")],
            steps=((None, "transparent"), (1, "red")),
        ),
        Panel(
            "Models",
            "On offer, with what each instance runs.",
            [Query(f"nmt_model_info{{{M}}}", kind="table")],
            kind="table",
            minimum=None,
        ),
    ],
)

MACHINES = Row(
    "Machines",
    [
        Panel(
            "Keys and values",
            "Share taken of what they may take, DRAGOMAN_CACHE_MEGABYTES.",
            [
                Query(
                    f"sum by (instance, model) (nmt_kv_cache_bytes{{{M}}})"
                    f" / sum by (instance, model) (nmt_kv_cache_limit_bytes{{{M}}})",
                    "{{model}} {{instance}}",
                )
            ],
            "percentunit",
            maximum=1,
        ),
        Panel(
            "Engine busy",
            "Share of time that engines compute. 1 is normal under load: more sentences then only "
            "make the batches fuller.",
            [
                Query(
                    f"sum by (instance, model) ({rate(f'nmt_engine_busy_seconds_total{{{M}}}')})",
                    "{{model}} {{instance}}",
                )
            ],
            "percentunit",
        ),
        Panel(
            "GPU busy",
            "Share of time in which the GPU computed, as NVML tells.",
            [Query(f"nmt_device_utilization_ratio{{{S}}}", "{{instance}} {{device}}")],
            "percentunit",
            maximum=1,
            empty="models run on a CPU",
        ),
        Panel(
            "GPU memory",
            "Taken, by whomever, and how much there is.",
            [Query(f"nmt_device_memory_bytes{{{S}}}", "{{kind}} {{instance}} {{device}}")],
            "bytes",
            empty="models run on a CPU",
        ),
        Panel(
            "Memory of the process",
            "Resident.",
            [Query(f"process_resident_memory_bytes{{{S}}}", "{{instance}}")],
            "bytes",
        ),
        Panel(
            "Processor",
            "Cores that the process keeps busy.",
            [Query(rate(f"process_cpu_seconds_total{{{S}}}"), "{{instance}}")],
        ),
    ],
)

ROWS = (NOW, HOW_MANY, WAITING, MACHINES, ON_OFFER)
