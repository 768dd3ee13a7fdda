"""Networks from ONNX files: shapes give multiply-accumulates, parameters and activations of one sample.

Needs the package onnx (extra `onnx`), imported here only. The graph is read without external weights and
is never run. Operators: https://github.com/onnx/onnx/blob/main/docs/Operators.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuselect.catalog import Model
from gpuselect.errors import InputError
from gpuselect.i18n import _
from gpuselect.provenance import Figure

if TYPE_CHECKING:
    from onnx import GraphProto, ModelProto, NodeProto

LARGEST_FILE = 2 * 2**30  # a protobuf message cannot be larger
CONVOLUTIONS = frozenset({"Conv", "ConvInteger", "QLinearConv"})
PRODUCTS = frozenset({"MatMul", "MatMulInteger", "QLinearMatMul"})
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
CONTROL_FLOW = frozenset({"If", "Loop", "Scan"})
WEIGHT_TYPES = frozenset({1, 2, 3, 10, 11, 16, 17, 18, 19, 20, 21, 22, 23})  # floats, (u)int8, fp8, (u)int4
INTEGER_TYPES = frozenset({6, 7})  # int32, int64: token ids
QUANTISED_WEIGHT = {"QLinearConv": 3, "QLinearMatMul": 3}  # input that holds the second operand, if not 1
FEW_CONVOLUTIONS = 0.1  # share of the work below which a network of images is a transformer
DETECTOR_OPERATORS = frozenset({"NonMaxSuppression", "EfficientNMS_TRT", "BatchedNMS_TRT", "TopK"})
DETECTOR_OUTPUTS = 3  # maps of several scales
BOX_DIMS = 3  # of an output with one row per box
IMAGE_DIMS = 4  # NCHW

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Counted:
    """Work of one sample: multiply-accumulates, elements that layers write, layers."""

    macs: float = 0.0
    conv_macs: float = 0.0
    activations: float = 0.0
    operators: int = 0


def read_onnx(path: Path) -> Model:
    """The network of an ONNX file; InputError where it cannot be counted.

    Multiply-accumulates of convolutions, matrix products and recurrent layers; other operators count as
    none. Activations are the elements that these layers write, as in the catalog. An open batch is 1; any
    other open dimension is refused. The family is read from the operators.
    """
    model = _load(path)
    graph = model.graph
    control = sorted({node.op_type for node in graph.node} & CONTROL_FLOW)
    if control:
        text = _("{path}: control flow ({names}) has no fixed amount of work; export the network without it")
        raise InputError(text.format(path=path, names=", ".join(control)))
    shapes = _shapes(model, _inputs(graph), path)
    counts = [_count(node, shapes, path) for node in graph.node]
    counted = Counted(
        sum(c.macs for c in counts), sum(c.conv_macs for c in counts), sum(c.activations for c in counts),
        sum(c.operators for c in counts),
    )  # fmt: skip
    if not counted.macs:
        raise InputError(_("{path}: no convolution, matrix product or recurrent layer").format(path=path))
    samples, shape = _samples(graph, shapes)
    return _as_model(
        path.stem, counted, samples=samples, params=_parameters(graph), shape=shape,
        family=_family(graph, shapes, counted),
    )  # fmt: skip


def _load(path: Path) -> ModelProto:
    """The parsed file without external weights."""
    try:
        import onnx  # an extra
        from google.protobuf.message import DecodeError  # comes with onnx
    except ImportError:
        text = _("{path}: reading ONNX files needs the package onnx; install gpuselect[onnx]")
        raise InputError(text.format(path=path)) from None
    if path.stat().st_size > LARGEST_FILE:
        raise InputError(_("{path}: larger than 2 GiB; keep the weights in external files").format(path=path))
    try:
        return onnx.load(str(path), load_external_data=False)
    except DecodeError:
        raise InputError(_("{path}: not an ONNX file").format(path=path)) from None


def _inputs(graph: GraphProto) -> list[Any]:
    """Inputs that are not weights."""
    weights = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in weights]


def _shapes(model: ModelProto, inputs: Sequence[Any], path: Path) -> dict[str, tuple[int, ...]]:
    """Shape of every tensor, the open batch being 1."""
    from onnx import shape_inference  # an extra

    for value in inputs:
        dims = value.type.tensor_type.shape.dim
        for place, dim in enumerate(dims):
            if dim.HasField("dim_value") and dim.dim_value > 0:
                continue
            if place > 0:
                text = _("{path}: dimension {n} of input {name!r} is open; export it with a fixed shape")
                raise InputError(text.format(path=path, n=place, name=value.name))
            dim.dim_value = 1
    graph = model.graph
    del graph.value_info[:]
    for value in graph.output:
        value.type.tensor_type.ClearField("shape")
    try:
        graph = shape_inference.infer_shapes(model, data_prop=True).graph
    except Exception as error:  # noqa: BLE001  # onnx raises several kinds, none of them documented
        raise InputError(_("{path}: {error}").format(path=path, error=str(error).splitlines()[0])) from None
    found = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for value in (*inputs, *graph.value_info, *graph.output):
        dims = value.type.tensor_type.shape.dim
        if value.type.tensor_type.HasField("shape") and all(dim.HasField("dim_value") for dim in dims):
            found[value.name] = tuple(dim.dim_value for dim in dims)
    return found


def _count(node: NodeProto, shapes: Shapes, path: Path) -> Counted:
    """Work of one operator; none where it multiplies no matrices."""
    kind = node.op_type
    if kind in CONVOLUTIONS:
        weight = _shape(node.input[QUANTISED_WEIGHT.get(kind, 1)], node, shapes, path)
        written = prod(_shape(node.output[0], node, shapes, path))
        macs = written * prod(weight[1:])
        return Counted(macs, macs, written, 1)
    if kind == "ConvTranspose":
        weight = _shape(node.input[1], node, shapes, path)
        macs = prod(_shape(node.input[0], node, shapes, path)) * prod(weight[1:])
        return Counted(macs, macs, prod(_shape(node.output[0], node, shapes, path)), 1)
    if kind in PRODUCTS or kind == "Gemm":
        left = _shape(node.input[0], node, shapes, path)
        depth = left[0] if kind == "Gemm" and _attribute(node, "transA") else left[-1]
        written = prod(_shape(node.output[0], node, shapes, path))
        return Counted(written * depth, 0, written, 1)
    if kind in GATES:
        length, batch, _width = _shape(node.input[0], node, shapes, path)
        directions, rows, width = _shape(node.input[1], node, shapes, path)
        hidden = rows // GATES[kind]
        macs = length * batch * directions * rows * (width + hidden)
        return Counted(macs, 0, length * batch * directions * hidden, 2 * directions)
    return Counted()


def _shape(name: str, node: NodeProto, shapes: Shapes, path: Path) -> tuple[int, ...]:
    if name in shapes:
        return shapes[name]
    text = _("{path}: the shape of {name!r} at {node} is not known; export it with fixed shapes")
    raise InputError(text.format(path=path, name=name, node=node.name or node.op_type))


def _attribute(node: NodeProto, name: str) -> int:
    return next((item.i for item in node.attribute if item.name == name), 0)


def _parameters(graph: GraphProto) -> float:
    """Elements of the weights: initialisers and constants that are floating or quantised tensors."""
    constants = (
        item.t for node in graph.node if node.op_type == "Constant" for item in node.attribute
        if item.name == "value"
    )  # fmt: skip
    tensors: Iterable[Any] = (*graph.initializer, *constants)
    return float(sum(prod(t.dims) for t in tensors if t.data_type in WEIGHT_TYPES and len(t.dims) > 0))


def _samples(graph: GraphProto, shapes: Shapes) -> tuple[int, tuple[int, ...]]:
    """The batch that the graph is written for, and its first input with the batch in front."""
    for node in graph.node:
        if node.op_type in GATES:  # whose inputs are [steps, batch, width], whatever the graph's own are
            length, batch, width = shapes[node.input[0]]
            return batch, (batch, length, width)
    found = [shapes[value.name] for value in _inputs(graph) if len(shapes[value.name]) > 1]
    return (found[0][0], found[0]) if found else (1, ())


def _family(graph: GraphProto, shapes: Shapes, counted: Counted) -> str:
    """What kind of network the operators make up."""
    inputs = _inputs(graph)
    kinds = {node.op_type for node in graph.node}
    if kinds & set(GATES):
        return "rnn"
    tokens = any(value.type.tensor_type.elem_type in INTEGER_TYPES for value in inputs)
    images = any(len(shapes[value.name]) == IMAGE_DIMS for value in inputs)
    if images and len(inputs) > 1 and "Softmax" in kinds:
        return "diffusion-unet" if counted.conv_macs > FEW_CONVOLUTIONS * counted.macs else "diffusion-dit"
    if counted.conv_macs < FEW_CONVOLUTIONS * counted.macs:
        return "vit" if images and not tokens else "encoder"
    if kinds & DETECTOR_OPERATORS or len(graph.output) >= DETECTOR_OUTPUTS:
        return "detector"
    boxes = any(len(shapes.get(value.name, ())) == BOX_DIMS for value in graph.output)
    return "detector" if boxes else "cnn"


def _as_model(
    name: str, counted: Counted, *, samples: int, params: float, family: str, shape: tuple[int, ...]
) -> Model:
    """Counts of one sample as a model of the catalog."""
    figures = {
        "params_b": params / 1e9, "gmacs_per_sample": counted.macs / samples / 1e9,
        "activations_m": counted.activations / samples / 1e6, "operators": float(counted.operators),
    }  # fmt: skip
    if len(shape) == IMAGE_DIMS and shape[2] == shape[3]:
        figures["image_size"] = float(shape[2])
    elif len(shape) in (2, 3) and family in ("encoder", "rnn"):
        figures["sequence_length"] = float(shape[1])
    return Model(
        id=name, name=name, family=family, sources={"file": ("local-file", name)},
        **{key: Figure(value, source="file", status="derived") for key, value in figures.items()},
    )  # fmt: skip
