"""`gpuselect completion SHELL`, and what its script asks for while somebody types."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from typing import Any, Literal, get_args, get_origin

from gpuselect.cli.flags import Arguments, Flag
from gpuselect.errors import InputError
from gpuselect.i18n import _

DETAILS = """\
SHELL is bash, zsh, fish or powershell. The script goes to standard output; no file of yours is changed.

\b
Examples:
  eval "$(gpuselect completion bash)"
  gpuselect completion zsh > ~/.zfunc/_gpuselect
  gpuselect completion fish > ~/.config/fish/completions/gpuselect.fish
"""
SCRIPTS: Mapping[str, str] = {
    "bash": """\
_gpuselect() {
    local IFS=$'\\n'
    COMPREPLY=($(gpuselect __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _gpuselect gpuselect
""",
    "zsh": """\
#compdef gpuselect
_gpuselect() {
    local -a found
    found=("${(@f)$(gpuselect __complete "${words[@]:1:$((CURRENT-1))}" 2>/dev/null)}")
    if [[ -n "${found[1]}" ]]; then compadd -- "${found[@]}"; else _files; fi
}
if [[ "$funcstack[1]" = "_gpuselect" ]]; then _gpuselect "$@"; else compdef _gpuselect gpuselect; fi
""",
    "fish": """\
function __gpuselect_complete
    set -l words (commandline -opc) (commandline -ct)
    gpuselect __complete $words[2..-1] 2>/dev/null
end
complete -c gpuselect -a '(__gpuselect_complete)'
""",
    "powershell": """\
Register-ArgumentCompleter -Native -CommandName gpuselect -ScriptBlock {
    param($word, $ast, $cursor)
    $words = @($ast.CommandElements | Select-Object -Skip 1 | ForEach-Object { $_.ToString() })
    if ($word -eq '') { $words += '""' }
    gpuselect __complete @words 2>$null | ForEach-Object {
        [System.Management.Automation.CompletionResult]::new($_, $_, 'ParameterValue', $_)
    }
}
""",
}
CARD_FLAGS = frozenset({"on", "gpus", "exclude", "have", "cards"})
COUNTED = re.compile(r"((?:.*,)?(?:\d+x)?)([^,]*)", re.DOTALL)  # what stays, and the name being typed
NAMED: Mapping[str, str] = {
    "model": "models.yaml", "frameworks": "frameworks.yaml", "engine": "frameworks.yaml",
    "weights": "formats.yaml", "kv": "formats.yaml",
}  # fmt: skip
SHOWN = ("gpus.yaml", "models.yaml", "frameworks.yaml", "systems.yaml", "formats.yaml")


def flags() -> list[Flag]:
    """Flags of the command."""
    return [
        Flag("shell", _("bash, zsh, fish or powershell."), "argument", metavar="SHELL", required=True),
        Flag("debug", _("Show the traceback of an error."), "switch"),
    ]


def run(arguments: Arguments) -> int:
    """Print the script."""
    from gpuselect.cli.output import write_out

    shell = arguments["shell"].strip().lower()
    if shell not in SCRIPTS:
        text = _("no completion for {shell!r}; there is one for {names}")
        raise InputError(text.format(shell=arguments["shell"], names=", ".join(SCRIPTS)))
    write_out(SCRIPTS[shell])
    return 0


def complete(words: Sequence[str]) -> int:
    """Print what the last word may become, one to a line. A fault prints nothing: nobody could read it."""
    try:
        found = candidates([word.strip('"') for word in words] or [""])
        sys.stdout.write("".join(f"{word}\n" for word in found))
        sys.stdout.flush()
    except Exception:  # noqa: BLE001  see the docstring
        return 1
    return 0


def candidates(words: Sequence[str]) -> list[str]:
    """What the last of `words` may become.

    >>> candidates(["rec"]), candidates(["compare", "a100", "h100-n"])[:1]
    (['recommend'], ['h100-nvl-94gb'])
    >>> candidates(["estimate", "--on", "8xh100-p"])[:1], candidates(["recommend", "--task", "fin"])
    (['8xh100-pcie-80gb'], ['finetune'])
    """
    from gpuselect.cli.app import PACKAGE, summaries

    *before, typed = words
    known = summaries()
    if not before:
        return _starting(typed, [*known, "--help", "--version"])
    if before[0] not in known:
        return []
    options: Sequence[Flag] = import_module(f"{PACKAGE}.{known[before[0]][0]}").flags()
    if typed.startswith("-"):
        return _starting(typed, [s for flag in options for s in spellings(flag)] + ["--help"])
    asked = next((flag for flag in options if before[-1] in spellings(flag)), None)
    if asked is None or asked.kind in ("switch", "pair"):
        asked = next((flag for flag in options if flag.kind in ("argument", "arguments")), None)
    return _values(asked, before[0], typed) if asked is not None else []


def spellings(flag: Flag) -> list[str]:
    """How a flag is written: long, short, and the --no- form; none for an argument.

    >>> spellings(Flag("ecc", "", "pair")), spellings(Flag("files", "", "arguments"))
    (['--ecc', '--no-ecc'], [])
    """
    if flag.kind in ("argument", "arguments"):
        return []
    dashed = flag.name.replace("_", "-")
    written = flag.spellings or (
        (f"--{dashed}", f"--no-{dashed}") if flag.kind == "pair" else (f"--{dashed}",)
    )
    return list(written)


def _starting(typed: str, words: Iterable[str]) -> list[str]:
    return [word for word in dict.fromkeys(words) if word.lower().startswith(typed.lower())]


def _values(flag: Flag, command: str, typed: str) -> list[str]:
    """The words that a flag or an argument may take; none where anything may stand."""
    kept, part = "", typed
    if (flag.kind in ("list", "arguments") or flag.name in CARD_FLAGS) and (
        split := COUNTED.fullmatch(typed)
    ):
        kept, part = split[1], split[2]
    return [kept + word for word in _starting(part, _words(flag, command))]


def _words(flag: Flag, command: str) -> Iterable[str]:
    from gpuselect.readers.catalog import known_names

    if (command, flag.kind) == ("show", "argument"):
        return [name for file in SHOWN for name in known_names(file)]
    if command == "explain" and flag.kind in ("argument", "arguments"):
        return [*_codes(), *known_names("gpus.yaml")]
    file = "gpus.yaml" if flag.name in CARD_FLAGS else NAMED.get(flag.name)
    if file is not None:
        return known_names(file)
    if flag.metavar and "|" in flag.metavar:
        return flag.metavar.split("|")
    return _SPECIAL[flag.name]() if flag.name in _SPECIAL else literals(flag.name)


def _codes() -> list[str]:
    from gpuselect.note_texts import DEFAULTS, NOTES
    from gpuselect.rules import EXPLANATIONS

    return [*EXPLANATIONS, *NOTES, *DEFAULTS]


def _kinds() -> list[str]:
    from gpuselect.cli.listings import COLUMNS

    return list(COLUMNS)


_SPECIAL: Mapping[str, Callable[[], Iterable[str]]] = {
    "kind": _kinds,
    "shell": lambda: SCRIPTS,
    "color": lambda: ("auto", "always", "never"),
}


def literals(name: str) -> list[str]:
    """The words that a key of the workload may be, where they are few.

    >>> literals("codec")
    ['h264', 'h265', 'av1']
    """
    from gpuselect.workload import Workload

    field = Workload.model_fields.get(name)
    return [str(word) for word in _literal_words(field.annotation)] if field is not None else []


def _literal_words(annotation: Any) -> Iterable[Any]:
    if get_origin(annotation) is Literal:
        return get_args(annotation)
    return [word for part in get_args(annotation) for word in _literal_words(part)]
