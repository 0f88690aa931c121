import dataclasses

import numpy as np

from nsh.core.metrics import bootstrap_interval
from nsh.reports.heading import best_pair
from nsh.reports.markdown import results_markdown


def table_rows(text, start):
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith(start)
    ]


def test_every_pair_stands_beside_the_paper(measured, heading):
    text = results_markdown(measured, heading, pictures=["training.png"])
    assert table_rows(text, "| float embedding") == [
        ["float embedding, cosine", "", "0.7500", "", "0.6000", "", "0.6250", "0.2500", "", ""]
    ]
    assert table_rows(text, "| nsh |")[:2] == [
        ["nsh", "16", "**0.6250**", "0.706", "0.3125", "0.6150", "0.5250", "0.1250", "0.3000", "0.6450"],
        ["nsh", "32", "0.5000", "0.733", "0.2500", "0.4900", "0.4000", "0.1250", "0.3000", "0.5200"],
    ]
    assert table_rows(text, "| itq |")[:2] == [
        ["itq", "16", "0.3750", "0.305", "0.1875", "0.3650", "0.2750", "0.1250", "0.3000", "0.3950"],
        ["itq", "32", "**0.5625**", "0.325", "0.2812", "0.5525", "0.4625", "0.1250", "0.3000", "0.5825"],
    ]
    assert table_rows(text, "| CIBHash |") == [["CIBHash", "0.590", "0.622", "0.641"]]
    assert table_rows(text, "| **nsh, ours**") == [["**nsh, ours**", "0.625", "0.500", ""]]
    assert "queries and gallery are the paper's" in text
    assert "![Training loss](training.png)" in text
    assert "retrieval.png" not in text


def test_the_papers_images_are_those_of_the_data_set(measured, heading):
    heading = dataclasses.replace(heading, data_set="coco", k=5000)
    text = results_markdown(measured, heading, pictures=[])
    assert "10,000 queries and a gallery of 50,000 here, 5,000 and 117,218 there" in text
    assert table_rows(text, "| NSH |") == [["NSH", "0.746", "0.774", "0.783"]]


def precise(measure, method, values):
    return dataclasses.replace(measure(method, 16, float(values.mean())), average_precision=values)


def test_what_chance_could_turn_is_a_tie(measure, heading):
    hard, noise = np.random.default_rng(0).uniform(0.2, 0.6, 400), np.random.default_rng(1).normal(0, 0.1, 400)
    values = {"nsh": hard + 0.101, "mbe": hard + 0.1 + noise - noise.mean(), "itq": hard + 0.05}
    text = results_markdown([precise(measure, name, row) for name, row in values.items()], heading, pictures=[])
    mean = hard.mean()
    shown = {name: table_rows(text, f"| {name} |")[0][2] for name in values}
    assert shown == {"nsh": f"**{mean + 0.101:.4f}**", "mbe": f"{mean + 0.1:.4f} **≈**", "itq": f"{mean + 0.05:.4f}"}
    low, high = bootstrap_interval(values["nsh"], values["mbe"], seed=0)
    assert f"- 16 bits: nsh − mbe = +0.0010 [{low:+.4f}, {high:+.4f}], a tie" in text


def test_a_single_query_proves_nothing(measure, heading):
    pair = [precise(measure, name, np.array([value])) for name, value in (("nsh", 0.5), ("itq", 0.25))]
    text = results_markdown(pair, heading, pictures=[])
    assert "bootstrap" not in text
    assert table_rows(text, "| itq |")[0][2] == "0.2500"


def test_without_nsh_or_without_a_rival_nothing_is_compared(measure, heading):
    for method in ("nsh", "itq"):
        assert "bootstrap" not in results_markdown([measure(method, 16, 0.5)], heading, pictures=[])


def test_other_images_get_no_number_of_the_paper(measured, heading):
    text = results_markdown(measured, dataclasses.replace(heading, data_set="fashion-mnist"), pictures=[])
    assert "Beside the paper" not in text
    assert "0.706" not in text
    assert table_rows(text, "| method |")[0][2:4] == ["mAP@1000", "min"]


def test_a_part_of_the_images_is_said_to_be_one(measured, heading):
    counts = {"train": 500, "query": 1000, "gallery": 50_000}
    text = results_markdown(
        measured, dataclasses.replace(heading, split={**heading.split, "counts": counts}), pictures=[]
    )
    assert "1,000 queries and a gallery of 50,000 here, 10,000 and 50,000 there" in text


def test_a_tuned_backbone_is_not_called_frozen(measured, heading):
    assert "at 96 px, frozen (weights: none)" in results_markdown(measured, heading, pictures=())
    tuned = results_markdown(measured, dataclasses.replace(heading, mode="finetune"), pictures=())
    assert "at 96 px, fine-tuned by every method that learns by gradient" in tuned
    assert "Backbones differ" in tuned


def test_the_papers_backbone_is_not_called_another(measured, heading):
    own = dataclasses.replace(heading, mode="finetune", backbone=heading.backbone | {"backbone": "resnet50"})
    text = results_markdown(measured, own, pictures=())
    assert "Recipes differ (both fine-tune a ResNet-50" in text
    assert "Backbones differ" not in text


def test_without_labels_no_figure_pretends(measure, heading):
    heading = dataclasses.replace(heading, data_set="folder", ceiling={})
    text = results_markdown([measure("nsh", 16, 0.5, labelled=False)], heading, pictures=[])
    assert "| mAP" not in text
    assert "have no labels" in text
    assert table_rows(text, "| nsh |") == [["nsh", "16", "0.7500", "0.5000", "0.9000", "0.0000", "12,345", "0.8750"]]


def test_without_labels_the_estimate_orders_the_methods_of_a_length(measure, heading):
    heading = dataclasses.replace(heading, data_set="folder", ceiling={})
    values = {("nsh", 16): 0.25, ("nsh", 32): 0.5, ("itq", 16): 0.375, ("itq", 32): 0.125}
    pairs = [measure(*pair, value, labelled=False) for pair, value in values.items()]
    text = results_markdown(pairs, heading, pictures=[])
    lines = [line for line in text.splitlines() if line.startswith(("| nsh |", "| itq |"))]
    assert [line[2:10] for line in lines] == ["itq | 16", "nsh | 16", "nsh | 32", "itq | 32"]
    assert best_pair(pairs, k=1000).key == "nsh-32"


def test_every_table_has_one_width(measured, heading):
    text = results_markdown(measured, heading, pictures=[])
    for block in text.split("\n\n"):
        lines = [line for line in block.splitlines() if line.startswith("|")]
        assert len({line.count("|") for line in lines}) <= 1


def test_nested_codes_have_a_row_for_every_length(measured, measure, heading):
    assert "Nested codes" not in results_markdown(measured, heading, pictures=[])
    nested = measure("nsh_nested", 32, 0.625)
    nested.metrics.update({"mAP_at_1000_first_8_bits": 0.25, "mAP_at_1000_first_16_bits": 0.5})
    rows = table_rows(results_markdown([*measured, nested], heading, pictures=[]), "| nsh_nested-32")
    assert rows == [
        ["nsh_nested-32", "8", "0.2500"],
        ["nsh_nested-32", "16", "0.5000"],
        ["nsh_nested-32", "32", "0.6250"],
    ]
