"""Keys of a workload that its kind of work does not read: they are named, never passed over in silence."""

from __future__ import annotations

from gpuselect.decision import Note
from gpuselect.i18n import _
from gpuselect.job import ServingJob, TrainingJob
from gpuselect.network_job import Job, NetworkJob, VideoJob
from gpuselect.workload import Workload

RUN = frozenset({"precision", "samples", "epochs", "global_batch", "micro_batch", "optimizer", "deadline",
                 "zero_stage"})  # fmt: skip
TRAINING = RUN | {"tokens", "mean_len", "seq_len", "tp", "pp", "dp", "ep", "cp", "recompute", "grad_accum"}
LOAD = frozenset({"precision", "weights", "request_rate", "demand", "throughput", "peak_factor", "latency",
                  "output_tokens", "concurrency"})  # fmt: skip
SERVING = LOAD | {"input_tokens", "users", "kv", "ttft", "tpot", "percentile", "tp", "pp", "dp", "ep",
                  "replicas", "arrivals", "prefix_hits", "acceptance", "drafted"}  # fmt: skip
SAMPLE = frozenset({"image_size", "seq_len", "input_tokens", "batch"})
VIDEO = frozenset({"precision", "weights", "image_size", "latency", "streams", "fps", "resolution", "codec",
                   "interval", "secondary", "secondary_interval", "objects", "tracker", "encode", "dla",
                   "load"})  # fmt: skip
SCIENTIFIC = frozenset({"precision", "fp64", "flops", "bytes", "memory", "kernel", "exchange", "deadline"})
TUNING = frozenset({"method", "lora_rank", "prefix_tokens", "host_memory"})
SCOPED = TRAINING | SERVING | SAMPLE | VIDEO | SCIENTIFIC | TUNING | {"steps", "tuned"}


def keys_read(workload: Workload, job: Job) -> frozenset[str]:
    """Those of the `SCOPED` keys that an answer for this job depends on.

    >>> from gpuselect import load_catalog
    >>> from gpuselect.job import serving_job
    >>> work = Workload.from_mapping({"task": "serving", "params": "8B"})
    >>> sorted({"ttft", "deadline"} & keys_read(work, serving_job(work, load_catalog())[0]))
    ['ttft']
    """
    match job:
        case TrainingJob():
            of_method = {"lora": {"lora_rank"}, "qlora": {"lora_rank"}, "prefix": {"prefix_tokens"}}
            tuning = {"method"} | of_method.get(job.method, set()) if workload.task == "finetune" else set()
            return TRAINING | tuning | ({"host_memory"} if workload.offload else set())
        case ServingJob():
            return SERVING
        case NetworkJob(training=True):
            tuning = {"method", "lora_rank"} if job.trained_share < 1.0 else set()
            again = {"recompute"} if job.network.layers else set()
            return RUN | SAMPLE | tuning | again | {"tuned"}
        case NetworkJob():
            writes = set() if job.network.generated else {"demand", "output_tokens"}
            return ((LOAD | SAMPLE | {"tuned"}) - writes) | ({"steps"} if job.network.passes > 1 else set())
        case VideoJob():
            return VIDEO
        case _:
            return SCIENTIFIC


def unread_keys(workload: Workload, job: Job) -> list[Note]:
    """One note with the keys that are given and have no effect, if there are any."""
    given = {key for key in workload.model_fields_set & SCOPED if getattr(workload, key) not in (None, ())}
    unread = sorted(given - keys_read(workload, job))
    if not unread:
        return []
    names = _(", ").join(f"--{key.replace('_', '-')}" for key in unread)
    return [Note("no-effect", _("without effect on this kind of work: {names}").format(names=names))]
