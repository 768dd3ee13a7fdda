"""Parameters, FLOPs and KV bytes of decoders against published tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuselect.estimate.shape import (
    expected_active_experts,
    kv_bytes_per_token,
    training_flops,
    typical_decoder,
)


@pytest.mark.parametrize(
    ("params", "hidden", "layers"),
    [(8.03e9, 4096, 32), (7e9, 4096, 28), (13e9, 5120, 36)],
)
def test_typical_proportions_follow_llama_3(params: float, hidden: int, layers: int) -> None:
    """Llama 3 8B has width 4096 and 32 layers (arXiv 2407.21783, table 3)."""
    shape = typical_decoder(params=params)
    assert (shape.hidden, shape.n_layers) == (hidden, layers)


@given(st.floats(min_value=5e8, max_value=2e12))
def test_typical_shape_adds_up_to_the_count_that_was_asked_for(params: float) -> None:
    """Width and layers of the typical shape give the asked count within 12 %."""
    shape = typical_decoder(params=params)
    h = shape.hidden
    per_layer = h * (2 * h + 2 * shape.n_kv_heads * 128 + 3 * 3.5 * h)
    recount = shape.n_layers * per_layer + shape.embedding_params * (1 if shape.tied else 2)
    assert recount == pytest.approx(params, rel=0.12)


def test_flops_of_gpt3_run() -> None:
    """GPT-3 175B on 300B tokens is 3.14e23 FLOPs (arXiv 2005.14165, table D.1)."""
    shape = typical_decoder(params=174.6e9)
    assert training_flops(shape=shape, tokens=300e9, seq_len=0) == pytest.approx(3.14e23, rel=0.01)


def test_kv_cache_of_a_gqa_model() -> None:
    """8 KV heads of 128 in 32 layers at 16 bit are 128 KiB per token (Llama 3 8B)."""
    shape = typical_decoder(params=8.03e9)
    assert kv_bytes_per_token(shape=shape, bytes_per_element=2) == 131_072


@given(st.integers(1, 4096), st.integers(2, 256))
def test_distinct_experts_grow_with_tokens_and_stay_below_all(tokens: int, experts: int) -> None:
    """More tokens touch more experts, never more than there are."""
    few = expected_active_experts(n_experts=experts, top_k=1, tokens=tokens)
    many = expected_active_experts(n_experts=experts, top_k=1, tokens=tokens + 1)
    assert 1.0 - 1e-9 <= few <= many + 1e-9 <= experts + 1e-6
