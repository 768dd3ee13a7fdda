"""Networks from ONNX files and from stated counts: work, refusals, and an answer of the command."""

import onnx
import pytest
from onnx import TensorProto, helper

from gpuselect.advisor import estimate
from gpuselect.cli import main
from gpuselect.errors import InputError
from gpuselect.network_job import network_model
from gpuselect.readers.calibration import load_calibration, load_defaults
from gpuselect.readers.catalog import load_catalog
from gpuselect.readers.onnx_model import read_onnx
from gpuselect.workload import Workload


def tensor(name, *shape, kind=TensorProto.FLOAT):
    """An input or an output."""
    return helper.make_tensor_value_info(name, kind, shape)


def weight(name, *shape, kind=TensorProto.FLOAT):
    """An initialiser of zeros."""
    size = 1
    for dim in shape:
        size *= dim
    return helper.make_tensor(name, kind, shape, [0.0] * size)


@pytest.fixture
def write(tmp_path):
    """Write a graph and return its path."""

    def save(nodes, inputs, outputs, weights=(), name="net.onnx"):
        graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=list(weights))
        path = tmp_path / name
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
        return path

    return save


def conv_net(write, *, batch=1, group=1, side=32, **keys):
    """One 3 x 3 convolution from 8 to 16 channels, then a linear layer of 10."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1], strides=[2, 2], group=group),
        helper.make_node("GlobalAveragePool", ["y"], ["p"]),
        helper.make_node("Flatten", ["p"], ["f"]),
        helper.make_node("Gemm", ["f", "v"], ["z"]),
    ]
    weights = [weight("w", 16, 8 // group, 3, 3), weight("v", 16, 10)]
    return write(nodes, [tensor("x", batch, 8, side, side)], [tensor("z", batch, 10)], weights, **keys)


@pytest.mark.parametrize("group", [1, 4])
@pytest.mark.parametrize("batch", [1, 4, "n"])
def test_a_convolution_counts_what_it_multiplies(write, group, batch):
    """16 x 16 outputs of 16 channels, 9 x 8 / group products each, and a layer of 16 x 10."""
    model = read_onnx(conv_net(write, group=group, batch=batch))
    written = 16 * 16 * 16
    assert float(model.gmacs_per_sample) == pytest.approx((written * 9 * 8 / group + 160) / 1e9)
    assert float(model.activations_m) == pytest.approx((written + 10) / 1e6)
    assert float(model.params_b) == pytest.approx((16 * 8 / group * 9 + 160) / 1e9)
    assert (model.family, model.image_size, model.operators) == ("cnn", 32, 2)


def test_attention_counts_scores_and_values(write):
    """Products without a weight count too: 2 x 12 x 20 x 20 x 64 here, beside 20 x 768 x 768."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["h"]),
        helper.make_node("MatMul", ["q", "k"], ["s"]),
        helper.make_node("MatMul", ["s", "v"], ["o"]),
    ]
    inputs = [tensor("x", 1, 20, 768), tensor("q", 1, 12, 20, 64), tensor("k", 1, 12, 64, 20),
              tensor("v", 1, 12, 20, 64)]  # fmt: skip
    outputs = [tensor("h", 1, 20, 768), tensor("o", 1, 12, 20, 64)]
    model = read_onnx(write(nodes, inputs, outputs, [weight("w", 768, 768)]))
    assert float(model.gmacs_per_sample) == pytest.approx((20 * 768**2 + 2 * 12 * 20 * 20 * 64) / 1e9)


def test_a_recurrent_layer_counts_its_gates(write):
    """LSTM: four gates of (inputs + hidden) x hidden at each of 50 steps, both directions."""
    node = helper.make_node("LSTM", ["x", "w", "r"], ["y"], hidden_size=32, direction="bidirectional")
    weights = [weight("w", 2, 128, 40), weight("r", 2, 128, 32)]
    model = read_onnx(write([node], [tensor("x", 50, 1, 40)], [tensor("y", 50, 2, 1, 32)], weights))
    assert float(model.gmacs_per_sample) == pytest.approx(2 * 50 * 128 * (40 + 32) / 1e9)
    assert model.family == "rnn"


def test_boxes_make_a_detector(write):
    """An output with one row per box."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["y"]),
        helper.make_node("Reshape", ["y", "s"], ["z"]),
    ]
    shape = helper.make_tensor("s", TensorProto.INT64, [3], [1, 85, -1])
    path = write(
        nodes, [tensor("x", 1, 3, 64, 64)], [tensor("z", 1, 85, 4096)], [weight("w", 85, 3, 1, 1), shape]
    )
    assert read_onnx(path).family == "detector"


def test_what_cannot_be_counted_is_refused(write, tmp_path):
    """An open height, control flow, no layers, no ONNX file: one sentence each."""
    with pytest.raises(InputError, match="dimension 2 of input 'x' is open"):
        read_onnx(conv_net(write, side="h"))
    with pytest.raises(InputError, match="no convolution, matrix product"):
        read_onnx(write([helper.make_node("Relu", ["x"], ["y"])], [tensor("x", 1, 4)], [tensor("y", 1, 4)]))
    inner = helper.make_graph([helper.make_node("Relu", ["x"], ["a"])], "i", [], [tensor("a", 1, 4)])
    branch = helper.make_node("If", ["c"], ["y"], then_branch=inner, else_branch=inner)
    inputs = [tensor("c", kind=TensorProto.BOOL), tensor("x", 1, 4)]
    with pytest.raises(InputError, match="control flow"):
        read_onnx(write([branch], inputs, [tensor("y", 1, 4)]))
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"\xff" * 100)
    with pytest.raises(InputError, match="not an ONNX file"):
        read_onnx(broken)


def test_the_command_takes_an_onnx_file(write, tmp_path, capsys):
    """The answer names the file; a missing one is exit code 2."""
    path = conv_net(write, side=224, name="own-net.onnx")
    with pytest.raises(SystemExit) as left:
        main(["estimate", "--task", "inference", "--model", str(path), "--on", "t4"])
    assert left.value.code == 0
    assert "own-net" in capsys.readouterr().out
    with pytest.raises(SystemExit) as left:
        main(["recommend", "--task", "inference", "--model", str(tmp_path / "no.onnx")])
    assert left.value.code == 2


STATED = {"gmacs": "4.11G", "params": "25.6M", "activations": "11.1M", "family": "cnn", "image_size": 224}


def test_a_network_by_its_counts_answers_as_the_one_of_the_catalog():
    """The counts of ResNet-50 give its rates, for inference and for training."""
    for task in ("inference", "pretrain"):
        answers = [
            estimate(
                Workload.from_mapping({"task": task} | model), [(1, "t4")], load_catalog(),
                load_calibration(), load_defaults(), today="2026-11-30",
            )
            for model in (STATED, {"model": "resnet-50"})
        ]  # fmt: skip
        own, known = (answer.option.performance["images_per_s"].value for answer in answers)
        assert own == pytest.approx(known, rel=0.3)  # which has a factor of its own, in training 1.2
        assert "stated-network" in [note.code for note in answers[0].assumptions]


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"params": None}, "needs the parameters"),
        ({"family": "cmn"}, "unknown family 'cmn'"),
        ({"model": "resnet-50"}, "leave out --model"),
        ({"gmacs": "-1"}, "gmacs"),
    ],
)
def test_counts_that_describe_no_network_are_refused(change, match):
    """One sentence each."""
    with pytest.raises(InputError, match=match):
        network_model(Workload.from_mapping({"task": "inference"} | STATED | change), load_catalog())
