"""Stage encode: models/<method>-<bits>/encoder.onnx -> codes/<method>-<bits>/{query,gallery}, as production encodes."""

from nsh.config import read_params
from nsh.project.paths import Project
from nsh.stages.encode import encode_split
from nsh.system.command import run_stage
from nsh.terminal import show_progress, take_pair


def main() -> None:
    """Encode query and gallery."""
    pair = take_pair("Turn query and gallery into codes with models/<method>-<bits>.")
    params, project = read_params(), Project()
    encode_split(
        project,
        project.of(pair),
        data_set=params.dataset,
        device=params.compute.device,
        threads=params.compute.threads,
        batch=params.encode.batch,
        progress=show_progress,
    )


if __name__ == "__main__":
    run_stage(main)
