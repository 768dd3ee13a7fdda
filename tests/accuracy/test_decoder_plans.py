"""What a training row says of its plan, and what the search settles."""

from __future__ import annotations

import pytest

from gpuselect.accuracy.decoder_plans import joined, plan_of
from gpuselect.accuracy.decoder_training import case_of
from gpuselect.calibration import Calibration
from gpuselect.catalog import Catalog
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import load_catalog

ROW = {
    "hardware": "h100-sxm5-80gb", "framework": "NVIDIA NeMo Framework", "model_name": "GPT-3 175B",
    "params_b": "175", "seq_len": "2048", "date": "2024-11", "compute_precision": "bf16",
}  # fmt: skip


@pytest.fixture(scope="module")
def data() -> tuple[Catalog, Calibration]:
    """Return the shipped catalog and constants."""
    return load_catalog(), load_calibration()


def test_accumulation_steps_fix_the_width(data: tuple[Catalog, Calibration]) -> None:
    """256 cards, a batch of 2048 in 128 steps: 16 sequences at once, so each replica takes many cards."""
    plan = case_of({**ROW, "n_accel": "256", "global_batch": "2048", "grad_accum": "128"}, *data).plan
    assert plan.micro_batch * plan.dp * plan.grad_accum == 2048
    assert plan.tp * plan.pp == 256 // plan.dp
    assert plan.tp * plan.pp >= 16


def test_what_is_stated_stays(data: tuple[Catalog, Calibration]) -> None:
    """A stated layout is not searched; stages per rank come from the notes."""
    stated = {"n_accel": "64", "tp": "8", "pp": "8", "dp": "1", "micro_batch": "1", "global_batch": "64",
              "recompute": "full", "n_layers": "96", "notes": "virtual PP 6; sequence parallel"}  # fmt: skip
    plan = case_of({**ROW, **stated}, *data).plan
    assert (plan.tp, plan.pp, plan.dp, plan.micro_batch, plan.grad_accum) == (8, 8, 1, 1, 64)
    assert (plan.recompute, plan.virtual, plan.schedule) == (2, 6, 0)
    assert plan_of({**stated, "notes": "schedule zero-bubble, VPP 1"}).schedule == 1


def test_fine_tuning_with_plain_operators_recomputes(data: tuple[Catalog, Calibration]) -> None:
    """The usual trainers of Hugging Face models checkpoint every layer unless told otherwise."""
    row = {**ROW, "framework": "HF Transformers + PEFT", "params_b": "7", "model_name": "Llama 2 7B",
           "method": "lora", "micro_batch": "1", "n_accel": "1"}  # fmt: skip
    case = case_of(row, *data)
    assert case.plan.recompute == 2
    assert not case.way.fused
    assert case.way.frozen_base


@pytest.mark.parametrize(
    ("link", "per_card"),
    [("RoCE 1600 Gbps per node", 25e9), ("RDMA 400 Gb/s per GPU", 50e9), ("4x200 Gbps RDMA", 12.5e9),
     ("Storage: 2x ConnectX-7 400Gb/s, Compute: 8x ConnectX-7 IB NDR 400Gb/s, Management: 100Gb/s", 50e9)],
)  # fmt: skip
def test_networks_in_words(link: str, per_card: float) -> None:
    """Rates per node, per card and as adapters are the same figure."""
    assert joined({"inter_link": link}, per_node=8) == {"network": per_card}


def test_age_and_tuning_of_a_stack(data: tuple[Catalog, Calibration]) -> None:
    """Before 2023 attention wrote its scores; NeMo on NVIDIA is tuned, NeMo AutoModel is not."""
    row = {**ROW, "n_accel": "8", "params_b": "7"}
    assert case_of({**row, "date": "2022-02"}, *data).way.legacy
    assert case_of(row, *data).way.tuned
    assert not case_of({**row, "framework": "NVIDIA NeMo AutoModel"}, *data).way.tuned
