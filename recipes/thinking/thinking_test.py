"""The questions of `python -m thinking`: chains are right, blocks are where the template puts them, marks are on what is determined."""

import json
import pathlib

from thinking import data


def test_chains_and_marks() -> None:
    writer = data.Writer()
    ids, marks = writer.batch(seed=1, step=0, rows=4, length=160, fewest=5, most=9)
    text = writer.tokenizer.decode(ids[0].tolist(), skip_special_tokens=False)
    notes, *questions = text.split("Question: ")
    after = dict(s.strip(". ").split(" is ") for s in notes.split("<|user|>")[1].strip().split(". "))
    for question in questions[:-1]:
        start, answer = question.split(data.END)[0], question.split(data.END_THINK)[1].split(data.END)[0].strip()
        assert answer == after[after[after[start]]]
    assert not marks[0][: len(writer.ids(notes)) - 1].any()
    assert marks.any(axis=1).all()


def test_questions_fit_their_length(tmp_path: pathlib.Path) -> None:
    data.write_questions(tmp_path, seed=1, contexts=3, count=24)
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert len(rows) == 12 and len({row["notes"] for row in rows}) == 3
    for row in rows:
        assert row["steps"][-1] == f"{row['steps'][-1].split(' ')[0]} is {row['third']}."
        assert all(step in row["notes"] for step in row["steps"])


def test_a_new_seed_has_other_notes(tmp_path: pathlib.Path) -> None:
    written = []
    for seed in (1, 2):
        data.write_questions(tmp_path, seed=seed, contexts=1, count=24)
        written.append((tmp_path / "rows.jsonl").read_text())
    assert written[0] != written[1]
