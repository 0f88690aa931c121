"""NSH among neighbours: positives from the graph of shared neighbours, lists from a queue. Ours, not published.

From NSH (Yu, Shen, Wang, Zhang, Torr, "Learning to Hash Naturally Sorts", IJCAI 2022; see `nsh.methods.nsh`): bits by
the sign with the gradient of the identity, items sorted softly by the distance of their codes, SortedNCE on their
latents in that order.

New here:

- A pair is a view of an image and a view of one of its neighbours, the images that share most neighbours with it
  (`nsh.objectives.graphs.neighbours`), and not two views of one image. This gives most of the gain.
- Embeddings are projected on the directions in which images differ and their views do not
  (`nsh.objectives.closed_forms.whitening`). Neighbours are found there, and it is the input of the hash head, which has
  a hidden layer.
- An image's latent is its projection on the first of these directions and is not learned, so the sorted list teaches
  the codes which images are similar. A learned latent head helped at 16 bits alone (docs/experiments.md).
- NT-Xent on the codes (Chen et al., "A Simple Framework for Contrastive Learning of Visual Representations", ICML 2020;
  on codes: Qiu et al., IJCAI 2021) is added, and logits are normalised over the batch: a hidden layer under SortedNCE
  alone ended at chance. L_R is left out, because the bits are balanced already.
- Lists are longer than a batch: a queue holds the codes and latents of former steps
  (`nsh.objectives.sorting.sorted_queue`).
- The loss is symmetric: each side of a pair is the anchor once.
- The softsort temperature is in Hamming steps: below one step a list of short codes is not sorted softly at all.
- Neighbours are a share of the images, so that they mean the same in small and large sets.

The objective is `nsh.objectives.sorting.among_neighbours`, which `nsh.methods.nsh_nested` shares.
"""

from dataclasses import dataclass

from nsh.objectives.sorting.among_neighbours import NeighbourMethod
from nsh.ranges import Count, Positive, PositiveShare, Several, Weight


@dataclass(frozen=True, kw_only=True)
class NshPlus(NeighbourMethod):
    """NSH among neighbours, ours."""

    epochs: Count = 8
    batch: Several = 128
    learning_rate: Positive = 2e-3
    m: Count = 10  # positives at the head of the sorted list, 1 <= m < batch
    tau_s: Positive = 2.0  # softsort temperature in Hamming steps: 2 / bits on the affinity in [0, 1]
    tau_c: Positive = 0.2  # contrastive temperature of SortedNCE
    d_z: Count = 16  # length of the latent vector: the first of the directions
    queue: Count = 256  # codes and latents of earlier steps, behind the batch in the sorted list
    sorting: Weight = 1.0  # weight of SortedNCE
    temperature: Positive = 0.3  # of NT-Xent on the codes
    neighbours: PositiveShare = 0.0075  # share of the images that are neighbours of one, its positives
    directions: Count = 128  # of the whitened embedding
    hidden: Count = 512  # length of the hidden layer

    name = "nsh_plus"

    def __post_init__(self) -> None:
        if not 1 <= self.m < self.batch:
            raise ValueError(f"m = {self.m} positives in a list of {self.batch}: choose 1 <= m < batch")
