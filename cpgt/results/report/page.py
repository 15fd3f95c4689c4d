"""The page: templates filled from the files of runs. Everything that a file says is escaped.

Loads jinja2 and matplotlib: an extra installs them, and a run does without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from msgspec import UNSET

from cpgt.models.evaluate import MEANINGS, Evaluation
from cpgt.results.printing import distance_rows, kernel_lines, privacy_lines
from cpgt.results.report import drawings
from cpgt.results.report.graph import draw_graph, shown_layer
from cpgt.results.report.record import RunRecord, read_record
from cpgt.results.summary import Summary
from cpgt.results.traffic import ALL_LAYERS, HEADINGS, Means

LAYERS = list(zip(ALL_LAYERS, HEADINGS, strict=True))
COEFFICIENTS = 300  # that are shown; model.json has all


def write_report(folder: Path) -> Path:
    """Write the report of a run into its folder, or write it again."""
    path = folder / "report.html"
    _replace(path, run_page(read_record(folder)))
    return path


def write_comparison(folders: Sequence[Path], path: Path) -> None:
    _replace(path, comparison_page([read_record(folder) for folder in folders]))


def _replace(path: Path, page: str) -> None:
    partial = path.with_name(f"{path.name}.part")
    partial.write_text(page, encoding="utf-8")
    partial.replace(path)


def run_page(run: RunRecord) -> str:
    summary, windows = run.summary, run.windows
    drawn = {
        "graph": draw_graph(run) if summary.bytes.edges else "",
        "convergence": drawings.draw_convergence(run) if windows else "",
        "layers": _draw_layers(_bars(run)) if summary.rounds else "",
        "epsilon": drawings.draw_epsilon(run) if run.epsilon else "",
    }
    resent = windows.get("resent", np.zeros(0))
    return _fill(
        "run.html",
        drawn,
        run=run,
        runs=1,
        summary=summary,
        distances=distance_rows(summary.residual) if summary.rounds else [],
        window_rows=[[_exact(v) for v in row] for row in zip(*windows.values(), strict=True)],
        resent_rows=[(windows["round"][k], resent[k]) for k in np.flatnonzero(resent)],
        edge_layer=shown_layer(run),
        kernel_lines=kernel_lines(summary.bytes),
        privacy_lines=privacy_lines(summary.privacy),
        coefficients=list(_coefficients(run))[:COEFFICIENTS],
        meanings=MEANINGS,
        quality=_quality(summary),
    )


def _coefficients(run: RunRecord) -> Iterator[tuple[str, float]]:
    """Of a softmax, the name has the class before the feature."""
    for name, value in (run.model.coefficients if run.model else {}).items():
        if isinstance(value, dict):
            yield from ((f"{name}: {feature}", each) for feature, each in value.items())
        else:
            yield name, value


def _quality(summary: Summary) -> list[tuple[str, list[Evaluation]]]:
    """This model and the baselines, each with its figures on the test records."""
    if not summary.test:
        return []
    baselines = (summary.baselines or {}).items()
    named = [(name.replace(", ", ", privacy: "), models) for name, models in baselines]
    return [("all together", [summary.test]), *named]


def comparison_page(runs: Sequence[RunRecord]) -> str:
    records = dict(zip(_names(runs), runs, strict=True))
    bars = {name: run.summary.bytes.per_round for name, run in records.items()}
    moved = any(run.windows for run in runs)
    drawn = {
        "comparison": drawings.draw_comparison(records) if moved else "",
        "layers": _draw_layers(bars),
    }
    return _fill(
        "comparison.html", drawn, records=records, runs=len(runs), differences=_differences(runs)
    )


def _fill(template: str, drawn: Mapping[str, str], **values: Any) -> str:
    templates = Environment(
        loader=PackageLoader("cpgt.results.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    return templates.get_template(template).render(
        version=version("cpgt"),
        layers=LAYERS,
        # matplotlib has escaped the names in them
        drawings={name: Markup(svg) for name, svg in drawn.items()},
        **values,
    )


def _exact(value: float) -> float | int | None:
    if np.isnan(value):
        return None
    return int(value) if value == int(value) else float(value)


def _bars(run: RunRecord) -> dict[str, Means]:
    twin = run.summary.uncompressed
    ours = {"this network": run.summary.bytes.per_round}
    return ours if twin is UNSET else {**ours, "uncompressed": twin.per_round}


def _draw_layers(bars: Mapping[str, Means]) -> str:
    """Only where the kernels counted: without headers the picture would not be the whole."""
    known = {name: sizes for name, sizes in bars.items() if None not in sizes.values()}
    return drawings.draw_layers(known) if known else ""


def _names(runs: Sequence[RunRecord]) -> list[str]:
    """Their folders' names, or whole paths if two have the same name."""
    names = [run.folder.resolve().name for run in runs]
    if len(set(names)) == len(names):
        return names
    return [f"{k}: {run.folder}" for k, run in enumerate(runs, 1)]


def flattened(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """(key.path, value) of everything in a dictionary of dictionaries."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from flattened(inner, f"{prefix}.{key}" if prefix else str(key))
    else:
        yield prefix, _shown(value)


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_shown, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def _differences(runs: Sequence[RunRecord]) -> list[tuple[str, list[str]]]:
    settings = [dict(flattened(run.summary.network)) for run in runs]
    keys = dict.fromkeys(key for each in settings for key in each)
    rows = [(key, [each.get(key, "-") for each in settings]) for key in keys]
    return [(key, values) for key, values in rows if len(set(values)) > 1]
