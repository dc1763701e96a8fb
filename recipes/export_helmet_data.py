"""Write the hub datasets that HELMET loads as JSON lines, in hub row order, where `varifocal suites import-helmet` reads them.

Needs `datasets` and, for those that still have loading scripts, a version that runs them (below 4.0). With --hub, the datasets
are read from DIR/OWNER/NAME, clones of the hub's repositories, and nothing is fetched.

    python recipes/export_helmet_data.py --out=HELMET/data [--only=icl,narrativeqa,infbench,multi_lexsum] [--hub=DIR]
"""

import json

import datasets

from flags import Path, parse

# folder, hub name, configuration, splits
SETS = [
    ("icl/trec", "CogComp/trec", None, ["train", "test"]),
    ("icl/banking77", "PolyAI/banking77", None, ["train", "test"]),
    ("icl/clinc_oos", "clinc_oos", "plus", ["train", "validation"]),
    ("icl/nlu_evaluation_data", "xingkunliuxtracta/nlu_evaluation_data", None, ["train"]),
    ("narrativeqa", "narrativeqa", None, ["train", "test"]),
    ("multi_lexsum", "allenai/multi_lexsum", "v20230518", ["train", "validation", "test"]),
    ("infbench", "xinrongzhang2022/infinitebench", None, ["longbook_qa_eng", "longbook_choice_eng", "longbook_sum_eng"]),
]
TEXT, TEXTS = datasets.Value("string"), datasets.Sequence(datasets.Value("string"))
INFBENCH = datasets.Features({"id": datasets.Value("int64"), "context": TEXT, "input": TEXT, "answer": TEXTS, "options": TEXTS})


def main():
    hub = dict(type=Path, help="clones of the hub's repositories, as OWNER/NAME")
    arguments = parse(__doc__, out=Path, only="icl,narrativeqa,infbench,multi_lexsum", hub=hub)
    for folder, name, configuration, splits in SETS:
        if folder.split("/")[0] not in arguments.only.split(","):
            continue
        options = {"features": INFBENCH} if folder == "infbench" else {}
        if int(datasets.__version__.split(".")[0]) < 4:
            options["trust_remote_code"] = True
        source = name if arguments.hub is None else str((arguments.hub / name).resolve())
        data = datasets.load_dataset(source, configuration, **options)
        for split in splits:
            path = arguments.out / folder / f"{split}.jsonl"
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("w", encoding="utf-8") as out:
                for row in data[split]:
                    out.write(json.dumps(row, ensure_ascii=False) + "\n")
            print(path, len(data[split]), "rows")


if __name__ == "__main__":
    main()
