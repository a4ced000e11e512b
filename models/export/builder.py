"""Builder of ONNX graphs, with weights in one external file that several graphs share."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from models.bundle.graphs import Signature, TensorType

OPSET = 21
IR_VERSION = 10
MICROSOFT = "com.microsoft"
ELEMENTS = {
    "float": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "int32": TensorProto.INT32,
    "int64": TensorProto.INT64,
    "bool": TensorProto.BOOL,
}
ALIGNMENT = 64
PAGE = 4096
"""Page size in bytes. Large weights are page-aligned, so that a runtime may map them."""
LARGE = 16 * PAGE


@dataclass(slots=True)
class WeightFile:
    """The weights of one precision, each stored once for all graphs."""

    name: str
    arrays: dict[str, NDArray[np.generic]] = field(default_factory=dict)
    _offsets: dict[str, int] = field(default_factory=dict)
    _end: int = 0

    def add(self, name: str, array: NDArray[np.generic]) -> None:
        if name in self.arrays:
            raise ValueError(f"weight {name} is there already")
        alignment = PAGE if array.nbytes >= LARGE else ALIGNMENT
        self.arrays[name] = np.ascontiguousarray(array)
        self._offsets[name] = -(-self._end // alignment) * alignment
        self._end = self._offsets[name] + array.nbytes

    def write(self, path: Path) -> None:
        with path.open("wb") as file:
            for name, array in self.arrays.items():
                file.seek(self._offsets[name])
                file.write(np.ascontiguousarray(array).data)

    def initializer(self, name: str) -> TensorProto:
        """A tensor that refers to its data in the file."""
        array = self.arrays[name]
        tensor = TensorProto(
            name=name,
            data_type=helper.np_dtype_to_tensor_dtype(array.dtype),
            dims=array.shape,
            data_location=TensorProto.EXTERNAL,
        )
        for key, value in (
            ("location", self.name),
            ("offset", self._offsets[name]),
            ("length", array.nbytes),
        ):
            tensor.external_data.add(key=key, value=str(value))
        return tensor


class GraphBuilder:
    """Collects the nodes of one graph. Values are identified by name; ``op`` returns new names."""

    def __init__(self, weights: WeightFile) -> None:
        self._weights = weights
        self._nodes: list[onnx.NodeProto] = []
        self._used: dict[str, None] = {}
        self._constants: dict[str, TensorProto] = {}
        self._numbers = itertools.count()

    def op(
        self, kind: str, *inputs: str, domain: str = "", into: str = "", **attributes: Any
    ) -> str:
        """Add a node with one output and return its name; an empty input is an omitted one."""
        (output,) = self.ops(kind, *inputs, domain=domain, into=(into,), **attributes)
        return output

    def ops(
        self,
        kind: str,
        *inputs: str,
        into: Sequence[str | None],
        domain: str = "",
        **attributes: Any,
    ) -> list[str]:
        """Add a node with one output for each name in ``into``.

        Empty names are generated. ``None`` omits an output, which is not returned.
        """
        outputs = ["" if name is None else name or f"{kind}_{next(self._numbers)}" for name in into]
        self._nodes.append(
            helper.make_node(
                kind,
                list(inputs),
                outputs,
                name=f"n{next(self._numbers)}_{kind}",
                domain=domain,
                **attributes,
            )
        )
        return [output for output in outputs if output]

    def choose(
        self,
        condition: str,
        then: Callable[[], Sequence[str]],
        otherwise: Callable[[], Sequence[str]],
        into: Sequence[str],
        elements: Sequence[int],
    ) -> list[str]:
        """An If node: the outputs of ``then`` if the scalar is true, else those of ``otherwise``.

        Both return one value for each name in ``into``, of the types in ``elements``.
        """
        then_branch, else_branch = (self._branch(emit, elements) for emit in (then, otherwise))
        return self.ops(
            "If", condition, into=into, then_branch=then_branch, else_branch=else_branch
        )

    def scan(
        self, state: str, inputs: Sequence[str], body: Callable[..., str], element: int, axis: int
    ) -> str:
        """The states after each position along ``axis`` of the inputs, stacked there.

        ``body`` emits the next state from the state and the inputs at one position, all of the type
        ``element``.
        """
        names = [f"scanned_{next(self._numbers)}" for _ in range(len(inputs) + 1)]
        outside, self._nodes = self._nodes, []
        try:
            following = body(*names)
            stacked = self.op("Identity", following)
            formal, results = (
                [helper.make_tensor_value_info(name, element, None) for name in each]
                for each in (names, (following, stacked))
            )
            graph = helper.make_graph(self._nodes, f"body_{next(self._numbers)}", formal, results)
        finally:
            self._nodes = outside
        _, found = self.ops(
            "Scan",
            state,
            *inputs,
            into=["", ""],
            body=graph,
            num_scan_inputs=len(inputs),
            scan_input_axes=[axis] * len(inputs),
            scan_output_axes=[axis],
        )
        return found

    def _branch(
        self, emit: Callable[[], Sequence[str]], elements: Sequence[int]
    ) -> onnx.GraphProto:
        """A subgraph of the nodes that ``emit`` adds; outer values are visible by name."""
        outside, self._nodes = self._nodes, []
        try:
            results = [
                helper.make_tensor_value_info(name, element, None)
                for name, element in zip(emit(), elements, strict=True)
            ]
            return helper.make_graph(self._nodes, f"branch_{next(self._numbers)}", [], results)
        finally:
            self._nodes = outside

    def weight(self, name: str) -> str:
        """A tensor of the shared file."""
        if name not in self._weights.arrays:
            raise KeyError(f"there is no weight {name}")
        self._used[name] = None
        return name

    def has_weight(self, name: str) -> bool:
        return name in self._weights.arrays

    def array(self, name: str) -> NDArray[np.generic]:
        """The value of a weight in the file."""
        return self._weights.arrays[name]

    def dtype(self, name: str) -> np.dtype[Any]:
        """The element type of a weight in the file."""
        return self._weights.arrays[name].dtype

    def constant(self, value: object, dtype: type[np.generic]) -> str:
        """A small tensor stored in the graph itself."""
        array = np.array(value, dtype)
        name = f"constant_{array.dtype}_{'x'.join(map(str, array.shape))}_{array.tolist()}"
        self._constants.setdefault(name, numpy_helper.from_array(array, name))
        return name

    def tensor(self, name: str, array: NDArray[np.generic]) -> str:
        """A tensor stored in the graph itself that is too large to be named by its values."""
        self._constants[name] = numpy_helper.from_array(array, name)
        return name

    def reshape(self, x: str, *shape: int) -> str:
        """Reshape to a fixed shape; 0 keeps a dimension, −1 is inferred."""
        return self.op("Reshape", x, self.ints(*shape))

    def unsqueeze(self, x: str, *axes: int) -> str:
        return self.op("Unsqueeze", x, self.ints(*axes))

    def ints(self, *values: int) -> str:
        return self.constant(values, np.int64)

    def model(self, name: str, signature: Signature) -> onnx.ModelProto:
        graph = helper.make_graph(
            self._nodes,
            name,
            _values(signature.inputs),
            _values(signature.outputs),
            [*self._constants.values(), *map(self._weights.initializer, self._used)],
        )
        return helper.make_model(
            graph,
            opset_imports=[helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)],
            ir_version=IR_VERSION,
            producer_name="dragoman",
        )


def _values(tensors: Mapping[str, TensorType]) -> list[onnx.ValueInfoProto]:
    return [
        helper.make_tensor_value_info(name, ELEMENTS[tensor.element], tensor.shape)
        for name, tensor in tensors.items()
    ]
