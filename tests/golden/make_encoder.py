"""Make tests/golden/encoder.onnx: a small network behind the same contract as the tests' large one.

Production's tests use it where there is no torch to export one with. Every later version must read it: make it anew
(`python tests/golden/make_encoder.py`) only with a new schema of the contract, or a new version of the preprocessing.
"""

import runpy
from pathlib import Path

import torch
from torch import nn

from nsh.backbones.pixels import ImageToEmbedding
from nsh.export.graph import export_backbone, join_head, save

HERE = Path(__file__).parent
CHANNELS = (16, 32, 64)


def main() -> None:
    shared = runpy.run_path(str(HERE.parent / "conftest.py"))
    contract = shared["CONTRACT"]
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for inputs, outputs in zip((3, *CHANNELS), CHANNELS, strict=False):
        layers += [nn.Conv2d(inputs, outputs, 3, stride=2, padding=1), nn.ReLU()]
    backbone = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    head = nn.Linear(CHANNELS[-1], contract.bits)
    photographs = torch.from_numpy(shared["cut_photographs"]()[:64])
    with torch.no_grad():
        embeddings = ImageToEmbedding(backbone)(photographs)
        head.weight.normal_()
        head.bias.copy_(-(embeddings @ head.weight.T).mean(dim=0))  # balanced bits
    save(join_head(export_backbone(backbone, image_size=contract.image_size), head, contract), HERE / "encoder.onnx")


if __name__ == "__main__":
    main()
