"""Tests of the clients' methods, and that the package imports nothing of the service."""

from __future__ import annotations

import inspect

import dragoman
from dragoman import AsyncClient, Client, endpoints, inspection
from dragoman.request import Call
from tests.support.programs import ROOT, python
from tools.generate_client import GENERATED, synchronous


def test_synchronous_client_is_generated_from_the_asynchronous() -> None:
    assert GENERATED.read_text(encoding="utf-8") == synchronous(), (
        "run: python -m tools.generate_client"
    )


def test_every_endpoint_is_a_method_and_a_coroutine_if_asynchronous() -> None:
    builders = {
        name
        for module in (endpoints, inspection)
        for name, member in vars(module).items()
        if inspect.isfunction(member)
        and member.__module__ == module.__name__
        and not name.startswith("_")
    }
    for name in builders:
        assert inspect.iscoroutinefunction(getattr(AsyncClient, name))
        assert not inspect.iscoroutinefunction(getattr(Client, name))
        signature = inspect.signature(getattr(Client(), name))
        assert Call.__name__ not in str(signature.return_annotation)
        assert "self" not in signature.parameters


def test_public_names_are_exported_and_typed() -> None:
    assert (ROOT / "dragoman" / "py.typed").exists()
    for name in dragoman.__all__:
        assert getattr(dragoman, name).__doc__, name
    defined = {
        name
        for module in (dragoman.answers, dragoman.errors)
        for name, member in vars(module).items()
        if inspect.isclass(member) and member.__module__ == module.__name__
    }
    assert defined <= set(dragoman.__all__)


def test_client_and_service_do_not_import_each_other() -> None:
    program = (
        "import sys, {}; print(sorted({{name.partition('.')[0] for name in sys.modules}} & {}))"
    )
    for module, absent in (
        ("dragoman", {"service", "models", "training", "pydantic", "fastapi", "onnxruntime"}),
        ("service.bootstrap", {"dragoman"}),
    ):
        assert python("-c", program.format(module, absent)).strip() == "[]"
