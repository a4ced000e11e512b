"""The two clients have the same interface, and the package imports nothing of the service."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import dragoman
from dragoman import AsyncClient, AsyncStream, Client, Stream, endpoints, inspection
from dragoman.request import Call

ROOT = Path(__file__).parents[2]

RENAMED = {"aclose": "close", "__aenter__": "__enter__", "__aexit__": "__exit__",
           "__aiter__": "__iter__", "__anext__": "__next__"}  # fmt: skip


def methods(client: type) -> dict[str, Any]:
    return {
        RENAMED.get(name, name): member
        for name, member in vars(client).items()
        if inspect.isfunction(member) and not re.match(r"_[a-z]", name)
    }


def plain(said: object) -> str:
    """An asynchronous signature, rewritten as the synchronous one."""
    text = re.sub(r"Iterable\[str\] \| AsyncIterable\[str\]", "Iterable[str]", str(said))
    text = re.sub(r"(?:Async)?Generator\[(\w+)(?:, None)+\]", r"Iterator[\1]", text)
    text = re.sub(r"Callable\[\[float\], Awaitable\[object\]\]", "Callable[[float], object]", text)
    text = re.sub(r"<function sleep at \w+>|<built-in function sleep>", "sleep", text)
    return text.replace("Async", "")


def test_both_clients_have_the_same_methods_and_parameters() -> None:
    for one, other in ((Client, AsyncClient), (Stream, AsyncStream)):
        ours, twin = methods(one), methods(other)
        assert set(ours) == set(twin)
        for name, method in ours.items():
            assert plain(inspect.signature(twin[name])) == plain(inspect.signature(method)), name


def test_both_clients_are_documented_alike() -> None:
    twin = methods(AsyncClient)
    for name, method in methods(Client).items():
        if name.startswith("__"):
            continue
        assert method.__doc__, name
        # Only the effect of stopping early differs.
        if name != "translate_many":
            assert twin[name].__doc__ == method.__doc__
        same = method.__doc__.partition("Stopping early")[0]
        assert twin[name].__doc__.partition("Stopping early")[0] == same


def test_every_endpoint_is_a_method_and_a_coroutine_if_asynchronous() -> None:
    builders = {
        name
        for module in (endpoints, inspection)
        for name, member in vars(module).items()
        if inspect.isfunction(member)
        and member.__module__ == module.__name__
        and not name.startswith("_")
    }
    assert builders == set(methods(Client)) & builders
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
        found = subprocess.run(
            [sys.executable, "-c", program.format(module, absent)],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == "[]"
