"""Flags, declared once: the workload's from the fields of `Workload`, the common ones here."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import typer

from gpuselect.errors import InputError
from gpuselect.i18n import _

Arguments = Mapping[str, Any]
Kind = Literal["text", "list", "switch", "pair", "argument", "arguments"]
ANNOTATIONS: Mapping[str, Any] = {
    "text": str | None,
    "list": list[str] | None,
    "switch": bool,
    "pair": bool | None,
    "argument": str | None,
    "arguments": list[str] | None,
}


NOT_FLAGS = frozenset({"parse_notes"})  # what the parsers say, not what a person gives


@dataclass(frozen=True, slots=True)
class Flag:
    """One option or argument of a command. `pair` has a --no- form and is unset by default."""

    name: str
    help: str
    kind: Kind = "text"
    spellings: tuple[str, ...] = ()
    metavar: str | None = None
    required: bool = False

    def parameter(self) -> inspect.Parameter:
        """The parameter of a function that typer reads as this flag."""
        info: Any
        metavar = self.metavar or {"text": "VALUE", "list": "A,B"}.get(self.kind)
        if self.kind in ("argument", "arguments"):
            info = typer.Argument(help=self.help, metavar=metavar, show_default=False)
        else:
            info = typer.Option(
                *(self.spellings or self._spellings()), help=self.help, metavar=metavar,
                show_default=False,
            )  # fmt: skip
        kind = ANNOTATIONS[self.kind]
        default: Any = False if self.kind == "switch" else None
        if self.required:
            kind = list[str] if self.kind == "arguments" else str
            default = inspect.Parameter.empty
        return inspect.Parameter(
            self.name, inspect.Parameter.KEYWORD_ONLY, default=default,
            annotation=Annotated[kind, info],
        )  # fmt: skip

    def _spellings(self) -> tuple[str, ...]:
        dashed = self.name.replace("_", "-")
        return (f"--{dashed}/--no-{dashed}",) if self.kind == "pair" else (f"--{dashed}",)


def as_callback(run: Callable[[Arguments], int], flags: Sequence[Flag]) -> Callable[..., None]:
    """A function for typer with one parameter for each flag; it leaves with the code of `run`."""

    def callback(**arguments: Any) -> None:
        from gpuselect.cli.failures import exit_code_of

        raise typer.Exit(exit_code_of(lambda: run(arguments), debug=bool(arguments.get("debug"))))

    parameters = [flag.parameter() for flag in flags]
    callback.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    callback.__annotations__ = {p.name: p.annotation for p in parameters}
    return callback


def workload_flags() -> list[Flag]:
    """--workload FILE and one flag for each field of `Workload`, with the field's own help."""
    from gpuselect.cli.workload_help import help_texts
    from gpuselect.workload import Workload

    helps = help_texts()
    file_flag = Flag(
        "workload", _("Read the workload from this YAML file; flags override it."),
        spellings=("--workload", "-w"), metavar="FILE",
    )  # fmt: skip
    fields = [
        Flag(name, field.description or helps.get(name, ""), kind_of(field.annotation))
        for name, field in Workload.model_fields.items()
        if name not in NOT_FLAGS
    ]
    return [file_flag, *fields]


def kind_of(annotation: Any) -> Kind:
    """How a field of that type is written on the command line.

    >>> kind_of(bool | None), kind_of(tuple[str, ...]), kind_of(float | None)
    ('pair', 'list', 'text')
    """
    if get_origin(annotation) in (Union, types.UnionType):
        kinds = {kind_of(part) for part in get_args(annotation) if part is not type(None)}
        return next((kind for kind in ("list", "pair") if kind in kinds), "text")
    if get_origin(annotation) is Annotated:
        return kind_of(get_args(annotation)[0])
    if annotation is bool:
        return "pair"
    origin = get_origin(annotation) or annotation
    if hasattr(origin, "_fields"):  # a named tuple is one value that a person writes as one word
        return "text"
    if isinstance(origin, type) and issubclass(origin, list | tuple | set | frozenset | Mapping):
        return "list"
    return "text"


def common_flags(formats: Sequence[str]) -> list[Flag]:
    """The flags that every command has; `formats` are the ones it can write."""
    names = "|".join(formats)
    json_flag = [Flag("json", _("Write JSON: the same as --format json."), "switch")]
    return [
        Flag("format", _("Form of the output; the first is the default."), metavar=names),
        *(json_flag if "json" in formats else []),
        Flag("wide", _("Show every column, however narrow the terminal is."), "switch"),
        Flag("quiet", _("No notes on standard error."), "switch", ("--quiet", "-q")),
        Flag("color", _("auto (the default: on a terminal), always or never."), metavar="WHEN"),
        Flag("no_color", _("The same as --color never (also NO_COLOR in the environment)."), "switch"),
        Flag("catalog", _("Folder with entries of your own; can be given again."), "list",
             metavar="DIR"),
        Flag("lang", _("Language of the answer: en or zh (also GPUSELECT_LANG)."), metavar="en|zh"),
        Flag("debug", _("Show the traceback of an error."), "switch"),
    ]  # fmt: skip


def chosen_format(arguments: Arguments, formats: Sequence[str]) -> str:
    """The output form that the flags ask for.

    >>> chosen_format({"json": True, "format": None}, ("table", "json"))
    'json'
    """
    given = arguments.get("format")
    if arguments.get("json"):
        if given not in (None, "json"):
            raise InputError(_("--json and --format {name} exclude each other").format(name=given))
        return "json"
    if given is None:
        return formats[0]
    if given not in formats:
        text = _("unknown format {name!r}; allowed are {names}")
        raise InputError(text.format(name=given, names=_(", ").join(formats)))
    return str(given)


def workload_mapping(arguments: Arguments) -> dict[str, Any]:
    """The workload file with the given flags laid over it; empty when neither was given."""
    from gpuselect.workload import Workload

    mapping: dict[str, Any] = {}
    if arguments.get("workload"):
        from pathlib import Path

        from gpuselect.readers.workload import read_workload_mapping

        written = read_workload_mapping(Path(arguments["workload"]))
        mapping.update({key.strip().lower().replace("-", "_"): v for key, v in written.items()})
    for name, field in Workload.model_fields.items():
        if (given := arguments.get(name)) not in (None, [], ()):
            is_list = kind_of(field.annotation) == "list"
            mapping[name] = listed(given) if is_list else given
    return _over_settings(mapping, arguments)


def _over_settings(mapping: dict[str, Any], arguments: Arguments) -> dict[str, Any]:
    """A workload with the settings of the configuration under it; which ones counted is said."""
    made = {n: s for n, s in (arguments.get("defaults") or {}).items() if n not in mapping}
    if not mapping or not made:
        return mapping
    from gpuselect.cli.output import note

    said = _(", ").join(f"{name}={setting.value} ({setting.origin})" for name, setting in made.items())
    note(_("from the configuration: {settings}").format(settings=said), arguments)
    return {**{name: setting.value for name, setting in made.items()}, **mapping}


def listed(values: Sequence[str]) -> list[str] | dict[str, str]:
    """Repeated and comma-separated values as one list, `key=value` pairs as a mapping.

    >>> listed(["a,b", "c"]), listed(["cost=0.5,speed=0.3"])
    (['a', 'b', 'c'], {'cost': '0.5', 'speed': '0.3'})
    """
    parts = [part.strip() for value in values for part in value.split(",") if part.strip()]
    if parts and all("=" in part for part in parts):
        return dict(tuple(part.split("=", 1)) for part in parts)  # type: ignore[misc]
    return parts
