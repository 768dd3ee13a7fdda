"""Every spelling that people were seen to use, and the round trip of what we write ourselves."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuselect.errors import InputError
from gpuselect.quantities import (
    Money,
    Params,
    Resolution,
    Streams,
    TrainingSet,
    format_count,
    format_duration,
    format_money,
    format_params,
    parse_accelerators,
    parse_bytes,
    parse_context,
    parse_count,
    parse_demand,
    parse_duration,
    parse_latency,
    parse_money,
    parse_params,
    parse_percent,
    parse_power,
    parse_rate,
    parse_resolution,
    parse_samples,
    parse_streams,
    parse_token_time,
)

DAY = 86_400.0


@pytest.mark.parametrize(
    ("text", "total", "active"),
    [
        ("7B", 7e9, None),
        ("7b", 7e9, None),
        ("6.7B", 6.7e9, None),
        ("350M", 350e6, None),
        ("1T", 1e12, None),
        ("7 billion", 7e9, None),
        ("7 billion parameters", 7e9, None),
        ("70亿", 7e9, None),
        ("七十亿", 7e9, None),
        ("千亿", 1e11, None),
        ("1.5万亿", 1.5e12, None),
        ("10_000_000_000", 1e10, None),
        (7_000_000_000, 7e9, None),
        (7e9, 7e9, None),
        ("2.4T-A95B", 2.4e12, 95e9),
        ("30B-A3B", 30e9, 3e9),
        ("235B-A22B", 235e9, 22e9),
        ("57BA14B", 57e9, 14e9),
        ("26B-A4B", 26e9, 4e9),
    ],
)
def test_params(text, total, active):
    """Sizes are absolute counts of parameters."""
    params = parse_params(text)
    assert (params.total, params.active, params.note) == (total, active, None)


@pytest.mark.parametrize(
    ("text", "experts", "bound", "active"),
    [("8x7b", 8, 56e9, None), ("8x22B", 8, 176e9, None), ("17B-16E", 16, 272e9, 17e9)],
)
def test_params_of_experts_without_a_total_are_a_bound(text, experts, bound, active):
    """N experts of a size share layers, so their product bounds the total, and a note says it."""
    params = parse_params(text)
    assert (params.experts, params.total, params.active) == (experts, bound, active)
    assert params.form == text.lower()
    assert params.note is not None
    assert "at most" in params.note


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("300B tokens", 300e9),
        ("300B", 300e9),
        ("10M", 10e6),
        ("8k", 8000),
        ("100 concurrent users", 100),
        ("bs=64", 64),
        ("16 cameras", 16),
        ("1e18", 1e18),
        ("131,072", 131072),
        ("30万", 300_000),
        ("2千万", 2e7),
    ],
)
def test_count(text, count):
    """In counts, k is 1000."""
    assert parse_count(text) == count


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("8k", 8192), ("32K", 32768), ("128k", 131072), ("131072", 131072), ("1M", 1048576)],
)
def test_context(text, tokens):
    """In context lengths k is 1024, which is said."""
    reading = parse_context(text)
    assert reading.value == tokens
    assert (reading.note is None) == text.isdigit()


def test_samples():
    """Epochs may be said with the samples."""
    assert parse_samples("3 epochs of 50k samples") == TrainingSet(50e3, 3)
    assert parse_samples("50k") == TrainingSet(50e3)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30d", 30 * DAY),
        ("72h", 3 * DAY),
        ("within a week", 7 * DAY),
        ("2 weeks", 14 * DAY),
        ("500ms", 0.5),
        ("1h30m", 5400),
        ("90 min", 5400),
        ("<= 2 days", 2 * DAY),
        ("1 month", 365.25 * DAY / 12),
        ("3天", 3 * DAY),
        ("一周内", 7 * DAY),
        ("12", 12),
    ],
)
def test_duration(text, seconds):
    """Durations are seconds."""
    assert parse_duration(text) == pytest.approx(seconds, rel=1e-12)


@pytest.mark.parametrize(
    ("text", "seconds", "percentile"),
    [
        ("p95<200ms", 0.2, "p95"),
        ("p99 <= 1.5s", 1.5, "p99"),
        ("200ms@p95", 0.2, "p95"),
        ("200ms p50", 0.2, "p50"),
        ("TTFT < 1s", 1.0, None),
        ("p95 TTFT < 1s", 1.0, "p95"),
        ("50ms", 0.05, None),
        ("p95＜200ms", 0.2, "p95"),
    ],
)
def test_latency(text, seconds, percentile):
    """The percentile may stand on either side."""
    assert parse_latency(text) == (pytest.approx(seconds), percentile)


def test_token_speed_is_turned_over():
    """A speed per user says a time per token."""
    assert parse_token_time(">=30 tok/s/user").seconds == pytest.approx(1 / 30)
    assert parse_token_time("p95<50ms") == (0.05, "p95")


@pytest.mark.parametrize(
    ("text", "rate"),
    [("5/s", 5), ("50 rps", 50), ("300/min", 5), ("50 qps", 50), ("7200 requests per hour", 2)],
)
def test_rate(text, rate):
    """Rates are per second."""
    assert parse_rate(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("text", "rate"),
    [("10M tokens/day", 1e7 / DAY), ("500 tok/s", 500), ("1亿 tokens/天", 1e8 / DAY)],
)
def test_demand(text, rate):
    """Demand is tokens per second."""
    assert parse_demand(text) == pytest.approx(rate)


@pytest.mark.parametrize(
    ("text", "money"),
    [
        ("$2/h", Money(2, "hour")),
        ("$2.50/gpu-hr", Money(2.5, "hour", per_accelerator=True)),
        ("$2.50 per GPU hour", Money(2.5, "hour", per_accelerator=True)),
        ("$2/h per GPU", Money(2, "hour", per_accelerator=True)),
        ("<$3000", Money(3000)),
        ("$5000", Money(5000)),
        ("$20k/month", Money(20e3, "month")),
        ("$1.5M", Money(1.5e6)),
        ("$0.5/M tokens", Money(0.5, "million-tokens")),
        ("$0.002/1k tokens", Money(2, "million-tokens")),
        ("0.12 USD/kWh", Money(0.12, "kwh")),
        ("€3/h", Money(3, "hour", "EUR")),
        ("30万元", Money(3e5, "none", "CNY")),
        ("3 CNY/小时", Money(3, "hour", "CNY")),
        ("$48/day", Money(2, "hour")),
        ("$1M/yr", Money(1e6, "year")),
    ],
)
def test_money(text, money):
    """An amount keeps its currency and what it is for."""
    assert parse_money(text) == money


@pytest.mark.parametrize(("text", "currency"), [("30万", "CNY"), ("¥3000", "CNY"), ("3000", "USD")])
def test_money_without_a_clear_currency_says_which_was_taken(text, currency):
    """A guessed currency is a note."""
    money = parse_money(text)
    assert money.currency == currency
    assert money.note is not None


@pytest.mark.parametrize(
    ("text", "count", "name", "nodes"),
    [
        ("8xH100", 8, "H100", None),
        ("8×H100", 8, "H100", None),
        ("H100x8", 8, "H100", None),
        ("H100 x 8", 8, "H100", None),
        ("8 * A100", 8, "A100", None),
        ("8 H100 GPUs", 8, "H100", None),
        ("3x3090", 3, "3090", None),
        ("4090x2", 2, "4090", None),
        ("2x 3090 Ti", 2, "3090 Ti", None),
        ("2x4060 Ti 16GB", 2, "4060 Ti 16GB", None),
        ("1024xA100-80", 1024, "A100-80", None),
        ("8x a100-sxm4-80gb", 8, "a100-sxm4-80gb", None),
        ("mlu370-x8-48gb", 1, "mlu370-x8-48gb", None),
        ("mlu370-x8", 1, "mlu370-x8", None),
        ("2x8 H200", 16, "H200", 2),
        ("2x8xH200", 16, "H200", 2),
        ("2 nodes of 8xH100", 16, "H100", 2),
        ("4x(8x64G) 910B", 32, "910B 64G", 4),
        ("8卡A100", 8, "A100", None),
        ("A100 8卡", 8, "A100", None),
        ("单机8卡", 8, None, 1),
        ("单机8卡A100", 8, "A100", 1),
        ("双机16卡 H100", 16, "H100", 2),
        ("八卡昇腾910B", 8, "昇腾910B", None),
        ("v6e-8", 8, "v6e", None),
        ("A100-80", 1, "A100-80", None),
        ("A100 80G", 1, "A100 80G", None),
        ("A100-SXM4-80GB", 1, "A100-SXM4-80GB", None),
        ("4090", 1, "4090", None),
        ("RTX4090", 1, "RTX4090", None),
        ("RTX 4090", 1, "RTX 4090", None),
        ("RX 580", 1, "RX 580", None),
        ("GTX 970 x2", 2, "GTX 970", None),
        ("MI300Xx8", 8, "MI300X", None),
        ("L40Sx4", 4, "L40S", None),
        ("3090 Ti", 1, "3090 Ti", None),
        ("H100 NVL", 1, "H100 NVL", None),
        ("H20", 1, "H20", None),
        ("H20-3e", 1, "H20-3e", None),
        ("MI300X", 1, "MI300X", None),
        ("910B", 1, "910B", None),
        ("昇腾910B", 1, "昇腾910B", None),
        ("Orin NX 16G", 1, "Orin NX 16G", None),
        ("Spark", 1, "Spark", None),
        ("GB10", 1, "GB10", None),
        ("v6e", 1, "v6e", None),
        ("Trillium", 1, "Trillium", None),
        ("a2-ultragpu-4g", 1, "a2-ultragpu-4g", None),
        ("p5.48xlarge", 1, "p5.48xlarge", None),
        ("ND96isr_H100_v5", 1, "ND96isr_H100_v5", None),
        ("BM.GPU.H100.8", 1, "BM.GPU.H100.8", None),
    ],
)
def test_accelerators(text, count, name, nodes):
    """Counts stand before or after the card; names are kept as written."""
    (cards,) = parse_accelerators(text)
    assert (cards.count, cards.name, cards.nodes) == (count, name, nodes)


def test_several_kinds_of_accelerators():
    """A comma, a plus or `and` separates kinds."""
    kinds = parse_accelerators("2x3090 + 4090, 8 A100 and 4xT4")
    assert [(kind.count, kind.name) for kind in kinds] == [
        (2, "3090"),
        (1, "4090"),
        (8, "A100"),
        (4, "T4"),
    ]


def test_tpu_slice_that_may_count_cores_says_so():
    """The suffix counts chips in some generations and cores in others."""
    assert parse_accelerators("v4-8")[0].note == "v4-8 is read as 8 chips (write 4xv4 if it counts cores)"


def test_bytes():
    """GB and GiB differ, and a bare G is said to be GiB."""
    assert parse_bytes("24GiB").value == 24 * 2**30
    assert parse_bytes("24GB").value == 24e9
    assert parse_bytes("24G").value == 24 * 2**30
    assert parse_bytes("24G").note is not None
    assert parse_bytes("512MiB").value == 2**29


@pytest.mark.parametrize(("text", "share"), [("60%", 0.6), ("60", 0.6), (0.6, 0.6), (1, 1), (0, 0)])
def test_percent(text, share):
    """A share is a fraction."""
    assert parse_percent(text) == pytest.approx(share)


def test_power_resolution_streams():
    """Constraints of edge and video."""
    assert parse_power("<=75W") == 75
    assert parse_power("≤75W") == 75
    assert parse_power("1.2kW") == 1200
    assert parse_resolution("1080p") == (1920, 1080)
    assert parse_resolution("1920x1080") == (1920, 1080)
    assert parse_resolution("4K") == (3840, 2160)
    assert parse_streams("16路 1080p@25") == Streams(16, Resolution(1920, 1080), 25)
    assert parse_streams("16 cameras") == Streams(16)


@pytest.mark.parametrize(
    ("parser", "text", "examples"),
    [
        (parse_params, "big", ("7B", "30B-A3B")),
        (parse_params, "7", ("7B", "30B-A3B")),
        (parse_params, "-7B", ("7B", "30B-A3B")),
        (parse_params, "3B-A30B", ("30B-A3B", "235B-A22B")),
        (parse_params, True, ("7B", "30B-A3B")),
        (parse_params, "1e999b", ("7B", "30B-A3B")),
        (parse_money, "$1e1000000/h", ("$2/h", "$20k/month")),
        (parse_count, "many", ("300B", "50k")),
        (parse_context, "8.3", ("8k", "131072")),
        (parse_samples, "3 epochs", ("300B", "50k")),
        (parse_duration, "soon", ("30d", "500ms")),
        (parse_duration, "3 fortnights", ("30d", "500ms")),
        (parse_latency, "fast", ("p95<200ms", "1s")),
        (parse_latency, "> 1s", ("p95<200ms", "1s")),
        (parse_rate, "often", ("5/s", "300/min")),
        (parse_demand, "10k requests/day", ("10M tokens/day", "500 tok/s")),
        (parse_money, "cheap", ("$2/h", "$20k/month")),
        (parse_money, "$2/fortnight", ("$2/h", "$20k/month")),
        (parse_money, "$2 EUR", ("$2/h", "$20k/month")),
        (parse_bytes, "24 bananas", ("24GB", "24GiB")),
        (parse_accelerators, "", ("8xH100", "2x8 H200")),
        (parse_accelerators, "1 node", ("8xH100", "2x8 H200")),
        (parse_accelerators, "0xH100", ("8xH100", "2x8 H200")),
        (parse_percent, "160%", ("60%", "0.6")),
        (parse_power, "low", ("75W", "1.2kW")),
        (parse_resolution, "sharp", ("1080p", "1920x1080")),
        (parse_streams, "some", ("16", "16 cameras")),
    ],
)
def test_what_is_not_understood_names_two_valid_forms(parser, text, examples):
    """The error shows the way."""
    with pytest.raises(InputError) as error:
        parser(text)
    assert all(example in str(error.value) for example in examples)


@given(st.integers(min_value=1000, max_value=10**14))
def test_counts_round_trip(count):
    """What `format_count` writes is read back exactly."""
    assert parse_count(format_count(count)) == pytest.approx(count, rel=1e-14)
    assert parse_params(format_count(count)).total == pytest.approx(count, rel=1e-14)


@given(st.integers(1, 5000), st.integers(1, 5000))
def test_mixtures_round_trip(total, active):
    """Total and active size are read back."""
    params = Params(total=max(total, active) * 1e8, active=min(total, active) * 1e8)
    again = parse_params(format_params(params))
    assert (again.total, again.active) == (params.total, params.active)


@given(st.floats(min_value=1e-3, max_value=1e9))
def test_durations_round_trip(seconds):
    """What `format_duration` writes is read back."""
    assert parse_duration(format_duration(seconds)) == pytest.approx(seconds, rel=1e-12)


@given(
    st.floats(min_value=0.01, max_value=1e9),
    st.sampled_from(["none", "hour", "month", "year", "million-tokens", "kwh"]),
    st.sampled_from(["USD", "EUR", "CNY"]),
    st.booleans(),
)
def test_money_round_trips(amount, per, currency, card):
    """Amount, term, currency and card are read back."""
    money = Money(amount, per, currency, per_accelerator=card)
    again = parse_money(format_money(money))
    assert again.amount == pytest.approx(amount, rel=1e-13)
    assert (again.per, again.currency, again.per_accelerator) == (per, currency, card)


@given(st.integers(1, 4096), st.sampled_from(["H100", "A100-80", "3090", "MI300X", "RTX 4090"]))
def test_counted_cards_round_trip(count, name):
    """A count before the card is never taken for a part of the name."""
    (cards,) = parse_accelerators(f"{count}x{name}")
    assert (cards.count, cards.name) == (count, name)


@given(st.integers(1, 999), st.sampled_from(["K", "M", "B", "T"]))
def test_magnitudes_scale(number, suffix):
    """A thousand of one magnitude is one of the next."""
    larger = {"K": "M", "M": "B", "B": "T"}.get(suffix)
    if larger is not None:
        assert parse_count(f"{number * 1000}{suffix}") == parse_count(f"{number}{larger}")


@given(st.text(max_size=12))
def test_any_text_is_read_or_refused(text):
    """No parser fails otherwise than by its own error."""
    parsers = (
        parse_params, parse_count, parse_context, parse_samples, parse_duration, parse_latency,
        parse_token_time, parse_rate, parse_demand, parse_money, parse_bytes, parse_accelerators,
        parse_percent, parse_power, parse_resolution, parse_streams,
    )  # fmt: skip
    for parser in parsers:
        with suppress(InputError):
            parser(text)
