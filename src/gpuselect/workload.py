"""What a person can ask: the workload descriptor, one field per command-line flag.

Values are accepted as people write them ("10B", "p95<200ms", "$2/h") or as numbers, and are held in
SI units: seconds, bytes, tokens, 1/s, W. What is not given is None (or empty): defaults are chosen
later and listed in the answer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from gpuselect.errors import InputError
from gpuselect.i18n import labelled
from gpuselect.quantities import Money, Params, Resolution
from gpuselect.workload_keys import TRAINING_OFFLOADS, read_keys

Task = Literal["pretrain", "finetune", "inference", "video", "hpc"]
Recompute = Literal["none", "selective", "full", "blocks"]
Offload = Literal["none", "optimizer", "params", "cpu"]
RECOMPUTE_LEVELS: tuple[str, ...] = get_args(Recompute)
INTEGER_PINS = ("tp", "pp", "dp", "ep", "cp", "zero_stage", "micro_batch", "grad_accum", "replicas")


class Workload(BaseModel):
    """One workload as understood. `parse_notes` says how ambiguous spellings were read.

    >>> work = Workload.from_mapping({"task": "training", "params": "10B", "deadline": "30d"})
    >>> work.task, work.params.total, work.deadline
    ('pretrain', 10000000000.0, 2592000.0)
    """

    model_config = ConfigDict(frozen=True, extra="forbid", protected_namespaces=())

    task: Task
    # the model: a name, or its size [parameters]
    model: str | None = None
    params: Params | None = None
    active_params: float | None = None
    series: str | None = None  # sizes of one network; the most accurate that meets the bounds
    method: Literal["full", "lora", "qlora", "prefix"] | None = None
    precision: str | None = None  # of the arithmetic
    weights: str | None = None  # storage format, e.g. int4-awq
    kv: str | None = None  # format of the KV cache
    # training: lengths in tokens, deadline [s]
    tokens: float | None = None
    samples: float | None = None
    epochs: float | None = None
    mean_len: int | None = None
    seq_len: int | None = None
    global_batch: int | None = None
    optimizer: str | None = None
    lora_rank: int | None = None
    prefix_tokens: int | None = None  # virtual tokens of prefix tuning
    deadline: float | None = None
    # serving: request_rate [1/s], demand and throughput [tokens/s; in and out, out], ttft, tpot, latency [s]
    input_tokens: int | None = None
    output_tokens: int | None = None
    concurrency: int | None = None
    users: float | None = None
    request_rate: float | None = None
    demand: float | None = None
    throughput: float | None = None
    peak_factor: float | None = None
    ttft: float | None = None
    tpot: float | None = None
    latency: float | None = None
    percentile: str | None = None
    arrivals: Literal["poisson", "bursty"] | None = None
    prefix_hits: float | None = None  # share of the prompt tokens found in the prefix cache
    acceptance: float | None = None  # of a drafted token: speculative decoding
    drafted: int | None = None  # tokens that are drafted for one step
    # networks that work sample by sample, and video: image_size [pixels], fps [1/s]
    gmacs: float | None = None  # of one sample of a network that the catalog lacks [1e9]
    activations: float | None = None  # elements that its layers write
    family: str | None = None
    batch: int | None = None
    image_size: int | None = None
    steps: int | None = None  # denoising steps of a diffusion model
    tuned: bool | None = None  # a network as its vendor tunes it for MLPerf
    streams: int | None = None
    fps: float | None = None
    resolution: Resolution | None = None
    codec: Literal["h264", "h265", "av1"] | None = None
    interval: int | None = None  # frames without detection after each frame with one
    secondary: tuple[str, ...] = ()  # models that run on each object found
    secondary_interval: int | None = None  # frames until a tracked object is classified again
    objects: float | None = None  # in view, per frame
    tracker: Literal["none", "iou", "nvdcf"] | None = None
    encode: Literal["h264", "h265", "av1"] | None = None  # streams are encoded again
    dla: bool | None = None  # the detector also runs on the DLA of an edge module
    load: float | None = None  # share of a device's capacity that streams may use
    # scientific computing: flops, traffic [bytes] and memory [bytes] of the whole run
    fp64: bool | None = None
    flops: float | None = None
    bytes: float | None = None
    memory: float | None = None
    kernel: Literal["dgemm", "fft", "stencil", "spmv", "md"] | None = None
    exchange: float | None = None  # share of the traffic that crosses between accelerators
    # money and place: shares are fractions, USD; checkpoint and restart [s]
    budget: Money | None = None  # in USD once `tco.currency.in_dollars` has seen it
    exchange_rates: dict[str, float] = {}  # USD for one unit of a currency
    carbon_budget: float | None = None  # kg CO2e of the run, or of a month of service
    acquire: Literal["rent", "buy", "any"] | None = None
    term: Literal["on-demand", "reserved-1y", "reserved-3y", "spot"] | None = None  # of the rent
    region: str | None = None
    utilization: float | None = None
    years: float | None = None
    wacc: float | None = None  # cost of capital, a year
    residual: float | None = None  # resale at the end, share of the purchase
    support: float | None = None  # share of the purchase, a year
    spares: float | None = None  # bought beside what is used, share of the purchase
    licence: float | None = None  # software, per accelerator and year
    staff: float | None = None  # of this deployment, a year
    colocation: float | None = None  # per kW and month
    electricity: float | None = None  # per kWh
    pue: float | None = None
    carbon: float | None = None  # of the grid [g CO2e/kWh]
    carbon_price: float | None = None  # per tonne
    storage: float | None = None  # kept in a rented cloud, or bought [bytes]
    egress: float | None = None  # out of a rented cloud, a month [bytes]
    interruptions: float | None = None  # of one spot machine, a day
    checkpoint: float | None = None
    restart: float | None = None
    # hardware: have is (count, name as written), reserve [bytes], max_power_w [W]
    have: tuple[tuple[int, str], ...] = ()
    reserve: float | None = None
    gpus: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    vendors: tuple[str, ...] = ()
    max_count: int | None = None
    single_card: bool | None = None
    max_power_w: float | None = None
    ecc: bool | None = None
    mig: int | None = None
    tenants: int | None = None  # that run this workload side by side
    isolation: Literal["any", "hardware", "software"] | None = None
    power_mode: float | None = None  # of an edge module [W]
    cooling: Literal["passive", "active", "liquid"] | None = None
    form_factor: str | None = None
    edge: bool | None = None
    frameworks: tuple[str, ...] = ()
    framework_licence: tuple[str, ...] = ()  # names, permissive or any; of all parts of a framework
    engine: str | None = None
    # pins: the plan is searched only where none is given
    tp: int | None = None
    pp: int | None = None
    dp: int | None = None
    ep: int | None = None
    cp: int | None = None
    zero_stage: int | None = None
    recompute: Recompute | None = None
    micro_batch: int | None = None
    grad_accum: int | None = None
    offload: Offload | None = None  # training states, or layers of a served model, that stay on the host
    host_memory: float | None = None  # of one node [bytes]
    failures: float | None = None  # of one accelerator, an hour
    replicas: int | None = None
    # what counts
    prefer: Literal["balanced", "cost", "speed", "energy", "simplicity", "risk"] | None = None
    criterion_weights: dict[str, float] = {}
    parse_notes: tuple[str, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _read(cls, raw: Any) -> Any:
        return read_keys(raw, known=tuple(cls.model_fields)) if isinstance(raw, Mapping) else raw

    @classmethod
    def from_mapping(cls, mapping: Mapping[str, object]) -> Self:
        """Read a descriptor from flags or from a file; None means not given.

        >>> Workload.from_mapping({"task": "serving", "parms": "7B"})
        Traceback (most recent call last):
        ...
        gpuselect.errors.InputError: parms: no such key, did you mean params?
        """
        try:
            return cls.model_validate(dict(mapping))
        except ValidationError as error:
            first = error.errors()[0]
            key = ".".join(str(part) for part in first["loc"]) or "workload"
            raise InputError(labelled(key, first["msg"])) from None


def pins(workload: Workload) -> dict[str, int]:
    """The parts of the plan that the workload fixes; `recompute` by its level (none 0, full 2).

    >>> pins(Workload(task="pretrain", tp=8, recompute="full"))
    {'tp': 8, 'recompute': 2}
    """
    fixed = {key: getattr(workload, key) for key in INTEGER_PINS}
    if workload.recompute is not None:
        fixed["recompute"] = RECOMPUTE_LEVELS.index(workload.recompute)
    if workload.offload in TRAINING_OFFLOADS:
        fixed["offload"] = 1 + TRAINING_OFFLOADS.index(workload.offload)
    return {key: value for key, value in fixed.items() if value is not None}
