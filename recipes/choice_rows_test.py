"""choice_rows.py on rows written here: python3 recipes/choice_rows_test.py"""

import csv
import hashlib
import io
import json
import pathlib
import tempfile
import unittest

import choice_rows


class ChoiceRowsTest(unittest.TestCase):
    def setUp(self):
        self.directory = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))

    def truthful(self, rows, ends="\n"):
        """The rows as the release writes them, and the digest of the form with line ends "\\n"."""
        text = io.StringIO()
        writer = csv.DictWriter(text, ["Question", "Best Answer", "Correct Answers", "Incorrect Answers"], lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
        path = self.directory / "T.csv"
        path.write_bytes(text.getvalue().replace("\n", ends).encode())
        return path, hashlib.sha256(text.getvalue().encode()).hexdigest()

    def test_truthfulqa_choices(self):
        rows = [{"Question": "Is it, then? ", "Best Answer": "No, never", "Correct Answers": "No; No, never", "Incorrect Answers": "Yes; Yes.;  ; No, never; Maybe "}]
        for ends in ("\n", "\r\n"):
            path, digest = self.truthful(rows, ends)
            self.assertEqual(list(choice_rows.truthfulqa(path, digest)), [("Q: Is it, then?\nA:", ["No, never.", "Yes.", "Maybe."])])

    def test_another_release_is_refused(self):
        path, _ = self.truthful([])
        with self.assertRaisesRegex(ValueError, "another release"):
            list(choice_rows.truthfulqa(path))

    def test_arc_and_piqa_choices(self):
        path = self.directory / "rows.jsonl"
        path.write_text(json.dumps({"question": "q", "answerKey": "B", "choices": {"text": ["a", "b", "a"], "label": ["A", "B", "C"]}}))
        self.assertEqual(list(choice_rows.arc(path)), [("Question: q\nAnswer:", ["b", "a"])])
        path.write_text(json.dumps({"goal": "g", "sol1": "x", "sol2": "y", "label": 1}))
        self.assertEqual(list(choice_rows.piqa(path)), [("Question: g\nAnswer:", ["y", "x"])])

    def test_demonstrations_are_shared_and_never_asked(self):
        items = [(f"Q{i}", [f"right{i}", "wrong"]) for i in range(30)] + [("alone", ["one choice"])]
        rows = list(choice_rows.rows_of(items, 25, 5))
        self.assertEqual(len(rows), 25)
        self.assertEqual(len({row["demonstrations"] for row in rows}), 1)
        shown = {line.split()[0] for line in rows[0]["demonstrations"].splitlines() if line}
        self.assertEqual(len(shown), 5)
        self.assertFalse(shown & {row["question"] for row in rows} or "alone" in shown)
        self.assertTrue(all(row["answer"] == row["choices"][0] == f" right{row['id']}" for row in rows))
        with self.assertRaisesRegex(ValueError, "too few"):
            list(choice_rows.rows_of(items, 1, 31))


if __name__ == "__main__":
    unittest.main()
