"""What a command needs before it can ask the advisor: catalog, workload, constants."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuselect.cli.flags import Arguments, workload_mapping
from gpuselect.cli.output import note
from gpuselect.errors import InputError
from gpuselect.i18n import _

if TYPE_CHECKING:
    from gpuselect.calibration import Calibration
    from gpuselect.catalog import Accelerator, Catalog
    from gpuselect.tco import CostDefaults
    from gpuselect.workload import Workload


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything that the advisor is called with."""

    workload: Workload
    catalog: Catalog
    calibration: Calibration
    defaults: CostDefaults


def overlays_of(arguments: Arguments) -> tuple[Path, ...]:
    """The user's own folder where there is one, then those of --catalog; said on standard error."""
    from gpuselect.cli.config import user_folder

    given = tuple(Path(folder) for folder in arguments.get("catalog") or ())
    for folder in given:
        if not folder.is_dir():
            raise InputError(_("--catalog: there is no folder {folder}").format(folder=folder))
    own = user_folder() / "catalog"
    if own.is_dir():
        note(_("figures of your own from {folder}").format(folder=own), arguments)
    return ((own,) if own.is_dir() else ()) + given


def catalog_of(arguments: Arguments) -> Catalog:
    """The catalog with the user's own folders laid over it."""
    from gpuselect.readers.catalog import load_catalog

    return load_catalog(overlays=overlays_of(arguments))


def inputs_of(arguments: Arguments) -> Inputs:
    """Workload first, so that a typing error is found before the catalog is read."""
    from gpuselect.workload import Workload

    mapping = workload_mapping(arguments)
    if not mapping:
        text = _(
            "no workload given: name at least --task and --model or --params, for example "
            "`--task pretrain --params 10B`, or a file with --workload"
        )
        raise InputError(text)
    return with_workload(Workload.from_mapping(mapping), arguments)


def with_workload(workload: Workload, arguments: Arguments) -> Inputs:
    """The inputs of the advisor for a workload that is already read."""
    from gpuselect.advisor import current_date
    from gpuselect.readers.calibration import load_calibration, load_defaults
    from gpuselect.readers.model_files import with_model_file
    from gpuselect.tco.currency import in_dollars

    workload, catalog = with_model_file(workload, catalog_of(arguments))
    workload = in_dollars(workload, catalog, today=current_date())
    defaults = load_defaults(overlays=overlays_of({**arguments, "quiet": True}))
    return Inputs(workload, catalog, load_calibration(), defaults)


def accelerator_of(name: str, catalog: Catalog, arguments: Arguments) -> Accelerator:
    """The accelerator of that name; how a loose name was read goes to standard error."""
    from gpuselect.names import resolve_accelerator

    accelerator, sentence = resolve_accelerator(name, catalog)
    note(sentence or "", arguments)
    return accelerator
