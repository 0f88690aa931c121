"""Stage download: params.yaml -> data/raw/<data set> and data/raw/weights, checksummed.

Downloaded files are kept in `nsh.system.fetch.CACHE` until the stage is complete, so that an interrupted run continues.
"""

import shutil

from nsh.backbones import weights
from nsh.config import read_params
from nsh.data import registry
from nsh.project.paths import Project
from nsh.system.command import run_stage
from nsh.system.fetch import CACHE
from nsh.terminal import say, show_progress, take_no_arguments


def main() -> None:
    """Fetch the backbone's weights, which are smaller and more often misspelt, then the data set."""
    params, project = read_params(), Project()
    backbone, data_set = params.backbone, params.dataset.model_dump()
    weights.fetch(backbone.name, backbone.weights, into=project.weights, progress=show_progress, say=say)
    registry.fetch(raw=project.raw, **data_set, progress=show_progress, say=say)
    shutil.rmtree(CACHE, ignore_errors=True)


if __name__ == "__main__":
    take_no_arguments(__doc__)
    run_stage(main)
