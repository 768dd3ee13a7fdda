"""What stands behind the codes that are no rule: assumptions, reasons, limits and risks of an answer.

Rules have theirs in `rules`, the order in `stability`; with these every code of an answer can be looked up.
"""

from __future__ import annotations

from collections.abc import Mapping

from gpuselect.i18n import N_, _
from gpuselect.rules import Explanation

MEMORY, TRAINING = N_("docs/methodology.md, memory"), N_("docs/methodology.md, training time")
SERVING, SCORE = N_("docs/methodology.md, serving"), N_("docs/methodology.md, score and decision")
NETWORKS, SCIENCE = (
    N_("docs/methodology.md, networks of samples"),
    N_("docs/methodology.md, scientific codes"),
)
COST, VIDEO, PRICES = N_("docs/methodology.md, cost"), N_("docs/video.md"), N_("data/prices.csv")

# defaults of the descriptor: the flags that say otherwise, and where the default is documented
DEFAULTS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "default-activations": (("--activations",), NETWORKS),
    "default-batch": (("--global-batch", "--batch"), TRAINING),
    "default-concurrency": (("--concurrency", "--users", "--request-rate"), SERVING),
    "default-deadline": (("--deadline",), SCORE),
    "default-ecc": (("--no-ecc",), SCIENCE),
    "default-energy": (("--electricity", "--pue", "--carbon"), COST),
    "default-exchange": (("--exchange",), SCIENCE),
    "default-family": (("--family",), NETWORKS),
    "default-input": (("--image-size", "--seq-len"), NETWORKS),
    "default-intensity": (("--flops", "--bytes"), SCIENCE),
    "default-kv": (("--kv",), SERVING),
    "default-lengths": (("--input-tokens", "--output-tokens"), SERVING),
    "default-load": (("--load",), VIDEO),
    "default-max-count": (("--max-count",), SCORE),
    "default-method": (("--method",), TRAINING),
    "default-model": (("--model",), VIDEO),
    "default-objects": (("--objects",), VIDEO),
    "default-optimizer": (("--optimizer",), MEMORY),
    "default-ownership": (("--years", "--utilization", "--residual", "--wacc", "--colocation"), COST),
    "default-precision": (("--precision",), MEMORY),
    "default-prefix": (("--prefix-tokens",), TRAINING),
    "default-samples": (("--samples", "--epochs"), NETWORKS),
    "default-secondary-interval": (("--secondary-interval",), VIDEO),
    "default-seq-len": (("--seq-len",), MEMORY),
    "default-steps": (("--steps",), NETWORKS),
    "default-tokens": (("--tokens", "--samples"), TRAINING),
    "default-weights": (("--weights",), MEMORY),
}

NOTES: Mapping[str, Explanation] = {
    # how the question was read
    "read-as": Explanation(
        "A form with two readings, or a unit that was not written: the message says which was taken.",
        "docs/glossary.md", "Write the unit, or the number in full.",
    ),
    "no-effect": Explanation(
        "Keys were given that this kind of work does not read; the answer is the same without them.",
        "docs/cli.md, gpuselect recommend", "Leave them out, or name another --task.",
    ),
    "precision-as-weights": Explanation(
        "Of a served decoder the format of the weights decides what is stored and multiplied, so a "
        "--precision alone is read as that format.",
        "docs/methodology.md, serving", "--weights names the format.",
    ),
    "context-exceeded": Explanation(
        "Prompt and answer, or the training sequences, are longer than the model was made for. Memory and "
        "time are estimated all the same.",
        "`max_context` of data/models.yaml", "Shorter sequences, or a model with a longer context.",
    ),
    "prefix-cache-given": Explanation(
        "So much of the prompt is in the prefix cache as was given: only the rest is computed. Modelled, no "
        "measured row confirms it.",
        "docs/methodology.md, serving", "Leave --prefix-hits out.",
    ),
    "speculation-given": Explanation(
        "Speculative decoding with the share of accepted tokens that was given, equally likely at each place "
        "(arXiv 2211.17192, equation 1). Modelled, no measured row confirms it.",
        "docs/methodology.md, serving", "Leave --acceptance out.",
    ),
    "layers-on-host": Explanation(
        "So many layers stay in host memory and are worked on by the processor, at the bandwidth of that "
        "memory.",
        "docs/methodology.md, serving", "More memory on the card, fewer bits (--weights), or --offload none.",
    ),
    "weights-stepped-down": Explanation(
        "The cards that are owned do not hold the model as it was published; the widest format that fits is "
        "taken.",
        "data/formats.yaml", "Name one with --weights.",
    ),
    "default-power": Explanation(
        "Energy is charged at a share of the rating of cards and hosts that measured runs drew; the message "
        "gives the share and its range.",
        "data/defaults.yaml, training_power_share and serving_power_share; docs/methodology.md, cost",
        "Give other shares in an overlay (defaults.yaml).",
    ),
    "purchase-shared": Explanation(
        "A purchase is written off over years of use. This run is charged for its own hours only; it costs "
        "so little only where other work fills the others.",
        "docs/methodology.md, cost", "--acquire rent, or --utilization and --years as you will use it.",
    ),
    "scale-extrapolated": Explanation(
        "Collectives, stragglers and restarts of thousands of accelerators are predicted from smaller runs, "
        "so the interval is the wide one of hardware that nobody measured.",
        "data/measurements/training.csv, column n_accel", "Measure a slice of the cluster and compare.",
    ),
    "adapters-modelled": Explanation(
        "Low-rank adapters on a network of samples: the base is frozen in 16 bit, gradients of its weights "
        "are not computed. Memory is held against a few measured rows, time against none.",
        "docs/methodology.md, networks of samples", "--lora-rank, or --method full.",
    ),
    "vendor-tuned": Explanation(
        "The rate is that of a vendor's submission to MLPerf, with kernels written by hand for the network "
        "and the card: an upper bound.",
        "docs/methodology.md, networks of samples",
        "Without --tuned the rate is that of a usual installation.",
    ),
    "variant-assumed": Explanation(
        "A bare name of a card is read as its declared default variant.",
        "catalog entry: `default_for`", "Name the variant, for example h100-pcie-80gb.",
    ),
    "variant-chosen": Explanation(
        "Sizes of the series were tried from the most accurate on; this is the first that meets the bounds.",
        "catalog: accuracy of the models", "Name one size with --model.",
    ),
    "typical-shape": Explanation(
        "Only a size was given: layers, width and heads are those of a decoder of usual proportions.",
        MEMORY, "--model with a name or a config.json.",
    ),
    "stated-network": Explanation(
        "The network is known by its counts only: operations, parameters and activations of one sample.",
        NETWORKS, "--model with a name or an ONNX file.",
    ),
    "native-weights": Explanation(
        "The model was published in this format; it is served so unless another one is asked for.",
        "catalog entry of the model", "Choose another with --weights.",
    ),
    "tokens-from-samples": Explanation(
        "The amount of work is samples x epochs x mean length.", TRAINING, "Give --tokens, or --mean-len.",
    ),
    "arrivals-modelled": Explanation(
        "Requests arrive at random and wait in a queue; no measurement confirms the waiting times.",
        SERVING, "Measure under your own load; --peak-factor leaves room for peaks.",
    ),
    "percentile-not-modelled": Explanation(
        "Without arrivals there is no queue, so a percentile cannot be told from the mean.",
        SERVING, "Give --request-rate or --demand.",
    ),
    "memory-unknown": Explanation(
        "The size of the data of a scientific code was not given, so it is taken to fit.",
        SCIENCE, "Give --memory.",
    ),
    "one-sided": Explanation(
        "Only work or only traffic was given; the other side of the roofline is taken as free.",
        SCIENCE, "Give both --flops and --bytes, or --kernel.",
    ),
    "no-tracker": Explanation("No tracker is counted: objects are not followed.", VIDEO, "Add --tracker."),
    "tracker-assumed": Explanation(
        "The traffic of the tracker is an assumption: nobody published a measurement.",
        VIDEO, "Measure a short run of the pipeline.",
    ),
    "no-encode": Explanation("Streams are not encoded again.", VIDEO, "Add --encode."),
    "not-in-price": Explanation(
        "Cameras, switches, cabling and boxes are in no price.", VIDEO, "Add them to the sum yourself.",
    ),
    "not-counted": Explanation(
        "These items have no default and count as nothing until they are given.",
        COST, "Give the flags that the message names.",
    ),
    # why the first option is first
    "plan": Explanation(
        "The layout of the option: how the model and the batch are split.",
        "docs/methodology.md, plans", "Pin a part of it: --tp, --pp, --dp, --micro-batch, --recompute.",
    ),
    "leads": Explanation(
        "The criteria in which no other option of the list scores higher.", SCORE, "Other weights: --prefer.",
    ),
    "costs-more": Explanation(
        "The cost against the cheapest option that meets the requirements.", SCORE, "--prefer cost.",
    ),
    "speed": Explanation(
        "The speed against the fastest option that meets the requirements.", SCORE, "--prefer speed.",
    ),
    "queue-stable": Explanation(
        "The share of the capacity that the load takes, and the waiting time that follows.",
        SERVING, "More replicas shorten the wait: --max-count, --ttft.",
    ),
    "no-price": Explanation(
        "The card fits, but no price of it is known, so it has no cost and is listed apart.",
        PRICES, "Give a quotation in an overlay.",
    ),
    "unknown": Explanation(
        "A card left the field without a recorded reason: a fault of the program.",
        "gpuselect doctor", "Report it with the command.",
    ),
    # limits of a plan, and what makes a miss fit
    "micro-batch": Explanation(
        "The largest micro-batch that fits with this plan, or a smaller one that would.",
        MEMORY, "Pin it with --micro-batch.",
    ),
    "seq-len": Explanation(
        "The longest sequence that fits with this plan, or a shorter one that would.",
        MEMORY, "Set --seq-len.",
    ),
    "zero-floor-gib": Explanation(
        "Sharding more widely removes states only: layers, activations and the runtime stay on each card.",
        MEMORY, "--recompute full, a smaller micro-batch, or tensor parallelism.",
    ),
    "concurrency-in-bounds": Explanation(
        "The most sequences at once with which the bounds on TTFT, TPOT and latency still hold.",
        "docs/methodology.md, serving", "Wider bounds, or more accelerators.",
    ),
    "requests-per-hour-in-bounds": Explanation(
        "The largest load, of requests that arrive at random, with which the bounds still hold. Waiting is "
        "modelled, not validated.",
        "docs/methodology.md, serving", "Wider bounds, or more accelerators.",
    ),
    "concurrency": Explanation(
        "The most sequences that fit at once, or fewer that would.", MEMORY, "Set --concurrency.",
    ),
    "context": Explanation(
        "The longest context that fits with so many sequences, or a shorter one that would.",
        MEMORY, "Set --input-tokens; --kv fp8 halves the cache.",
    ),
    "bigger-card": Explanation(
        "The next card of the same maker with enough memory.", MEMORY, "Name it with --gpus or --on.",
    ),
    # risks of a report
    "supply": Explanation(
        "Who lists the card, by the price table. A listed price is no date of delivery.",
        PRICES, "Ask for a date before you sign.",
    ),
    "price-age": Explanation(
        "Prices move; the age is that of the row the cost rests on.", PRICES, "Ask for a quotation.",
    ),
    "end-of-support": Explanation(
        "Where the card stands in its life, by the catalog; makers seldom publish an end of support.",
        "catalog entry: `status`", "Ask the maker.",
    ),
    "next-generation": Explanation(
        "Newer cards of the same maker and class are in the catalog.",
        "catalog entry: `launch_year`", "A short contract, or a right to exchange.",
    ),
    "single-vendor": Explanation(
        "How far the framework binds to one maker.", "data/frameworks.yaml: `backends`",
        "Choose a framework with more backends: --frameworks.",
    ),
    "framework-upkeep": Explanation(
        "The framework is not developed as before.", "data/frameworks.yaml: `upkeep`",
        "Choose another with --frameworks.",
    ),
    "wide-interval": Explanation(
        "The ends of the widest 80 % interval lie more than a factor of two apart.",
        "docs/methodology.md, intervals", "Measure a short run before you commit money.",
    ),
}  # fmt: skip


def note_texts() -> dict[str, Explanation]:
    """Every code that is no rule, with its explanation."""
    text = _("What was not given was chosen by a documented default; the message says which.")
    defaults = {
        code: Explanation(text, source, _("Say otherwise with {flags}.").format(flags=_(", ").join(flags)))
        for code, (flags, source) in DEFAULTS.items()
    }
    return {**defaults, **NOTES}
