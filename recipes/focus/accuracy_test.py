"""Differences of stored answers, against numbers worked out by hand, and refusal of unlike runs."""

import pathlib

import pytest

from focus import accuracy

ROWS = """run,task,tokens,setting,right
1,a,512,hard,1110
1,a,512,random,1000
1,b,512,hard,0000
1,b,512,random,0001
2,a,512,hard,1100
2,a,512,random,1000
2,b,512,hard,0011
2,b,512,random,0001
"""


def test_differences_are_means_over_runs_with_an_interval_over_questions(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(ROWS)
    line = accuracy.compared([path], "hard", "random").splitlines()[2]
    # Questions: 0, 1, 1/2, 0 and 0, 0, 1/2, -1/2; mean 3/16, squared deviations 1.46875, standard error sqrt(1.46875 / 56), t(0.975; 7) = 2.3646.
    assert line.startswith("| rows | 2 | 8 | +0.188 ± 0.383 | 0.28 | +0.125, +0.250 | a +0.375 ± ")
    assert "0.28 | +0.125" in accuracy.compared([path], "hard", "random")
    two = accuracy.compared([path, path], "hard", "random").splitlines()[2]
    assert "| 0.57 |" in two  # Holm over two
    assert "+0.188 ± 0.383" in accuracy.compared([path], "hard", f"{path}/random")
    (tmp_path / "one.csv").write_text("".join(line + "\n" for line in ROWS.splitlines() if not line.startswith("2")))
    with pytest.raises(ValueError, match="no rows of random in .*one.csv"):
        accuracy.compared([path], "hard", f"{tmp_path}/one.csv/random")


@pytest.mark.parametrize("rows, error", [
    (ROWS.replace("2,b,512,random,0001\n", ""), "the runs 1, 2 have different settings"),
    (ROWS.replace("2,a,512,hard,1100", "2,a,512,hard,110"), "the runs 1, 2 have different settings"),
    (ROWS + "2,b,512,random,0001\n", "run 2 has two rows of random, b, 512"),
    ("run,task,tokens,setting,right\n", "have different settings"),
    (ROWS.replace("random", "window"), "no rows of random"),
])  # fmt: skip
def test_unlike_runs_are_refused(rows: str, error: str, tmp_path: pathlib.Path) -> None:
    (tmp_path / "rows.csv").write_text(rows)
    with pytest.raises(ValueError, match=error):
        accuracy.compared([tmp_path / "rows.csv"], "hard", "random")
