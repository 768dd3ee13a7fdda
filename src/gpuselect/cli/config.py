"""Settings that hold for every call, and `gpuselect config show`.

A flag wins over the workload file, that over a `GPUSELECT_*` variable, that over the project file
(`gpuselect.toml`, or `[tool.gpuselect]` in pyproject.toml, in this folder or the nearest one above),
that over the user's file, that over the built-in default.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gpuselect.cli.flags import Arguments, Flag, chosen_format, common_flags, listed, workload_flags
from gpuselect.errors import InputError
from gpuselect.i18n import _

FORMATS = ("table", "json")
PREFIX = "GPUSELECT_"
OWN_VARIABLES = ("GPUSELECT_CONFIG", "GPUSELECT_NO_CONFIG")
# What is asked is no setting: an answer must not change its question because of a forgotten file.
QUESTION = frozenset({"workload", "task", "model", "params", "active_params", "series"})
NOT_SETTINGS = frozenset({"json", "color_off"})
YES, NO = frozenset({"1", "true", "yes", "on"}), frozenset({"0", "false", "no", "off", ""})
FILE_BYTES = 100_000
DETAILS = """\
ACTION is show: every setting that is made, and with --origin where it was made. A flag wins over
the workload file, that over GPUSELECT_NAME in the environment, that over gpuselect.toml or
[tool.gpuselect] in pyproject.toml (this folder or one above), that over your own config.toml.
GPUSELECT_CONFIG names another file in place of both, GPUSELECT_NO_CONFIG=1 leaves all of them out.

\b
Examples:
  gpuselect config show --origin
  GPUSELECT_REGION=eu gpuselect recommend --task pretrain --params 10B
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """A value and where it was made."""

    name: str
    value: Any
    origin: str


def user_folder() -> Path:
    """The user's configuration folder, as the platform names it. It need not exist."""
    import platformdirs

    return Path(platformdirs.user_config_path("gpuselect", appauthor=False, roaming=True))


def flags() -> list[Flag]:
    """Flags of the command."""
    return [
        Flag("action", _("show."), "argument", metavar="ACTION", required=True),
        Flag("origin", _("Also say where each setting was made."), "switch"),
        *common_flags(FORMATS),
    ]


def run(arguments: Arguments) -> int:
    """Print the settings."""
    from gpuselect.cli.output import terminal_style, write_out

    form = chosen_format(arguments, FORMATS)
    if arguments["action"].strip().lower() != "show":
        raise InputError(_("no action {given!r}; allowed is show").format(given=arguments["action"]))
    found = settings()
    if form == "json":
        from gpuselect.report.plain import to_text

        rows = [{"name": s.name, "value": s.value, "origin": s.origin} for s in found.values()]
        write_out(to_text({"schema_version": 1, "command": "config", "settings": rows, "files": sources()}))
        return 0
    from gpuselect.report import grid
    from gpuselect.report.console import grid_text

    columns = [grid.Column("name", _("Setting")), grid.Column("value", _("Value"))]
    columns += [grid.Column("origin", _("Made in"))] if arguments.get("origin") else []
    rows = [{"name": s.name, "value": s.value, "origin": s.origin} for s in found.values()]
    below = _("Files that were read: {files}").format(files=", ".join(sources()) or _("none"))
    style = terminal_style(arguments)
    write_out(grid_text(grid.as_grid(columns, rows), [0] * len(columns), style, below=below))
    return 0


def known_settings() -> dict[str, Flag]:
    """Every setting by name: the workload's keys but for the question, and the common flags."""
    found = [*workload_flags(), *common_flags(("table", "json", "markdown", "csv"))]
    return {f.name: f for f in found if f.name not in QUESTION | NOT_SETTINGS}


def settings() -> dict[str, Setting]:
    """What the environment and the files set, the strongest only."""
    made: dict[str, Setting] = {}
    if _read_flag("GPUSELECT_NO_CONFIG"):
        return made
    known: dict[str, Flag] = {}
    for origin, raw in (*_file_layers(), ("environment", _variables())):
        if not raw:
            continue
        known = known or known_settings()
        for key, value in raw.items():
            name = key.strip().lower().replace("-", "_")
            where = f"{PREFIX}{name.upper()}" if origin == "environment" else origin
            made[name] = Setting(name, _value(name, value, known, where), where)
    return made


def sources() -> list[str]:
    """Names of the files that were read."""
    return [] if _read_flag("GPUSELECT_NO_CONFIG") else [origin for origin, _raw in _file_layers()]


def applied(arguments: Arguments, flags: Sequence[Flag]) -> dict[str, Any]:
    """The arguments with the settings under them: those of the workload in `defaults`, see `load`."""
    result = dict(arguments)
    accepted = {flag.name: flag for flag in flags}
    defaults: dict[str, Any] = {}
    for name, setting in settings().items():
        flag = accepted.get(name)
        if flag is None or arguments.get(name) not in (None, False, [], ()):
            continue
        if name in _common_names():
            if _applies(name, setting.value, flag, arguments):
                result[name] = setting.value
        else:
            defaults[name] = setting
    return {**result, "defaults": defaults} if defaults else result


def _applies(name: str, value: Any, flag: Flag, arguments: Arguments) -> bool:
    """A form of output that the command does not have is left out, and one that --json overrides."""
    if name != "format":
        return True
    return value in (flag.metavar or "").split("|") and not arguments.get("json")


def _common_names() -> frozenset[str]:
    return frozenset(flag.name for flag in common_flags(("table", "json")))


def _value(name: str, value: Any, known: Mapping[str, Flag], where: str) -> Any:
    """A setting in the form that the parser of flags gives."""
    flag = known.get(name)
    if flag is None:
        if name in QUESTION:
            text = _("{where}: {name} belongs to the question: give it as a flag or in a workload file")
            raise InputError(text.format(where=where, name=name))
        close = get_close_matches(name, list(known), n=1)
        hint = _("; did you mean {name}?").format(name=close[0]) if close else ""
        raise InputError(_("{where}: no setting {name!r}{hint}").format(where=where, name=name, hint=hint))
    if flag.kind in ("switch", "pair"):
        text = str(value).strip().lower()
        if text not in YES | NO:
            text = _("{where}: {name} is true or false, not {value!r}")
            raise InputError(text.format(where=where, name=name, value=value))
        return text in YES
    if flag.kind == "list":
        if isinstance(value, Mapping):
            return {str(key): item for key, item in value.items()}
        words = [str(item) for item in value] if isinstance(value, list) else [str(value)]
        return words if name == "catalog" and isinstance(value, list) else listed(words)
    if isinstance(value, list | Mapping):
        raise InputError(_("{where}: {name} takes one value").format(where=where, name=name))
    return value if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


def _variables() -> dict[str, str]:
    """The GPUSELECT_* variables, by setting."""
    return {
        key.removeprefix(PREFIX).lower(): value
        for key, value in os.environ.items()
        if key.startswith(PREFIX) and key not in OWN_VARIABLES
    }


def _read_flag(name: str) -> bool:
    return os.environ.get(name, "").strip().lower() not in NO


def _file_layers() -> list[tuple[str, Mapping[str, Any]]]:
    """The weaker file first: (how messages name it, its settings)."""
    if named := os.environ.get("GPUSELECT_CONFIG"):
        if not Path(named).is_file():
            raise InputError(_("GPUSELECT_CONFIG: there is no file {path}").format(path=named))
        return [(named, _read_toml(Path(named)))]
    layers: list[tuple[str, Mapping[str, Any]]] = []
    own = user_folder() / "config.toml"
    if own.is_file():
        layers.append((str(own), _read_toml(own)))
    if project := _project_file(_folders_above()):
        layers.append(project)
    return layers


def _folders_above() -> Iterable[Path]:
    try:
        here = Path.cwd()
    except OSError:  # the folder was removed
        return ()
    return (here, *here.parents)


def _project_file(folders: Iterable[Path]) -> tuple[str, Mapping[str, Any]] | None:
    """The settings of the nearest project."""
    for folder in folders:
        own = folder / "gpuselect.toml"
        if own.is_file():
            return str(own), _read_toml(own)
        project = folder / "pyproject.toml"
        if project.is_file() and b"tool.gpuselect" in _bytes(project):
            table = _read_toml(project).get("tool", {}).get("gpuselect")
            if isinstance(table, Mapping):
                return f"{project} [tool.gpuselect]", table
    return None


def _bytes(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(FILE_BYTES + 1)
    except OSError as error:
        text = _("cannot read {path}: {why}")
        raise InputError(text.format(path=path, why=_(error.strerror or ""))) from None


def _read_toml(path: Path) -> Mapping[str, Any]:
    import tomllib

    content = _bytes(path)
    if len(content) > FILE_BYTES:
        raise InputError(_("{path} is larger than {n} bytes").format(path=path, n=FILE_BYTES))
    try:
        return tomllib.loads(content.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: {error or type(error).__name__}") from None
