"""The shipped accelerators: published figures, and rules that hold for every entry."""

from __future__ import annotations

import csv
from collections import Counter

import pytest

from gpuselect.catalog import Accelerator, Catalog
from gpuselect.estimate.devices import usable_bytes
from gpuselect.names import squeeze
from gpuselect.readers.calibration import load_calibration
from gpuselect.readers.catalog import check_catalog, data_dir, load_catalog

# Claims that circulate, with the figure of the table that settles them.
CLAIMS = [
    # id, key path, figure, table
    ("a100-sxm4-40gb", "memory_gb", 40, "MIG guide: A100 40 GB"),
    ("a100-sxm4-80gb", "memory_gb", 80, "MIG guide: A100 80 GB"),
    ("a30-24gb", "memory_gb", 24, "MIG guide: A30 24 GB, there is no 80 GB A30"),
    ("h100-sxm5-80gb", "dense_tflops.bf16", 989.4, "H100 data sheet; 1979 is with sparsity"),
    ("h100-sxm5-80gb", "dense_tflops.fp16", 989.4, "H100 data sheet; 1979 is with sparsity"),
    ("h100-sxm5-80gb", "dense_tflops.fp8", 1978.9, "H100 data sheet; 3958 is with sparsity"),
    ("h100-pcie-80gb", "dense_tflops.fp16", 756, "H100 data sheet, PCIe column"),
    ("h100-nvl-94gb", "dense_tflops.fp16", 835.5, "H100 data sheet, NVL column, one card"),
    ("rtx-4090-24gb", "dense_tflops.fp16", 165.2, "Ada whitepaper, fp32 accumulate"),
    ("rtx-4090-24gb", "dense_tflops.fp16_acc16", 330.3, "Ada whitepaper, fp16 accumulate"),
    ("rtx-4090-24gb", "dense_tflops.fp32", 82.6, "Ada whitepaper, shader rate"),
    ("rtx-4090-24gb", "dense_tflops.fp8", 330.3, "Ada whitepaper v2.02"),
    ("a100-sxm4-80gb", "dense_tflops.tf32", 156, "A100 table; 312 is with sparsity"),
    ("a100-sxm4-80gb", "dense_tflops.fp32", 19.5, "A100 table"),
    ("a100-sxm4-80gb", "dense_tflops.bf16", 312, "A100 table"),
    ("a100-sxm4-80gb", "link_both_ways_gb_s", 600, "12 NVLinks of 50 GB/s"),
    ("a100-sxm4-80gb", "link_one_way_gb_s", 300, "12 NVLinks of 25 GB/s each way"),
    ("rtx-3090-24gb", "link_both_ways_gb_s", 112.5, "GA102: 4 links"),
    ("a100-sxm4-80gb", "pcie_one_way_gb_s", 31.5, "PCIe 4.0 x16, each way"),
    ("a100-sxm4-40gb", "memory_bandwidth_gb_s", 1555, "A100 table"),
    ("a100-sxm4-80gb", "memory_bandwidth_gb_s", 2039, "A100 80 GB SXM"),
    ("a100-pcie-80gb", "memory_bandwidth_gb_s", 1935, "A100 80 GB PCIe"),
    ("rtx-4090-24gb", "memory_bandwidth_gb_s", 1008, "GDDR6X at 384 bit"),
    ("rtx-3090-24gb", "memory_bandwidth_gb_s", 936, "GDDR6X at 384 bit, slower clock"),
    ("rtx-3080-10gb", "memory_bandwidth_gb_s", 760, "GDDR6X at 320 bit"),
    ("rtx-4080-16gb", "memory_bandwidth_gb_s", 716.8, "GDDR6X at 256 bit"),
    ("b200-sxm-180gb", "link_one_way_gb_s", 900, "NVLink 5: 18 links"),
    ("b200-sxm-180gb", "link_both_ways_gb_s", 1800, "NVLink 5: 18 links"),
    ("tpu-v5p", "memory_gb", 95, "TPU comparison; 256 is the size of a v6e pod"),
    ("tpu-v6e", "memory_gb", 32, "TPU comparison"),
    ("tpu-v7", "memory_gb", 192, "TPU comparison; no chip has 256"),
    ("rtx-a6000-48gb", "link_both_ways_gb_s", 112.5, "GA102: 4 links; 600 is the A100's"),
    ("b200-sxm-180gb", "memory_bandwidth_gb_s", 7700, "HGX data sheet; 8000 is the GB200"),
    ("b200-sxm-180gb", "dense_tflops.bf16", 2250, "HGX data sheet; 4500 is with sparsity"),
    ("mlu370-x8-48gb", "power_w", 250, "not below a V100 PCIe"),
    ("mythic-m1076", "power_w", 4, "26 TOPS at 4 W are 6.5 TOPS/W, not a hundredfold advantage"),
    ("h100-sxm5-80gb", "mig_max_instances", 7, "MIG guide"),
    ("a30-24gb", "mig_max_instances", 4, "MIG guide"),
    ("mlu370-x4-24gb", "power_w", 150, "40 % below the V100 PCIe, not the SXM2"),
    ("v100-pcie-16gb", "power_w", 250, "V100 PCIe"),
    ("v100-sxm2-16gb", "power_w", 300, "V100 SXM2"),
    ("mlu370-s4-24gb", "power_w", 75, "the small card; no claim fits all three"),
    ("rtx-3090-ti-24gb", "memory_bandwidth_gb_s", 1008, "GDDR6X at 384 bit, faster clock"),
    ("tpu-v2", "dense_tflops.bf16", 46, "45 is this rate, not TOPS per watt"),
    ("mythic-m1076", "dense_tflops.int8", 26, "26 TOPS"),
    ("lightmatter-photonic", "power_w", 79.6, "65.5 TOPS at 78 W + 1.6 W are 0.82 TOPS/W, not 16"),
    ("rtx-pro-6000-blackwell-96gb", "mig_max_instances", 4, "MIG guide"),
    ("rtx-pro-5000-blackwell-48gb", "mig_max_instances", 2, "MIG guide"),
    # verdicts of the second reading of doubtful figures
    ("a10g-24gb", "power_w", 300, "nvidia-smi of AWS g5"),
    ("a10g-24gb", "dense_tflops.fp32", 35.0, "80 SM at 1.71 GHz"),
    ("a10g-24gb", "dense_tflops.fp16", 70, "125 belongs to the A10"),
    ("b300-288gb", "power_w", 1100, "nvidia-smi of a B300; 1400 W is the GB300"),
    ("gb300-288gb", "power_w", 1400, "nvidia-smi of a GB300"),
    ("jetson-agx-thor-128gb", "dense_tflops.fp16", 258, "module tables, T5000"),
    ("jetson-agx-thor-128gb", "dense_tflops.fp4", 1035, "half of the sparse 2070"),
    ("rtx-pro-6000-blackwell-server-96gb", "dense_tflops.fp32", 116.9, "188 SM at 2.43 GHz"),
    ("mi355x-288gb", "dense_tflops.fp16", 2516.6, "2.4 GHz x CU x operations"),
    ("gaudi3-128gb", "dense_tflops.bf16", 1677, "at 1.6 GHz"),
    ("h100-sxm5-80gb", "usable_memory_gib", 79.18, "nvidia-smi: 81559 MiB less 478 reserved"),
    ("b200-sxm-180gb", "usable_memory_gib", 178.34, "nvidia-smi: 183359 MiB less 735"),
]
ESTIMATED_POWER = ("tpu-v2", "tpu-v3", "tpu-v4", "tpu-v5p", "tpu-v6e", "tpu-v7", "trainium3")

NONE_IS_KNOWN = ("encode_engines", "dla_engines", "ecc_memory_cost_pct")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    """The shipped catalog."""
    return load_catalog()


@pytest.fixture(scope="module")
def cards(catalog: Catalog) -> list[Accelerator]:
    """All accelerators."""
    return list(catalog.accelerators.values())


@pytest.mark.parametrize(("card", "path", "figure", "table"), CLAIMS)
def test_figure_of_the_table(catalog: Catalog, card: str, path: str, figure: float, table: str) -> None:
    """The published dense figure, not the one that circulates."""
    found = dict(catalog.accelerators[card].figures())
    assert found[path] == pytest.approx(figure, rel=1e-4), table


def test_whole_catalog_is_valid() -> None:
    """Every file, every model, every reference between them."""
    counts = check_catalog()
    assert counts["accelerators"] >= 315
    assert counts["figures"] > 8000


def test_every_card_has_memory_or_says_why(cards: list[Accelerator]) -> None:
    """Unknown memory is explained in the notes."""
    assert [card.id for card in cards if card.memory_gb is None and not card.notes] == []


def test_what_the_driver_reserves_is_not_usable(catalog: Catalog) -> None:
    """T4: 15 GiB less 448 MiB; a program sees 14.56 (CUDA device total on Linux, same card)."""
    usable = usable_bytes(catalog.accelerators["t4-16gb"], load_calibration())
    assert usable == pytest.approx(14.56 * 2**30, rel=1e-3)


def test_usable_memory_is_not_above_the_label(cards: list[Accelerator]) -> None:
    """The label read as GiB bounds what a driver shows."""
    for card in cards:
        if card.usable_memory_gib is not None and card.memory_gb is not None:
            assert card.usable_memory_gib <= card.memory_gb * 1.001, card.id


def test_no_figure_is_zero_or_negative(cards: list[Accelerator]) -> None:
    """Unknown is absent; 0 stands only where there is known to be none."""
    for card in cards:
        for path, figure in card.figures():
            if isinstance(figure, float) and path not in NONE_IS_KNOWN:
                assert figure > 0, (card.id, path)
            elif isinstance(figure, float):
                assert figure >= 0, (card.id, path)


def test_every_figure_has_a_titled_source(catalog: Catalog, cards: list[Accelerator]) -> None:
    """Figure, short name, entry of sources.yaml, title and address."""
    for card in cards:
        for path, figure in card.figures():
            source = catalog.sources[card.cite(figure)[0]]
            assert source.title.strip(), (card.id, path)
            assert source.address.strip(), (card.id, path)


def test_both_ways_is_twice_one_way(cards: list[Accelerator]) -> None:
    """Link figures keep their direction apart."""
    for card in cards:
        if card.link_one_way_gb_s is not None:
            assert card.link_both_ways_gb_s == pytest.approx(2 * card.link_one_way_gb_s), card.id


def test_pcie_rate_is_that_of_the_generation(cards: list[Accelerator]) -> None:
    """One direction: 0.985 GB/s per lane in generation 3, doubled with each later one."""
    per_lane = {2.0: 0.5, 3.0: 0.985, 4.0: 1.97, 5.0: 3.94, 6.0: 7.56}
    for card in cards:
        if card.pcie_one_way_gb_s and card.pcie_lanes and card.pcie_generation:
            expected = per_lane[float(card.pcie_generation)] * card.pcie_lanes
            assert card.pcie_one_way_gb_s == pytest.approx(expected, rel=0.03), card.id


def test_rates_keep_the_ratios_of_nvidia_tensor_cores(cards: list[Accelerator]) -> None:
    """Ampere to Blackwell: bf16 = fp16 = 2 x tf32, int8 at least 2 x fp16 but on Ultra parts."""
    for card in cards:
        rates = card.dense_tflops
        if card.vendor != "nvidia" or not {"tf32", "fp16", "bf16"} <= set(rates):
            continue
        assert rates["bf16"] == pytest.approx(rates["fp16"], rel=0.01), card.id
        assert rates["fp16"] == pytest.approx(2 * rates["tf32"], rel=0.03), card.id
        if "int8" in rates and not card.id.startswith(("b300", "gb300", "rubin")):
            assert rates["int8"] >= 1.9 * rates["fp16"], card.id


def test_peaks_are_dense(cards: list[Accelerator]) -> None:
    """A rate above the dense peak of the fastest known part is a sparse one."""
    for card in cards:
        if card.status != "announced":
            assert card.dense_tflops.get("fp16", 0.0) <= 2600, card.id


def test_ratio_derived_rates_are_marked(cards: list[Accelerator]) -> None:
    """Nobody printed a rate that comes from a ratio."""
    for card in cards:
        for path, figure in card.figures():
            if card.cite(figure)[0].startswith(("derived-", "xmx-ratio", "orin-ratio", "sibling")):
                assert figure.status == "derived", (card.id, path)


@pytest.mark.parametrize("card", ESTIMATED_POWER)
def test_estimated_power_is_marked(catalog: Catalog, card: str) -> None:
    """The makers publish none."""
    power = catalog.accelerators[card].power_w
    assert power is not None
    assert power.status == "assumed"
    assert power.note


def test_usable_memory_is_measured(cards: list[Accelerator]) -> None:
    """A driver total is a measurement, or says how it was derived."""
    for card in cards:
        usable = card.usable_memory_gib
        if usable is not None:
            assert usable.status == "measured" or (usable.status == "derived" and usable.note)


def test_unified_memory(cards: list[Accelerator]) -> None:
    """Apple, Jetson, DGX Spark and Strix Halo share memory with the host; no PCIe card does."""
    unified = {card.id for card in cards if card.unified_memory}
    assert {"dgx-spark-128gb", "ryzen-ai-max-395-128gb", "jetson-agx-orin-64gb"} <= unified
    assert {card.id for card in cards if card.family == "apple"} <= unified
    assert not any("PCIe" in card.form_factor for card in cards if card.id in unified)


def test_cuda_cards_know_their_compute_capability(cards: list[Accelerator]) -> None:
    """Without it no gate of a framework holds; the exceptions have no source."""
    unknown = {card.id for card in cards if "cuda" in card.software and card.compute_capability is None}
    assert unknown <= {"b300-288gb", "gb300-288gb", "rubin-288gb", "rubin-cpx-128gb"}


def test_a_spelling_leads_to_one_card(cards: list[Accelerator]) -> None:
    """Neither ids, aliases nor loose names collide, however they are written."""
    spellings = Counter(
        spelling
        for card in cards
        for spelling in {squeeze(s) for s in (card.id, *card.aliases, *card.default_for)}
    )
    assert [spelling for spelling, count in spellings.items() if count > 1] == []


def test_no_tpu_comes_near_45_operations_per_watt(cards: list[Accelerator]) -> None:
    """The figure that circulates is a rate that lost its unit; the best TPU reaches 5 TOPS/W."""
    efficiency = {
        card.id: max(float(rate) for rate in card.dense_tflops.values()) / float(card.power_w)
        for card in cards
        if card.family == "tpu" and card.power_w
    }
    assert len(efficiency) >= 5
    assert max(efficiency.values()) < 5


def test_training_speed_of_a100_against_v100() -> None:
    """NVIDIA's examples: ResNet-50 about 2.1 times as fast, BERT-large at least 2.6 times, not 1.7."""
    path = data_dir() / "measurements" / "training.csv"
    with path.open(encoding="utf-8", newline="") as file:
        speed = {
            row["row_id"]: float(row["samples_per_s_total"] or 0)
            for row in csv.DictReader(file)
            if row["source_id"].startswith("dle-")
        }
    assert speed["dle-pt-0066"] / speed["dle-pt-0074"] == pytest.approx(2.1, abs=0.1)  # one card
    assert speed["dle-pt-0068"] / speed["dle-pt-0076"] == pytest.approx(2.1, abs=0.1)  # eight
    assert speed["dle-tf2-0079"] / speed["dle-tf-0071"] > 2.6  # BERT-large, 128 tokens, eight
    assert speed["dle-tf2-0083"] / speed["dle-tf-0077"] > 2.5  # 512 tokens


def test_only_some_cards_can_be_split(catalog: Catalog) -> None:
    """Ada and Ampere cards beside A100 and A30 have no MIG."""
    for card in ("l4-24gb", "l40s-48gb", "a10-24gb", "a40-48gb", "rtx-4090-24gb", "v100-sxm2-32gb"):
        assert catalog.accelerators[card].mig_max_instances is None, card
        assert catalog.accelerators[card].mig_slices == (), card


@pytest.mark.parametrize(
    ("card", "slices"),
    [
        ("a30-24gb", [("1g.6gb", 6, 1 / 4), ("2g.12gb", 12, 1 / 2), ("4g.24gb", 24, 1)]),
        ("rtx-pro-5000-blackwell-48gb", [("1g.12gb", 12, 1 / 4), ("4g.48gb", 48, 1)]),
        (
            "h100-sxm5-80gb",
            [
                ("1g.10gb", 10, 1 / 7), ("1g.20gb", 20, 1 / 7), ("2g.20gb", 20, 2 / 7),
                ("3g.40gb", 40, 3 / 7), ("4g.40gb", 40, 4 / 7), ("7g.80gb", 80, 1),
            ],
        ),
    ],
)  # fmt: skip
def test_mig_slices(catalog: Catalog, card: str, slices: list[tuple[str, float, float]]) -> None:
    """The MIG guide's profiles as numbers; profiles with additions are left out."""
    found = catalog.accelerators[card].mig_slices
    assert [(s.name, s.memory_gb) for s in found] == [(name, memory) for name, memory, _share in slices]
    assert [s.compute_fraction for s in found] == pytest.approx([share for _name, _memory, share in slices])


def test_every_profile_string_is_understood(cards: list[Accelerator]) -> None:
    """The largest slice is the whole card, and none has more memory than it."""
    with_profiles = [card for card in cards if card.mig_profiles is not None]
    assert len(with_profiles) >= 15
    for card in with_profiles:
        assert max(s.compute_fraction for s in card.mig_slices) == 1, card.id
        assert card.memory_gb is not None
        assert all(s.memory_gb <= card.memory_gb * 1.03 for s in card.mig_slices), card.id


def test_video_figures(catalog: Catalog, cards: list[Accelerator]) -> None:
    """Streams are upper bounds and say so; a card with streams of the rate rule knows its decoders."""
    streams = {
        (card.id, codec): figure for card in cards for codec, figure in card.decode_streams_1080p30.items()
    }
    assert len(streams) > 80
    assert all("upper bound" in (figure.note or "") for figure in streams.values())
    assert float(streams["h100-sxm5-80gb", "h264"]) == 326
    assert float(streams["jetson-agx-orin-64gb", "av1"]) == 22
    for (card, _codec), figure in streams.items():
        if "engines x" in (figure.note or ""):
            assert catalog.accelerators[card].decode_engines, card
    known = {card.id: dict(card.figures()) for card in cards}
    assert known["a100-sxm4-80gb"]["encode_engines"] == 0.0
    assert known["jetson-agx-orin-64gb"]["dla_engines"] == 2.0
    assert known["jetson-orin-nano-8gb"]["dla_engines"] == 0.0


def test_ecc_costs_memory_on_gddr_only(cards: list[Accelerator]) -> None:
    """One sixteenth on GDDR (NVIDIA Best Practices Guide), nothing on HBM."""
    costs = {card.id: card.ecc_memory_cost_pct for card in cards if card.ecc_memory_cost_pct is not None}
    assert len(costs) > 40
    for card in cards:
        if card.id in costs and card.memory_type is not None:
            assert costs[card.id] == (0 if card.memory_type.startswith("HBM") else 6.25), card.id


PROCESSORS = (
    "xeon-platinum-8480-plus",
    "epyc-9654",
    "core-i9-14900k",
    "ryzen-9-7950x",
    "grace-cpu-superchip",
)


@pytest.mark.parametrize("name", PROCESSORS)
def test_processors_are_a_baseline(catalog: Catalog, name: str) -> None:
    """Rates, bandwidth, memory and power are there; memory is shared with everything else."""
    card = catalog.accelerators[name]
    assert card.family == "cpu"
    assert card.software == ("cpu",)
    assert card.unified_memory
    assert {"fp64", "fp32", "bf16"} <= set(card.dense_tflops)
    assert card.dense_tflops["fp32"] == pytest.approx(2 * card.dense_tflops["fp64"], rel=0.01)
    for figure in (card.memory_gb, card.memory_bandwidth_gb_s, card.power_w, card.launch_year):
        assert figure is not None
    assert card.memory_gb is not None
    assert card.memory_gb.note


def test_a_processor_is_named_by_its_family_when_it_has_one(catalog: Catalog) -> None:
    """The processors above are all there are."""
    assert {card.id for card in catalog.accelerators.values() if card.family == "cpu"} == set(PROCESSORS)


def test_rates_of_the_matrix_units_of_the_xeon(catalog: Catalog) -> None:
    """AMX: 1024 BF16 and 2048 INT8 operations per cycle and core, 56 cores at 2.0 GHz."""
    rates = catalog.accelerators["xeon-platinum-8480-plus"].dense_tflops
    assert rates["bf16"] == pytest.approx(56 * 1024 * 2.0e9 / 1e12, rel=1e-3)
    assert rates["int8"] == pytest.approx(2 * rates["bf16"], rel=1e-3)
