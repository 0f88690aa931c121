import csv

from nsh.reports.numbers import POINTS, merged_curve, merged_training, results_csv


def read(text):
    return list(csv.DictReader(text.splitlines()))


def test_the_table_has_every_figure_and_the_papers(measured, heading):
    rows = read(results_csv(measured, heading))
    assert [(row["method"], row["bits"]) for row in rows] == [
        ("embedding", ""),
        ("nsh", "16"),
        ("nsh", "32"),
        ("itq", "16"),
        ("itq", "32"),
    ]
    assert rows[0]["mAP_at_1000"] == "0.75"
    assert rows[0]["unique_codes"] == ""
    assert (rows[1]["mAP_at_1000"], rows[1]["paper_mAP_at_1000"], rows[1]["paper_P_at_1000"]) == (
        "0.625",
        "0.706",
        "0.691",
    )


def test_a_merged_curve_keeps_shape_and_ends(measured):
    rows = read(merged_curve(measured, "precision_at_k", x="k", y="precision"))
    mine = [row for row in rows if (row["method"], row["bits"]) == ("itq", "32")]
    assert 100 < len(mine) <= POINTS
    assert [float(row["k"]) for row in mine] == sorted({float(row["k"]) for row in mine})
    assert (mine[0]["k"], mine[0]["precision"]) == ("1", "0.5625")
    assert (mine[-1]["k"], mine[-1]["precision"]) == ("400", "0.28125")


def test_a_short_curve_is_kept_whole(measured):
    rows = read(merged_curve(measured, "pr_lookup", x="recall", y="precision"))
    assert len([row for row in rows if row["bits"] == "32"]) == 2 * 32


def test_without_labels_a_merged_curve_has_no_rows(measure):
    text = merged_curve([measure("nsh", 16, 0.5, labelled=False)], "pr_ranking", x="recall", y="precision")
    assert text == "method,bits,recall,precision\n"


def test_training_is_one_row_an_epoch(measured):
    rows = read(merged_training(measured))
    assert len(rows) == 16
    assert rows[2] == {"method": "nsh", "bits": "16", "epoch": "3", "loss": "1"}
