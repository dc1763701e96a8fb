"""Independent check of a suite's samples: ids against the tokenizers library, sizes, and answerability.

Reads what `varifocal samples SUITE --tokenizer=DIR --format=jsonl` prints. Every prompt is encoded again by the
library; every question of a native task is answered by a few lines of Python that parse the wording. Prints counts;
fails on the first prompt with other ids, an invalid size, or an answer that is not the gold one.

    varifocal samples quick --tokenizer=models/baseline --format=jsonl | python recipes/check_samples.py models/baseline
"""

import collections
import hashlib
import json
import pathlib
import re
import sys

from tokenizers import Tokenizer

NEW_TOKENS = {"recall_kv": 8, "icl_labels": 4, "rag_facts": 8, "longqa_story": 8}
SHORTFALL_MAX = 16


def answer_recall(prompt):
    body, _, question = prompt.rpartition("\n\n")
    return json.loads(body[body.index("{") :])[question[1:-3]]


def answer_labels(prompt):
    lines = prompt.split("\n")
    seen = collections.defaultdict(collections.Counter)
    for line in lines[2:-1]:
        *words, _, label = line[2:].split(" ")
        for word in words:
            seen[word][label] += 1
    votes = collections.Counter(seen[w].most_common(1)[0][0] for w in lines[-1][2:-2].split(" ") if w in seen)
    return votes.most_common(1)[0][0]


def the_one(pattern, text):
    found = re.findall(pattern, text)
    assert len(found) == 1, f"{len(found)} times: {pattern}"
    return found[0]


def answer_facts(prompt):
    documents = prompt.rpartition("\n\nQuestion: ")[0]
    attribute, friend, entity = re.search(r"Answer: The (\w+) of (the friend of )?(\w+ \w+) is$", prompt).groups()
    if friend:
        entity = the_one(rf"The friend of {entity} is (\w+ \w+)\.", documents)
    return the_one(rf"The {attribute} of {entity} is (\w+)\.", documents)


def answer_story(prompt):
    name = re.search(r"Where is (\w+)\?", prompt).group(1)
    return re.findall(rf"{name} went to the (\w+)\.", prompt)[-1]


ANSWER = {"recall_kv": answer_recall, "icl_labels": answer_labels, "rag_facts": answer_facts, "longqa_story": answer_story}


def main():
    tokenizer = Tokenizer.from_file(str(pathlib.Path(sys.argv[1]) / "tokenizer.json"))
    cells, questions = collections.Counter(), collections.defaultdict(set)
    for line in sys.stdin:
        row = json.loads(line)
        name = f"{row['task']} {row['context_length']} #{row['index']}"
        ids = tokenizer.encode(row["prompt"]).ids
        digest = hashlib.sha256(json.dumps(ids, separators=(",", ":")).encode()).hexdigest()
        assert digest == row["token_ids_sha256"] and len(ids) == row["prompt_token_count"], f"{name}: other ids"
        task = next(t for t in ANSWER if row["task"].startswith(t))
        shortfall = row["context_length"] - len(ids) - NEW_TOKENS[task]
        assert 0 <= shortfall <= SHORTFALL_MAX, f"{name}: {shortfall} tokens left over"
        assert ANSWER[task](row["prompt"]) == row["gold"][0], f"{name}: another answer"
        cells[row["task"], row["context_length"]] += 1
        questions[row["question_id"]].add((row["gold"][0], row["prompt"].split("\n")[-1]))
    assert all(len(texts) == 1 for texts in questions.values()), "a question changes with the length"
    for (task, length), count in sorted(cells.items()):
        print(f"{task} {length}: {count} samples with correct ids, sizes and answers")
    print(f"{len(questions)} questions, each the same at every length")


if __name__ == "__main__":
    main()
