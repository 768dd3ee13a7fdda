"""A bare `gpuselect recommend` on a terminal: at most eight questions, then the command that they make."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpuselect.cli.flags import Arguments
from gpuselect.errors import InputError
from gpuselect.i18n import N_, _

TRIES = 3
MOST = 8
Ask = Callable[[str], str]
TASKS = {
    "pretrain": N_("train a model from scratch"), "finetune": N_("adapt a model that exists"),
    "inference": N_("serve a model"), "video": N_("watch camera streams"), "hpc": N_("run a scientific code"),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Question:
    """One question; an empty answer leaves the key to the documented default."""

    key: str
    text: str
    example: str
    needed: bool = False


def asked(arguments: Arguments) -> Arguments:
    """The arguments with the answers, when nothing was said about the workload and somebody is there."""
    from gpuselect.workload import Workload

    empty: tuple[Any, ...] = (None, False, [], ())
    said = any(arguments.get(name) not in empty for name in ("workload", "workloads", *Workload.model_fields))
    if said or arguments.get("json") or arguments.get("quiet") or not _somebody_there():
        return arguments
    answers = ask(_from_terminal, say=lambda text: print(text, file=sys.stderr))  # noqa: T201
    command = " ".join(["gpuselect recommend", *words(answers)])
    print(_("\nThe same without questions:\n  {command}\n").format(command=command), file=sys.stderr)  # noqa: T201
    return {**arguments, **{key: _as_argument(key, text) for key, text in answers.items()}}


def _somebody_there() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _from_terminal(prompt: str) -> str:
    """One line from the terminal; its end (Ctrl-D) leaves like Ctrl-C."""
    sys.stderr.write(prompt)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise KeyboardInterrupt
    return line.strip()


def ask(answer: Ask, *, say: Callable[[str], None]) -> dict[str, str]:
    """Ask; each answer is checked before the next question, an empty one takes the default.

    >>> replies = iter(["2", "7B", "qlora", "", "", "", "", ""])
    >>> ask(lambda prompt: next(replies), say=lambda text: None)
    {'task': 'finetune', 'params': '7B', 'method': 'qlora'}
    """
    say(_("A few questions. Enter leaves one open, and the answer says what was assumed; Ctrl-C leaves."))
    for number, (task, meaning) in enumerate(TASKS.items(), 1):
        say(f"  {number} {task:9}  {_(meaning)}")
    answers: dict[str, str] = {}
    questions = [Question("task", _("What is it?"), "1, pretrain", needed=True)]
    number = 0
    while questions:
        question, *questions = questions
        number += 1
        given = _one(question, number, answers, answer, say)
        answers |= given
        if question.key == "task":
            questions = list(after(answers["task"]))
    return answers


def after(task: str) -> Sequence[Question]:
    """The questions about a task; with the task itself no more than eight."""
    model = Question("model", _("Which model, or of what size?"), "llama-3.1-8b, 7B, resnet-50", needed=True)
    own = {
        "pretrain": [
            model,
            Question("tokens", _("How many tokens?"), "200B"),
            Question("deadline", _("By when?"), "30d"),
        ],
        "finetune": [
            model,
            Question("method", _("Which method?"), "full, lora, qlora"),
            Question("tokens", _("How many tokens?"), "50M"),
        ],
        "inference": [
            model,
            Question("concurrency", _("How many requests at the same time?"), "32"),
            Question("ttft", _("How long may the first token take?"), "500ms"),
        ],
        "video": [
            Question("streams", _("How many streams?"), "16 cameras 1080p@25", needed=True),
            Question("codec", _("Which codec?"), "h264, h265, av1"),
        ],
        "hpc": [
            Question("flops", _("How many floating-point operations?"), "1e18", needed=True),
            Question("bytes", _("How many bytes of traffic?"), "1PB"),
        ],
    }[task]
    return [
        *own,
        Question("have", _("Which accelerators do you own? Only these are used."), "2x3090"),
        Question("budget", _("Is there a budget?"), "$5000, $2/h, $10k/month"),
        Question("region", _("In which region?"), "eu"),
        Question("prefer", _("What counts most?"), "balanced, cost, speed, energy, simplicity"),
    ]


def _one(
    question: Question, number: int, answers: dict[str, str], answer: Ask, say: Callable[[str], None]
) -> dict[str, str]:
    """The answer to one question, asked again while it cannot be understood."""
    for _try in range(TRIES):
        hint = _("such as {example}").format(example=question.example)
        asked_for = _("{text} ({about})").format(text=question.text, about=hint)
        given = answer(f"{number}. {asked_for}\n   > ")
        if not given and not question.needed:
            return {}
        try:
            return checked(question.key, given, answers)
        except InputError as error:
            say(f"   {error}")
    raise InputError(_("{n} answers could not be understood; `gpuselect recommend --help`").format(n=TRIES))


def checked(key: str, given: str, answers: dict[str, str]) -> dict[str, str]:
    """The answer as flags; raises InputError when it cannot be understood.

    >>> checked("model", "70B", {"task": "inference"}), checked("task", "3", {})
    ({'params': '70B'}, {'task': 'inference'})
    """
    from gpuselect.workload import Workload

    if not given:
        raise InputError(_("this one needs an answer"))
    if key == "task" and given in [str(n) for n in range(1, len(TASKS) + 1)]:
        given = list(TASKS)[int(given) - 1]
    if key == "model":
        key, given = _model_or_size(given)
    work = Workload.from_mapping({**_parsed(answers), key: _as_argument(key, given)})
    return {key: str(work.task) if key == "task" else given}


def _model_or_size(given: str) -> tuple[str, str]:
    from gpuselect.names import resolve_model
    from gpuselect.quantities import parse_params
    from gpuselect.readers.catalog import load_catalog

    try:
        return "model", resolve_model(given, load_catalog()).id
    except InputError as unknown:
        try:
            parse_params(given)
        except InputError:
            raise unknown from None
        return "params", given


def _parsed(answers: dict[str, str]) -> dict[str, Any]:
    return {key: _as_argument(key, text) for key, text in answers.items()}


def _as_argument(key: str, text: str) -> Any:
    """An answer as the parser of flags would give it."""
    from gpuselect.cli.flags import kind_of
    from gpuselect.workload import Workload

    return [text] if kind_of(Workload.model_fields[key].annotation) == "list" else text


def words(answers: dict[str, str]) -> list[str]:
    """The answers as words of a command line.

    >>> words({"task": "inference", "budget": "$2/h"})
    ['--task', 'inference', '--budget', "'$2/h'"]
    """
    return [
        word
        for key, text in answers.items()
        for word in (f"--{key.replace('_', '-')}", shlex.quote(text))
    ]  # fmt: skip
