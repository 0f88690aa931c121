"""Stage train: data/embed -> models/<method>-<bits>/{head.pt, backbone.pt, history.json}.

head.pt is the head's state dict, backbone.pt what fine-tuning has changed in the backbone's (nothing, where it is
frozen), history.json one record an epoch or iteration. A cut run goes on from its last checkpoint.

Fine-tuning reads the images and the backbone's weights too. data/embed stands for them among the dependencies: it is
made of them, so that it changes when they do; here they are held against what it says of them.
"""

import argparse
import time
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nsh.config import Params, read_params
from nsh.core.codes import code_bytes
from nsh.errors import DataError
from nsh.export import tuned
from nsh.methods import Loop, Method, TrainingData, create
from nsh.objectives.heads.linear import to_bytes
from nsh.system.command import run_stage
from nsh.system.files import atomic_path, read_json, write_json
from nsh.system.progress import no_progress
from nsh.terminal import show_progress
from nsh.tracking import Report, training_run
from nsh.training.device import choose_device
from nsh.training.finetune.ranks import are_started, check_ranks, start_ranks, this_rank
from nsh.training.loop import CachedViewLoop
from nsh.training.reproducible import reproducible

if TYPE_CHECKING:
    from nsh.backbones.networks import Backbone

RAW, SPLIT, EMBED, MODELS = Path("data/raw"), Path("data/split"), Path("data/embed"), Path("models")
CACHE = Path(".cache/nsh/train")


def main() -> None:
    """Train one method at one code length."""
    parser = argparse.ArgumentParser(description="Learn models/<method>-<bits>/head.pt from the cached embeddings.")
    parser.add_argument("--method", required=True, help="a block of params.yaml's methods, e.g. nsh")
    parser.add_argument("--bits", required=True, type=int, help="length of a code, e.g. 32")
    arguments = parser.parse_args()
    code_bytes(arguments.bits)  # refuses what is no length of a code before anything is read
    params = read_params()
    method = create(arguments.method, params.methods.model_dump().get(arguments.method, {}))
    device = choose_device(params.compute.device)
    ranks = _missing_ranks(params, method, device=device)
    if ranks:
        start_ranks(ranks)
    else:
        _train(method, params, bits=arguments.bits, device=device)


def _missing_ranks(params: Params, method: Method, *, device: str) -> int:
    """How many processes are to be started to fine-tune together; 0 if this one does it."""
    ranks, batch = params.train.finetune.ranks, getattr(method, "batch", None)
    if params.train.mode == "frozen" or ranks == 1 or batch is None or are_started():
        return 0
    check_ranks(ranks, batch=batch, device=device)
    return ranks


def _train(method: Method, params: Params, *, bits: int, device: str) -> None:
    folder, threads = MODELS / f"{method.name}-{bits}", params.train.threads
    history: list[dict[str, float]] = []
    start = time.monotonic()
    with _track(params, method=method.name, bits=bits, head=folder / "head.pt") as track:

        def report(record: dict[str, float]) -> None:
            track(record)
            history.append(record)

        loop, backbone = _open_loop(params, device=device)
        before = tuned.copy_state(backbone.network) if backbone else {}
        with reproducible(threads):
            head = method.fit(read_data(), bits=bits, seed=params.train.seed, report=report, loop=loop)
        if _rank(params):
            return
        changes = tuned.find_changes(backbone.network, before) if backbone else {}
        _write(folder / "head.pt", to_bytes(head))
        _write(folder / "backbone.pt", tuned.to_bytes(changes))
        write_json(folder / "history.json", [_round(record) for record in history])
    if isinstance(loop, CachedViewLoop):
        loop.clear()  # not before: a process that dies between the two would have trained for nothing
    print(f"{folder}: loss {history[0]['loss']:.4f} to {history[-1]['loss']:.4f} in {len(history)} rounds, ", end="")
    print(f"{time.monotonic() - start:.1f} s on {device} with {threads} thread(s)")


def _round(record: dict[str, float]) -> dict[str, float]:
    """To six significant digits: float32 has hardly more, and what is behind them is rounding."""
    return {name: float(f"{value:.6g}") if isinstance(value, float) else value for name, value in record.items()}


def _rank(params: Params) -> int:
    """Number of this process; of those that train heads alone, each does so for itself."""
    return this_rank() if params.train.mode == "finetune" else 0


def _track(params: Params, *, method: str, bits: int, head: Path) -> AbstractContextManager[Report]:
    """The run in MLflow, which rank 0 alone opens."""
    if _rank(params):
        return nullcontext(lambda record: None)
    return training_run(Path(), params, method=method, bits=bits, head=head)


def _open_loop(params: Params, *, device: str) -> "tuple[Loop, Backbone | None]":
    """The loop that the mode asks for, and the backbone that it changes, if it does."""
    progress = no_progress if _rank(params) else show_progress
    threads = params.train.threads
    if params.train.mode == "frozen":
        return CachedViewLoop(cache=CACHE, threads=threads, device=device, progress=progress), None
    # Slow to import, and of no use above.
    from nsh.backbones import networks, weights
    from nsh.data.registry import open_images
    from nsh.data.split import read_header, read_part
    from nsh.export.graph import ImageToEmbedding
    from nsh.training.finetune.files import ImageFiles
    from nsh.training.finetune.loop import FineTuningLoop
    from nsh.training.finetune.recipe import Recipe

    info, seen, data_set = weights.read(RAW / "weights"), params.backbone, params.dataset
    here = {"backbone": seen.name, "weights_sha256": info.sha256, "split_sha256": read_header(SPLIT)["sha256"]}
    _require_same(here | {"image_size": seen.image_size, "resample": seen.resample})
    backbone = networks.build(seen.name, weights=info.path, image_size=seen.image_size)
    images = ImageFiles(
        ids=read_part(SPLIT, "train").ids,
        digest=here["split_sha256"],
        load=open_images(data_set.name, raw=RAW, root=data_set.root, labels=data_set.labels).image,
        size=seen.image_size,
        resample=seen.resample,
        workers=params.compute.threads,
    )
    loop = FineTuningLoop(
        network=ImageToEmbedding(backbone),
        images=images,
        recipe=Recipe(**params.train.finetune.model_dump(exclude={"ranks"})),
        cache=CACHE,
        threads=threads,
        device=device,
        progress=progress,
    )
    return loop, backbone


def _require_same(here: dict[str, object]) -> None:
    """Make sure that the embeddings were made of the images and weights that are here now."""
    header = read_json(EMBED / "embed.json")
    wrong = [name for name, value in here.items() if header.get(name) != value]
    if wrong:
        raise DataError(
            f"{EMBED} was made with another {' and '.join(wrong)} than is here now: run `dvc repro embed` first"
        )


def read_data() -> TrainingData:
    """Features into memory, views as a map of the file."""
    try:
        return TrainingData(np.load(EMBED / "train.npy"), np.load(EMBED / "views.npy", mmap_mode="r"))
    except FileNotFoundError as error:
        raise DataError(f"{error.filename} is not here: run `dvc repro embed` first") from error


def _write(path: Path, content: bytes) -> None:
    with atomic_path(path) as partial:
        partial.write_bytes(content)


if __name__ == "__main__":
    run_stage(main)
