"""Human sizes <-> numbers: one parser per quantity, for flags and for files.

Every parser takes what a person writes (text or a number) and gives SI units: bytes, seconds, W,
1/s. Where a form has two readings, the result carries a note that says which was taken. What is
not understood raises `InputError` with two valid examples.
"""

from gpuselect.quantities.hardware import (
    Accelerators,
    Resolution,
    Streams,
    parse_accelerators,
    parse_power,
    parse_resolution,
    parse_streams,
)
from gpuselect.quantities.money import Money, format_money, in_usd, parse_money, parse_rates
from gpuselect.quantities.sizes import (
    Params,
    TrainingSet,
    format_count,
    format_params,
    parse_bytes,
    parse_context,
    parse_count,
    parse_params,
    parse_percent,
    parse_samples,
)
from gpuselect.quantities.text import Reading
from gpuselect.quantities.times import (
    Latency,
    Throughput,
    format_duration,
    parse_demand,
    parse_duration,
    parse_latency,
    parse_rate,
    parse_throughput,
    parse_token_time,
)

__all__ = [
    "Accelerators",
    "Latency",
    "Money",
    "Params",
    "Reading",
    "Resolution",
    "Streams",
    "Throughput",
    "TrainingSet",
    "format_count",
    "format_duration",
    "format_money",
    "format_params",
    "in_usd",
    "parse_accelerators",
    "parse_bytes",
    "parse_context",
    "parse_count",
    "parse_demand",
    "parse_duration",
    "parse_latency",
    "parse_money",
    "parse_params",
    "parse_percent",
    "parse_power",
    "parse_rate",
    "parse_rates",
    "parse_resolution",
    "parse_samples",
    "parse_streams",
    "parse_throughput",
    "parse_token_time",
]
