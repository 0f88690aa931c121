"""Make the project in this folder a tiny one: the profile `quick` on 192 pictures of noise in two colours.

It runs in the image `train`, in a clone (see train.sh).
"""

from pathlib import Path

import numpy as np
import yaml
from PIL import Image

from nsh.config.profiles import compose

IMAGES, SIDE = 192, 48
CHANGES = {
    "matrix": {"bits": [16]},
    "dataset": {"name": "folder"},
    "split": {"train": 144, "gallery": 176, "query": 16},
    "evaluate": {"k": 10},
}

generator = np.random.default_rng(0)
for number in range(IMAGES):
    label = ("red", "blue")[number % 2]
    pixels = generator.integers(0, 128, (SIDE, SIDE, 3), dtype=np.uint8)
    pixels[..., ("red", "green", "blue").index(label)] += 127
    path = Path(f"data/local/{label}/{number:03d}.png")
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).save(path)

quick = Path("params/quick.yaml")
params = yaml.safe_load(compose(Path("params.yaml").read_text(), quick.read_text(), name=str(quick))[0])
for block, values in CHANGES.items():
    params[block] |= values
Path("params.yaml").write_text(yaml.safe_dump(params))
