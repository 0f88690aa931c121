"""Metrics of codes: retrieval figures if there are labels, bit figures and an estimate always.

A gallery item is *relevant* to a query if the two share at least one label. The gallery is ranked by
(distance, gallery row). If the gallery has fewer than k items, k is its size.
All retrieval figures are means over ALL queries. A query without a value (no relevant item in the top k, none in
the gallery, or an empty ball) counts as 0; no query is skipped.
r_k is the number of relevant items in the top k, R that in the gallery.

    mAP_at_k            (1/r_k) * sum over relevant ranks j <= k of r_j / j
    mAP_min_at_k        the same sum over min(R, k); never above P_at_k for R >= k
    mAP_tie_aware_at_k  the expectation of mAP_at_k over random orders of equal distances
    mAP_at_k_reranked   mAP_at_k after the first max(k, 1000) are ordered again by the query's logits
    mAP_at_k_first_b_bits   mAP_at_k by the first b bits alone, of nested codes
    P_at_k              r_k / k
    recall_at_k         r_k / R
    P_at_H2             relevant share of the items at a distance <= 2
    empty_ball_share    share of queries with no item at a distance <= 2

mAP_at_k is the paper's. `nsh.core.metrics.precision` defines its three forms in full, `nsh.core.reranking` the order of
mAP_at_k_reranked. That one compares real values with bits (asymmetric); all others compare bits with bits.

Over the gallery's codes, with p_b the share of ones of bit b:

    bit_balance          1 - mean over b of |2 p_b - 1|; 1: all even
    constant_bits_share  share of bits that are the same in every code
    unique_codes         number of different codes
    code_entropy         mean over b of the entropy of p_b, in bits; 1: all even

From codes and float embeddings, without labels:

    estimated_mAP_at_k   agreement of near codes with near embeddings, times the tightness of near codes; it ranks
                         encoders on one gallery (`nsh.core.metrics.estimate`)

Knows nothing of files, models or data sets.
"""

from nsh.core.metrics.cosine import cosine_map
from nsh.core.metrics.evaluation import Evaluation, evaluate
from nsh.core.metrics.examples import find_examples
from nsh.core.metrics.nested_codes import evaluate_nested, nested_name
from nsh.core.metrics.paired import Difference, bootstrap_interval, paired_difference
from nsh.core.metrics.tables import CURVES, PROTOCOL, Table, to_csv

__all__ = [
    "CURVES",
    "PROTOCOL",
    "Difference",
    "Evaluation",
    "Table",
    "bootstrap_interval",
    "cosine_map",
    "evaluate",
    "evaluate_nested",
    "find_examples",
    "nested_name",
    "paired_difference",
    "to_csv",
]
