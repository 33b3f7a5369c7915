"""``tinytrain bench report``: one Markdown page, one HTML page and the plots, from logs."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from tinytrain.base.errors import InputError
from tinytrain.base.files import check_writable, write_bytes, write_failed
from tinytrain.meta.bench.document import Figure, html, markdown
from tinytrain.meta.bench.matrix import load_matrix
from tinytrain.meta.bench.missing import missing, missing_blocks
from tinytrain.meta.bench.narrow import narrowed
from tinytrain.meta.bench.rates import read_rates
from tinytrain.meta.bench.record import checked
from tinytrain.meta.bench.sections import report_blocks
from tinytrain.meta.bench.tables import tables
from tinytrain.meta.run_log import read_log

TITLE = "Benchmark: policies on paired episodes"


def write_report(
    logs: Sequence[str | os.PathLike],
    folder: str | os.PathLike,
    rates: str | os.PathLike | None = None,
    matrix: str | os.PathLike | None = None,
    packs: Collection[str] | None = None,
    episodes: int | None = None,
) -> dict:
    """Write the report of the records in `logs` to `folder`; its figures and the files as JSON values.

    `rates` is the file of their tuned learning rates. With a `matrix`, backbones are compared with those that
    they were trained from, and the report names the runs that the logs lack. `packs` and `episodes` choose
    some packs, and the first episodes of each.

    Raises InputError for logs that are none or hold nothing of this, and StorageError.
    """
    every = [record for log in logs for record in read_log(log, checked)]
    known = sorted({record["pack"] for record in every})
    # With a matrix, it says which packs there are, and the report what the logs lack of them.
    if not matrix and (unknown := [pack for pack in packs or () if pack not in known]):
        raise InputError(
            "unknown-name", f"{len(every)} records, none of pack {unknown[0]!r}; there are {', '.join(known)}"
        )
    records = [
        record
        for record in every
        if (packs is None or record["pack"] in packs) and (episodes is None or record["episode"] < episodes)
    ]
    if not records:
        raise InputError(
            "run-mismatch", f"{len(logs)} logs hold 0 records that were asked for; run: tinytrain bench run"
        )
    tuned, folder = read_rates(rates) if rates else None, Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise write_failed(folder, error) from error
    check_writable(folder / "report.md")
    planned = narrowed(load_matrix(matrix)[0], packs=packs, episodes=episodes) if matrix else None
    facts = tables(records, planned.starts if planned else {})
    blocks = report_blocks(facts, tuned)
    if planned:
        facts["missing"] = missing(planned, records)
        blocks += missing_blocks(planned.name, facts["missing"])
    files = {block.file: block.svg for block in blocks if isinstance(block, Figure)}
    files |= {"report.md": markdown(TITLE, blocks), "report.html": html(TITLE, blocks)}
    for name, content in files.items():
        write_bytes(folder / name, content.encode())
    return {"files": [str(folder / name) for name in files], **facts}
