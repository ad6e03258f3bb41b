"""A run as a picture: times as multiples of the ceiling's."""

from pathlib import Path

import matplotlib as mpl
from matplotlib import pyplot

from tests.bench.figures import Figures, moment
from tests.bench.records import Run

BARS = {"slipway": "#1f77b4", "jobset": "#ff7f0e", "kuberay": "#9467bd"}
KINDS = ("create", "burst", "restart")


def draw(run: Run, path: Path) -> None:
    """Write an SVG: how many times the ceiling's time until all pods exist, for each workload and system."""
    # The same figures give the same bytes.
    mpl.rcParams.update({"svg.hashsalt": "slipway", "svg.fonttype": "none", "font.size": 9})
    figures = Figures(run)
    shown = [one for one in figures.workloads() if one[0].startswith(KINDS) and one[1] == "unthrottled"]
    picture, axes = pyplot.subplots(figsize=(8, 0.5 + 0.6 * len(shown)))
    for offset, (system, colour) in enumerate(BARS.items()):
        for row, workload in enumerate(shown):
            ratio = figures.ratio(workload, system, "ceiling", moment("exist"))
            if ratio is None:
                continue
            place = row + 0.27 * (offset - 1)
            spread = [[ratio.middle - ratio.least], [ratio.most - ratio.middle]]
            label = system if row == 0 else None
            axes.barh(place, ratio.middle, 0.25, xerr=spread, color=colour, ecolor="#888", label=label)
            axes.text(ratio.most, place, f" {ratio.middle:.1f}", va="center", fontsize=8)
    axes.axvline(1, color="#444", linewidth=0.8)
    axes.set_yticks(range(len(shown)), [one[0] for one in shown])
    axes.invert_yaxis()
    axes.set_xlabel("time until all pods exist, in multiples of a bare client's")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="lower right")
    picture.tight_layout()
    picture.savefig(path, metadata={"Date": None})
    pyplot.close(picture)
