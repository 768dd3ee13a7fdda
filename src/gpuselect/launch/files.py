"""Which templates fit an option, and the files that they make of it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from gpuselect.launch.fill import Facts, Value, fill_text, fill_tree
from gpuselect.launch.template import FileTemplate, Part, Template

ROLE_ORDER = {"engine": 0, "settings": 1, "scheduler": 2}


@dataclass(frozen=True, slots=True)
class LaunchFile:
    """One file to be written, and the tool it is for."""

    path: str
    text: str
    executable: bool
    template: Template


@dataclass(frozen=True, slots=True)
class Launch:
    """The chosen templates in order, with the facts that each of them sees."""

    templates: tuple[tuple[Template, Facts], ...]

    @property
    def files(self) -> tuple[LaunchFile, ...]:
        """Every file but the README. The first template that makes a path owns it."""
        made: dict[str, LaunchFile] = {}
        for template, facts in self.templates:
            for file in template.files:
                if fits(file, facts) and file.path not in made and not _hollow(text_of(file, facts)):
                    made[file.path] = LaunchFile(file.path, text_of(file, facts), file.executable, template)
        return tuple(made.values())


def choose(templates: Sequence[Template], facts: Facts, *, kind: str) -> Launch:
    """The templates that fit the framework and the job of an option.

    Every engine that fits is written, the first by `order` is the one that schedulers start: they see its
    entry, image, port and tables as facts. Where none fits, the template without frameworks stands in.
    """
    able = [t for t in templates if _suits(t, facts, kind)]
    engines = sorted(
        (t for t in able if t.role == "engine"), key=lambda t: (not t.frameworks, t.order, t.tool)
    )
    if not engines:
        return Launch(())
    first = engines[0]
    known = _with_tables(first, {**facts, "entry": str(first.entry), "engine": first.tool})
    if first.port is not None:
        known["port"] = first.port
    image = fill_text(first.image or "", known)
    if image:
        known["image"] = image
    named = [t for t in engines if t.frameworks] or [first]
    rest = sorted(
        (t for t in able if t.role != "engine"), key=lambda t: (ROLE_ORDER[t.role], t.order, t.tool)
    )
    chosen = []
    for template in (*named, *rest):
        own = _with_tables(template, known if template is first or template.role != "engine" else facts)
        own["made_for"] = made_for(template)
        if template.port is not None:
            own["port"] = template.port
        if fits(template, own) and any(fits(file, own) for file in template.files):
            chosen.append((template, own))
    return Launch(tuple(chosen))


def made_for(template: Template) -> str:
    """Tool, version and the date of its option list, as the head of a file says it."""
    newest = max(read.as_of for read in template.read)
    return f"{template.name} {template.version}, options read on {newest}"


def _hollow(text: str) -> bool:
    """Whether only comments are left of a text."""
    return all(not line.strip() or line.startswith("#") for line in text.splitlines())


def fits(part: Part, facts: Facts) -> bool:
    """Whether a template, a file or a step has what it needs."""
    return all(n in facts for n in part.needs) and not any(n in facts for n in part.unless)


def _suits(template: Template, facts: Facts, kind: str) -> bool:
    """Whether framework and job are those of the template; an engine must have what it needs, too."""
    framework = not template.frameworks or facts["framework"] in template.frameworks
    job = not template.jobs or kind in template.jobs
    engine = template.role != "engine" or fits(template, _with_tables(template, facts))
    return framework and job and engine


def _with_tables(template: Template, facts: Facts) -> dict[str, Value]:
    """The facts and what the tables of a template derive from them; an unlisted value derives nothing."""
    known = dict(facts)
    for name, table in template.tables.items():
        found = table.values.get(str(known.get(table.of, "")))
        if found is not None:
            known[name] = found
    return known


def text_of(file: FileTemplate, facts: Facts) -> str:
    """The text of a file."""
    if file.tree is not None:
        return json.dumps(fill_tree(file.tree, facts), indent=2) + "\n"
    return fill_text(file.text or "", facts)
