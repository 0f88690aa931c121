"""Stage export: data/embed/backbone.onnx and models/<method>-<bits>/head.pt -> encoder.onnx and parity.json beside it.

With `export.precision` fp16 or int8 the encoder's backbone is made smaller, and what that costs is measured.
"""

from nsh.config import read_params
from nsh.project.paths import Project
from nsh.stages.export import export_encoder
from nsh.system.command import run_stage
from nsh.system.files import write_json
from nsh.terminal import show_progress, take_pair


def main() -> None:
    """Make the encoder of a pair."""
    pair = take_pair("Make models/<method>-<bits>/encoder.onnx of a trained head.")
    params, project = read_params(), Project()
    smaller = export_encoder(
        project,
        project.of(pair),
        parameters=params.methods.model_dump().get(pair.method, {}),
        data_set=params.dataset,
        smaller=None if params.export.precision == "fp32" else params.export.model_dump(),
        threads=params.compute.threads,
        progress=show_progress,
    )
    if smaller is not None:
        # Beside the outputs, never in them: a measured time differs from run to run.
        write_json(project.cache("export") / f"{pair.key}-{smaller.precision}.json", smaller.speed)
        print(smaller)


if __name__ == "__main__":
    run_stage(main)
