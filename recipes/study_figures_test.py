"""study_figures.py on tables written here: python3 recipes/study_figures_test.py"""

import pathlib
import tempfile
import unittest
import xml.etree.ElementTree as ElementTree

import study_figures

PAGE = """
| arm | run | ratio | other |
| --- | --- | ---: | --- |
| `a` | 1 | 1.72 (1.56 to 1.91), more | -0.04 [-0.07, -0.01], Holm 0.018, **worse** |
| | 2 | 3 of 8 did not arrive; 3.23 or more | +0.34 ± 0.04 |
| b | 1 | (-4.068) | |

| other | x |
| --- | --- |
| c | 1.5 (1 to 2) |
"""
SVG = "{http://www.w3.org/2000/svg}"


class StudyFiguresTest(unittest.TestCase):
    def setUp(self):
        study_figures.ROOT = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        (study_figures.ROOT / "page.md").write_text(PAGE)

    def source(self, **changes):
        return {"page": "page.md", "header": "arm", "columns": ["ratio", "other"], "label": "{0}, run {1}"} | changes

    def test_cells_are_read(self):
        bars = [(b.low, b.high, b.value) for row in study_figures.rows_of(self.source()) for b in row.bars]
        self.assertEqual(bars[:3], [(1.56, 1.91, 1.72), (-0.07, -0.01, -0.04), (3.23, None, None)])
        self.assertEqual([round(x, 9) for x in bars[3]], [0.3, 0.38, 0.34])
        self.assertEqual(len(bars), 4, "a row without an interval is not drawn")
        self.assertIsNone(study_figures.bar_of("0.349"))

    def test_rows_are_chosen_and_renamed(self):
        rows = study_figures.rows_of(self.source(rows=["a, run 2", "a, run 1"], names={"a, run 1": "first"}))
        self.assertEqual([r.label for r in rows], ["a, run 2", "first"])

    def test_what_the_page_lacks_is_refused(self):
        for changes, words in ((dict(rows=["c"]), "has no row 'c'"), (dict(rows=["b, run 1"]), "has no interval"),
                               (dict(label="{0}"), "rows of one label"), (dict(header="none"), "there are 0"),
                               (dict(columns=["none"]), "there are 0")):  # fmt: skip
            with self.assertRaisesRegex(ValueError, words):
                study_figures.rows_of(self.source(**changes))

    def test_bars_are_where_their_numbers_are(self):
        panel = {"title": "<t>", "axis": "ratio", "reference": 1, "log": True, "tables": [self.source(columns=["ratio"])]}
        root = ElementTree.fromstring(study_figures.drawn({"panels": [panel]}))
        lines = [e for e in root.iter(SVG + "line") if e.get("stroke-width") == "2"]
        ends = [tuple(float(e.get(k)) for k in ("x1", "x2")) for e in lines]
        zero = next(float(e.get("x1")) for e in root.iter(SVG + "line") if e.get("stroke") == "#444")
        self.assertTrue(zero < ends[0][0] < ends[0][1] < ends[1][0] < ends[1][1] == study_figures.WIDTH - study_figures.RIGHT)
        (dot,) = root.iter(SVG + "circle")
        self.assertTrue(ends[0][0] < float(dot.get("cx")) < ends[0][1])
        texts = [e.text for e in root.iter(SVG + "text")]
        self.assertIn("1.72 (1.56 to 1.91)", texts)
        self.assertIn("<t>", texts)


if __name__ == "__main__":
    unittest.main()
