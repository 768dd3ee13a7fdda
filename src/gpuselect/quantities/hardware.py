"""Counted hardware and its limits: "8xH100", "2x8 H200", "8卡A100", "<=75W", "1080p@25"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple

from gpuselect.errors import InputError
from gpuselect.i18n import _
from gpuselect.quantities.text import (
    CHINESE_DIGIT,
    COMPARATOR,
    PLAIN,
    failure,
    small_integer,
    tidy,
)
from gpuselect.units import KILOWATT

_EXAMPLES = ("8xH100", "2x8 H200")
_COUNT = rf"(\d+|{CHINESE_DIGIT})"
_CARDS = r"(?:卡|张|块|片)"
_NODES = r"(?:机|节点|台)"
_TPU_SLICE = r"(?:tpu[- ]?)?(v\d+(?:e|p|litepod|x)?)-(\d+)"
_TPU_BY_CHIP = ("v5e", "v5litepod", "v6e")
_LINES = {"4k": 2160, "uhd": 2160, "2k": 1440, "qhd": 1440, "fhd": 1080, "hd": 720}


@dataclass(frozen=True, slots=True)
class Accelerators:
    """`count` cards of the kind `name` (as written; None where only a count was given)."""

    count: int
    name: str | None
    nodes: int | None = None
    note: str | None = None


class Resolution(NamedTuple):
    """Picture size [pixels]."""

    width: int
    height: int


@dataclass(frozen=True, slots=True)
class Streams:
    """Number of video streams with what was said about each."""

    count: int
    resolution: Resolution | None = None
    fps: float | None = None


def parse_accelerators(raw: object) -> list[Accelerators]:
    """Read counted cards; several kinds are separated by a comma or a plus.

    >>> [(cards.count, cards.name) for cards in parse_accelerators("8xH100 + 2x A100-80")]
    [(8, 'H100'), (2, 'A100-80')]
    >>> parse_accelerators("2x8 H200")[0].note
    '2x8 H200 is read as 16 cards in 2 nodes'
    >>> parse_accelerators("8卡A100")[0].count
    8
    """
    text = re.sub(r"\s*(?:gpus?|cards)$", "", tidy(raw), flags=re.IGNORECASE)
    parts = [part.strip() for part in re.split(r"\s*(?:[,;+、]| and )\s*", text)]
    return [_one_kind(part, raw=raw) for part in parts]


def _one_kind(text: str, *, raw: object) -> Accelerators:
    """Try the spellings from the most to the least specific; a bare name counts one."""
    if re.fullmatch(r"\d*\s*nodes?", text, flags=re.IGNORECASE):
        raise InputError(
            _("{text!r} names no card: write for example {first} or {second}").format(
                text=text, first=_EXAMPLES[0], second=_EXAMPLES[1]
            )
        )
    found = _slice(text) or _chinese(text) or _nodes(text) or _counted(text)
    if found is None:
        if not re.search(r"[a-z昇寒海]|\d{3}", text, flags=re.IGNORECASE):
            raise failure(what=_("a number of cards"), raw=raw, examples=_EXAMPLES)
        found = Accelerators(1, text)
    if found.count < 1 or found.nodes == 0:
        raise failure(what=_("a number of cards above 0"), raw=raw, examples=_EXAMPLES)
    return found


def _slice(text: str) -> Accelerators | None:
    """TPU slices: the generation, then the number of chips (`v6e-8`)."""
    match = re.fullmatch(_TPU_SLICE, text.lower())
    if match is None:
        return None
    note = None
    if match[1] not in _TPU_BY_CHIP:
        note = _("{text} is read as {count} chips (write {half}x{name} if it counts cores)").format(
            text=text, count=match[2], half=int(match[2]) // 2, name=match[1]
        )
    return Accelerators(int(match[2]), match[1], None, note)


def _chinese(text: str) -> Accelerators | None:
    """单机8卡A100, 双机16卡 H100 (cards in total), 8卡A100, A100 8卡."""
    nodes = rf"(?:{_COUNT}{_NODES})?\s*"
    cards = rf"{_COUNT}\s*{_CARDS}\s*"
    if match := re.fullmatch(rf"{nodes}{cards}(.*)", text):
        in_nodes, count, name = match[1], match[2], match[3]
    elif match := re.fullmatch(rf"(.+?)\s*[x*]?\s*{nodes}{cards}", text):
        name, in_nodes, count = match[1], match[2], match[3]
    else:
        return None
    return Accelerators(
        small_integer(count), name.strip() or None, small_integer(in_nodes) if in_nodes else None
    )


def _nodes(text: str) -> Accelerators | None:
    """2x8 H200, 4x(8x64G) 910B, 2 nodes of 8xH100."""
    flags = re.IGNORECASE
    if match := re.fullmatch(r"(\d+)\s*x\s*\((\d+)\s*x\s*(\d+gi?b?)\)\s*(.+)", text, flags=flags):
        nodes, each, name = int(match[1]), int(match[2]), f"{match[4]} {match[3]}"
    elif match := re.fullmatch(
        r"(\d+)\s*(?:x|\*|nodes?\s*(?:of|x|with)?)\s*(\d+)\s*(?:(?:x|\*|\s)\s*(.*\D.*|\d{3,}))?",
        text,
        flags=flags,
    ):
        nodes, each, name = int(match[1]), int(match[2]), match[3]
        if name is None and each >= 100:  # 3x3090: the second number is a card
            return None
        if name is None and nodes >= 100:  # 4090x2: the first number is a card
            return None
        if each >= 100 and not re.search("node", text, flags=flags):  # 2x4090 D
            return None
    else:
        return None
    note = _("{text} is read as {count} cards in {nodes} nodes").format(
        text=text, count=nodes * each, nodes=nodes
    )
    return Accelerators(nodes * each, name.strip() if name else None, nodes, note)


def _counted(text: str) -> Accelerators | None:
    """8xH100, 8 * A100, 8 H100, 3x3090, H100x8, 4090 x2."""
    flags = re.IGNORECASE
    if match := re.fullmatch(r"(\d+)\s*(?:x|\*)\s*(.*[a-z一-鿿].*|\d{3,}.*)", text, flags=flags):
        return Accelerators(int(match[1]), match[2])
    if match := re.fullmatch(
        r"(.*[a-z0-9 一-鿿])\s*(?:(?<!-)(?<!rt)(?<!gt)(?<!\br)x|\*)\s*(\d+)", text, flags=flags
    ):
        return Accelerators(int(match[2]), match[1].strip())
    match = re.fullmatch(r"(\d{1,2}|128|256|512|1024)\s+([a-z一-鿿].*|\d{3,}.*)", text, flags=flags)
    return Accelerators(int(match[1]), match[2]) if match else None


def parse_power(raw: object) -> float:
    """Read a power [W]; a bare number is in W.

    >>> parse_power("<=75W"), parse_power("1.2 kW")
    (75.0, 1200.0)
    """
    match = re.fullmatch(rf"{COMPARATOR}({PLAIN})\s*(kw|w|watts?|瓦)?", tidy(raw).lower())
    if match is None:
        raise failure(what=_("a power"), raw=raw, examples=("75W", "1.2kW"))
    return float(match[1]) * (KILOWATT if match[2] == "kw" else 1.0)


def parse_resolution(raw: object) -> Resolution:
    """Read a picture size; a number of lines stands for 16:9.

    >>> tuple(parse_resolution("1080p")), tuple(parse_resolution("1280x720"))
    ((1920, 1080), (1280, 720))
    """
    text = tidy(raw).lower()
    if match := re.fullmatch(r"(\d+)\s*[x*]\s*(\d+)", text):
        size = Resolution(int(match[1]), int(match[2]))
    else:
        match = re.fullmatch(r"(\d{3,4})[pi]", text)
        lines = int(match[1]) if match else _LINES.get(text, 0)
        size = Resolution(round(lines * 16 / 9), lines)
    if min(size) < 1:
        raise failure(what=_("a resolution"), raw=raw, examples=("1080p", "1920x1080"))
    return size


def parse_streams(raw: object) -> Streams:
    """Read a number of cameras, with resolution and rate where they are said.

    >>> parse_streams("16路 1080p@25")
    Streams(count=16, resolution=Resolution(width=1920, height=1080), fps=25.0)
    """
    match = re.fullmatch(
        r"(\d+)\s*(?:x|路|cameras?|streams?|channels?)?(?:\s*(?:of |at )?([\dx]+[pk]?|hd|fhd|uhd))?"
        r"(?:\s*@\s*(\d+(?:\.\d+)?)\s*(?:fps)?)?",
        tidy(raw).lower(),
    )
    if match is None or int(match[1]) < 1:
        raise failure(what=_("a number of streams"), raw=raw, examples=("16", "16 cameras"))
    return Streams(
        count=int(match[1]),
        resolution=parse_resolution(match[2]) if match[2] else None,
        fps=float(match[3]) if match[3] else None,
    )
