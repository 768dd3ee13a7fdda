"""Types of the launch templates in data/launch, one file per tool. Read by `gpuselect.readers.launch`.

A line of a text (or a key of a tree) that names an absent fact is left out, so that a template needs
no conditions. Three marks stand in a text: `<<fact>>` is replaced by its value, `<<?fact>>` is replaced
by nothing and keeps the line only where the fact is known, `<<!fact>>` only where it is not.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, model_validator

from gpuselect.i18n import _

Role = Literal["engine", "settings", "scheduler"]
Stage = Literal["install", "prepare", "start", "schedule", "accept"]
STAGES: tuple[Stage, ...] = ("install", "prepare", "start", "schedule", "accept")


class Part(BaseModel):
    """What every part of a template has: where it fits. `needs` and `unless` name facts."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    needs: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()


class FileTemplate(Part):
    """One file: a text, or a tree that becomes JSON. `options` is the list its options come from."""

    path: str
    text: str | None = None
    tree: dict[str, Any] | None = None
    executable: bool = False
    options: str | None = None

    @model_validator(mode="after")
    def _one_form(self) -> FileTemplate:
        if (self.text is None) == (self.tree is None):
            raise ValueError(_("a file has either a text or a tree"))
        if self.path.startswith(("/", ".")) or "/" in self.path or "\\" in self.path:
            raise ValueError(_("{path!r} is not the plain name of a file").format(path=self.path))
        return self


class Step(Part):
    """One step of the README: what to do, and the command where there is one."""

    at: Stage
    do: str
    run: str | None = None


class Table(BaseModel):
    """A fact that follows from another one: `of` names it, `values` gives the new value."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    of: str
    values: dict[str, str | int]


class Read(BaseModel):
    """Where the options were read: title, place, version and date."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    title: str
    address: str
    place: str
    as_of: str  # ISO date on which it was read


class Template(Part):
    """The files of one tool.

    `role`: an engine starts the work and names its `entry`, `image` and `port`; settings stand beside
    one; a scheduler starts the entry of the engine. `frameworks` are ids of frameworks.yaml, empty: all.
    `jobs`: pretrain, full, lora, qlora, inference, train-network, infer-network, video, hpc; empty: all.
    """

    tool: str
    name: str
    version: str
    read: tuple[Read, ...]
    role: Role
    order: int = 0  # the lowest engine that fits is the one that is scheduled
    frameworks: tuple[str, ...] = ()
    jobs: tuple[str, ...] = ()
    tables: dict[str, Table] = {}
    entry: str | None = None
    image: str | None = None
    port: int | None = None
    files: tuple[FileTemplate, ...]
    steps: tuple[Step, ...] = ()
    doubts: tuple[str, ...] = ()  # what a reader should know before trusting the files

    @model_validator(mode="after")
    def _sound(self) -> Template:
        if (self.role == "engine") != (self.entry is not None):
            raise ValueError(_("an engine, and only an engine, has an entry"))
        if self.entry is not None and self.entry not in {file.path for file in self.files}:
            raise ValueError(_("the entry {entry!r} is none of the files").format(entry=self.entry))
        return self
