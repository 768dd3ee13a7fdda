"""`--launch DIR`: write the files that run the chosen option, all of them or none."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from gpuselect.cli.flags import Arguments, Flag
from gpuselect.cli.load import Inputs, overlays_of
from gpuselect.cli.output import note
from gpuselect.errors import InputError
from gpuselect.i18n import _

if TYPE_CHECKING:
    from gpuselect.decision import Option

EXECUTABLE, READABLE = 0o755, 0o644


def launch_flags() -> list[Flag]:
    """The two flags of the commands that can write launch files."""
    return [
        Flag("launch", _("Also write the files that run the chosen option to DIR."), metavar="DIR"),
        Flag("force", _("With --launch: overwrite files that are there."), "switch"),
    ]


def checked_folder(arguments: Arguments) -> Path | None:
    """The folder of --launch, checked before anything is computed."""
    given = arguments.get("launch")
    if not given:
        if arguments.get("force"):
            raise InputError(_("--force goes with --launch DIR"))
        return None
    folder = Path(given)
    if folder.exists() and not folder.is_dir():
        raise InputError(_("--launch: {folder} is not a folder").format(folder=folder))
    if not folder.absolute().parent.is_dir():
        raise InputError(_("--launch: there is no folder {folder}").format(folder=folder.absolute().parent))
    return folder


def write_launch(folder: Path, option: Option | None, inputs: Inputs, arguments: Arguments) -> None:
    """Write the launch files of an option; a note says what was written, or that nothing fits."""
    if option is None:
        note(_("nothing fits, so no launch files were written"), arguments)
        return
    from gpuselect.advisor import resolve_job
    from gpuselect.launch import launch_texts
    from gpuselect.readers.launch import load_templates

    job, _notes = resolve_job(inputs.workload, inputs.catalog, inputs.calibration)
    texts = launch_texts(
        option=option, job=job, workload=inputs.workload, catalog=inputs.catalog,
        templates=load_templates(overlays=overlays_of({**arguments, "quiet": True})),
    )  # fmt: skip
    write_folder(folder, texts, force=bool(arguments.get("force")))
    names = _(", ").join(texts)
    note(
        _("wrote {n} files to {folder}: {names}").format(n=len(texts), folder=folder, names=names), arguments
    )


def write_folder(folder: Path, texts: Mapping[str, tuple[str, bool]], *, force: bool) -> None:
    """Write (text, executable) by name. All are made beside the folder first and then put in place."""
    there = [name for name in texts if (folder / name).exists()]
    if there and not force:
        text = _("{folder} already holds {names}; --force overwrites")
        raise InputError(text.format(folder=folder, names=_(", ").join(there)))
    blocked = [name for name in there if (folder / name).is_dir()]
    if blocked:
        raise InputError(_("{path} is a folder").format(path=folder / blocked[0]))
    try:
        scratch = Path(mkdtemp(prefix=f".{folder.name}.", dir=folder.absolute().parent))
    except OSError as error:
        raise _cannot(folder, error) from error
    try:
        for name, (text, executable) in texts.items():
            (scratch / name).write_text(text, encoding="utf-8")
            (scratch / name).chmod(EXECUTABLE if executable else READABLE)
        folder.mkdir(exist_ok=True)
        for name in texts:
            (scratch / name).replace(folder / name)
    except OSError as error:
        raise _cannot(folder, error) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _cannot(folder: Path, error: OSError) -> InputError:
    return InputError(_("cannot write {path}: {reason}").format(path=folder, reason=_(error.strerror or "")))
