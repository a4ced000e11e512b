"""Answers about translation memories, in DeepL's format."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from service.api.fields.schemas import Answer
from service.state.memories import MemoryJob, StoredMemory
from service.state.tmx import MemoryUnit
from service.text.memory.memory_index import MemoryMatch, Use


class MemoryAnswer(Answer):
    translation_memory_id: str
    name: str
    source_language: str = Field(examples=["de"])
    target_languages: list[str]
    segment_count: int
    creation_time: str
    updated_time: str


class MemoriesAnswer(Answer):
    translation_memories: list[MemoryAnswer]
    total_count: int


class TargetSegment(Answer):
    target_segment_id: str
    target_language: str
    target_text: str


class SourceSegment(Answer):
    source_segment_id: str
    source_text: str
    targets: list[TargetSegment]


class SegmentsAnswer(Answer):
    segments: list[SourceSegment]
    segment_count: int = Field(description="Of the whole memory.")
    next_page_cursor: str | None = Field(None, description="Only if there is another page.")


class ImportAnswer(Answer):
    job_id: str
    upload_url: str
    expires_at: str


class ExportAnswer(Answer):
    job_id: str
    parameters: dict[str, str]


class JobResult(Answer):
    status: str = Field(description="`awaiting_input`, `completed` or `failed`.")
    status_metadata: dict[str, str] | None = None
    translation_memory_id: str | None = None
    skipped_segment_count: int | None = None
    download_url: str | None = None
    expires_at: str | None = None
    error: dict[str, str] | None = None


class JobAnswer(Answer):
    job_id: str
    operation: str = Field(description="`import` or `export`.")
    product: str = Field(examples=["translation_memory"])
    creation_time: str
    parameters: dict[str, str]
    results: list[JobResult] = Field(description="One.")


class MemoryMatchAnswer(Answer):
    source: str
    target: str
    score: int = Field(description="Similarity in percent; 100 is an equal source.")
    use: Use = Field(description="`none`: the sentence was translated without it.")


def timestamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def described(memory: StoredMemory) -> MemoryAnswer:
    return MemoryAnswer(
        translation_memory_id=memory.id,
        name=memory.name,
        source_language=memory.source,
        target_languages=list(memory.targets),
        segment_count=memory.unit_count,
        creation_time=timestamp(memory.created),
        updated_time=timestamp(memory.created),
    )


def described_job(job: MemoryJob, download_url: str) -> JobAnswer:
    result: dict[str, Any]
    parameters = {"display_name": job.name}
    if job.operation == "export":
        parameters = {"translation_memory_id": job.memory or ""}
        result = {"status": "completed", "download_url": download_url}
        result["expires_at"] = timestamp(job.ends)
    elif job.error is not None:
        result = {"status": "failed", "error": {"message": job.error}}
    elif job.memory is not None:
        result = {"status": "completed", "translation_memory_id": job.memory}
        result["skipped_segment_count"] = job.skipped
    else:
        action = {"required_action": "send the file to the upload_url"}
        result = {"status": "awaiting_input", "status_metadata": action}
    return JobAnswer(
        job_id=job.id,
        operation=job.operation,
        product="translation_memory",
        creation_time=timestamp(job.created),
        parameters=parameters,
        results=[JobResult(**result)],
    )


def segment_of(memory: StoredMemory, number: int, unit: MemoryUnit) -> SourceSegment:
    identifier = f"{memory.id}-{number}"
    source, targets = unit
    return SourceSegment(
        source_segment_id=identifier,
        source_text=source,
        targets=[
            TargetSegment(
                target_segment_id=f"{identifier}-{code}", target_language=code, target_text=text
            )
            for code, text in targets.items()
        ],
    )


def matches_of(matches: tuple[MemoryMatch, ...]) -> list[MemoryMatchAnswer]:
    return [
        MemoryMatchAnswer(
            source=each.unit.source, target=each.unit.target, score=each.score, use=each.use
        )
        for each in matches
    ]
