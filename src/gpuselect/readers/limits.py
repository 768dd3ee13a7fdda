"""How much of a file is read at most: a file somebody sent must not fill the memory."""

from __future__ import annotations

import csv
import io
from pathlib import Path

from gpuselect.errors import CatalogError, GpuselectError
from gpuselect.i18n import _

YAML_BYTES = 8_000_000  # the largest file of the catalog has half a megabyte
TABLE_BYTES = 256_000_000


def read_bounded(path: Path, *, limit: int = YAML_BYTES, error: type[GpuselectError] = CatalogError) -> bytes:
    """The content of a file; raises `error` when it is larger than `limit` bytes or cannot be read.

    Devices and pipes have no size, so the limit holds for what is read, not for what is announced.

    >>> len(read_bounded(Path(__file__))) > 0
    True
    >>> read_bounded(Path(__file__), limit=10)
    Traceback (most recent call last):
    ...
    gpuselect.errors.CatalogError: ...limits.py is larger than 10 bytes, the most that is read
    """
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except (OSError, ValueError) as fault:  # ValueError: a NUL in the name
        reason = _(getattr(fault, "strerror", None) or str(fault))
        raise error(_("cannot read {path}: {reason}").format(path=path, reason=reason)) from None
    if len(content) > limit:
        text = _("{path} is larger than {limit} bytes, the most that is read")
        raise error(text.format(path=path, limit=limit))
    return content


def read_text_bounded(
    path: Path, *, limit: int = YAML_BYTES, error: type[GpuselectError] = CatalogError
) -> str:
    """The text of a UTF-8 file, within the same limits.

    >>> read_text_bounded(Path(__file__))[:3] == '"' * 3
    True
    """
    try:
        return read_bounded(path, limit=limit, error=error).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise error(_("cannot read {path}: it is not UTF-8 text").format(path=path)) from None


def csv_records(text: str, *, name: str) -> csv.DictReader[str]:
    r"""The rows of a table as dictionaries, whatever ends its lines; raises CatalogError for a huge cell.

    >>> [row["b"] for row in csv_records("a,b\r1,2\r\n3,4", name="x.csv")]
    ['2', '4']
    """
    plain = text.replace("\r\n", "\n").replace("\r", "\n")
    try:
        for _row in csv.reader(io.StringIO(plain)):
            pass
    except csv.Error as fault:
        raise CatalogError(f"{name}: {fault}") from None
    return csv.DictReader(io.StringIO(plain))
