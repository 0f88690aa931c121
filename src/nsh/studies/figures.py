"""The paper's other figures, of trials that `make table` has measured -> docs/results.md and docs/results/*.png.

Precision-recall curves, precision within Hamming radius 2, and t-SNE of codes; of the first seed. Measures nothing.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from nsh.config import read_params
from nsh.core.codes import unpack
from nsh.data.split import read_header, read_part
from nsh.errors import DataError
from nsh.reports.pictures import draw_precision_recall, draw_radius_two, to_png
from nsh.studies.command import make_call, open_parser, open_setting
from nsh.studies.document import made_with, write_picture, write_section
from nsh.studies.pictures import draw_codes
from nsh.studies.rows import make_trials
from nsh.studies.setting import Setting, title_of
from nsh.studies.table import BITS
from nsh.studies.trials import Result, read_results, select
from nsh.system.command import run_command

METHODS = ("nsh", "nsh_plus", "itq", "agh", "cibhash")
CODES_METHODS, CODES_BITS = ("nsh_plus", "nsh"), (32, 64)
QUERIES = 2_000
SEED = 0


def main() -> None:
    """Draw what is measured and write the section."""
    parser = open_parser(__doc__)
    parser.add_argument("--methods", nargs="+", default=METHODS, help=f"draw curves of these (default: {METHODS})")
    arguments, params = parser.parse_args(), read_params()
    setting = open_setting(arguments, params)
    results = read_results(setting)
    curves = select(results, make_trials(params, arguments.methods, bits=BITS, seeds=1))
    codes = select(results, make_trials(params, CODES_METHODS, bits=CODES_BITS, seeds=1))
    if not curves:
        raise DataError(f"none of {', '.join(arguments.methods)} is measured yet: run `make table` before")
    call = make_call("figures", arguments.setting)
    if tuple(arguments.methods) != METHODS:
        call += f' METHODS="{" ".join(arguments.methods)}"'
    text = "\n\n".join(
        [
            f"## {title_of(arguments.setting)}: curves and codes",
            "Of the trials of the table, the first training seed.",
            *draw_curves(curves, setting=arguments.setting),
            *([draw_map(codes, setting)] if codes else []),
            made_with(call),
        ]
    )
    write_section(f"{arguments.setting}-figures", text)
    print(text)


def draw_curves(results: Sequence[Result], *, setting: str) -> list[str]:
    """Write the pictures of curves and balls; the Markdown that shows them."""
    measured = [result.measured for result in results]
    return [
        write_picture(
            f"{setting}-pr",
            to_png(draw_precision_recall(measured)),
            caption="Precision and recall, over the ranking and over the radius of the ball",
        ),
        write_picture(
            f"{setting}-lookup", to_png(draw_radius_two(measured)), caption="Within Hamming radius 2 of the query"
        ),
    ]


def draw_map(results: Sequence[Result], setting: Setting) -> str:
    """Write the picture of the queries' codes; the Markdown that shows it."""
    split = setting.project.split
    names, labels = read_header(split)["classes"], read_part(split, "query").labels
    if labels is None:
        raise DataError(f"the images of {setting.name} have no labels to colour them by")
    rows = choose_queries(len(labels))
    places = {
        (result.trial.method, result.trial.bits): place_codes(
            unpack(result.codes("query")[rows], bits=result.trial.bits)
        )
        for result in sorted(results, key=lambda result: CODES_METHODS.index(result.trial.method))
    }
    return write_picture(
        f"{setting.name}-tsne",
        to_png(draw_codes(places, labels[rows].argmax(axis=1), names)),
        caption=f"t-SNE of the codes of {len(rows):,} queries, drawn at random, by their Hamming distances",
    )


def choose_queries(count: int) -> NDArray[np.int64]:
    """Rows of at most `QUERIES` of them, ascending."""
    rows = np.random.default_rng(SEED).choice(count, size=min(count, QUERIES), replace=False)
    return np.sort(rows)


def place_codes(codes: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Places in the plane, float64 [n, 2], of codes bool [n, bits] by t-SNE, n > 30.

    van der Maaten and Hinton, "Visualizing Data using t-SNE", JMLR 2008. It weighs by squared Euclidean distances,
    which are four times the Hamming distances where bits are -1 and 1.
    """
    from sklearn.manifold import TSNE

    signs = np.where(codes, np.float32(1), np.float32(-1))
    places = TSNE(n_components=2, perplexity=30, init="pca", random_state=SEED, n_jobs=1).fit_transform(signs)
    return places.astype(np.float64)  # type: ignore[no-any-return]


if __name__ == "__main__":
    run_command(main)
