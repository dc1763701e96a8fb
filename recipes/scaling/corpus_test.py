"""Documents are split without a shared one, near repetitions are left out, and texts lose their marks. No package is fetched."""

import dataclasses
import gzip
import pathlib

import numpy as np
import pytest

from scaling import corpus, text



def words(n: int, seed: int) -> list[str]:
    rng = np.random.default_rng(seed)
    return ["".join(rng.choice(list("abcdefghijklmnopqrstuvwxyz"), 6)) for _ in range(n)]


def document(found: str, kind: str = "prose") -> corpus.Document:
    return corpus.Document(corpus.digest(found.encode()), "p", kind, found)


def test_held_out_and_training_share_no_document_and_no_near_repetition() -> None:
    base = [words(1500, i) for i in range(80)]
    changed = []
    for i, w in enumerate(base):
        copy = list(w)
        for at in range(0, len(copy), 40):  # every fortieth word: four fifths of the shingles stay
            copy[at] = f"other{i}x{at}"
        changed.append(copy)
    many = [document(" ".join(w)) for w in base + changed + base]
    kept = corpus.split(many, share=0.3)
    assert len(kept) == 80
    held, trained = [d for d in kept if d.held_out], [d for d in kept if not d.held_out]
    assert held and trained and not {d.digest for d in held} & {d.digest for d in trained}
    sets = [corpus.shingles(d.text) for d in trained]
    for d in held:
        assert all(corpus.shared(corpus.shingles(d.text), s) == 0 for s in sets)
    assert corpus.split(list(reversed(many)), share=0.3) == kept


def test_a_held_out_document_inside_of_a_collection_is_left_out() -> None:
    """The collection comes later, and a tenth of it is known: it is no repetition itself."""
    part = next(d for i in range(99) if int((d := document(" ".join(words(1500, 100 + i)))).digest[:8], 16) < 2**31)
    others = " ".join(words(15_000, 99))
    collection = next(d for i in range(99) if int((d := document(f"{part.text} {others} {i}")).digest[:8], 16) >= 2**31)
    assert corpus.split([part], share=0.5) == [dataclasses.replace(part, held_out=True)]
    assert corpus.split([part, collection], share=0.5) == [collection]


def test_equal_passages_have_equal_samples() -> None:
    w = words(4000, 1)
    whole, part = corpus.shingles(" ".join(w)), corpus.shingles(" ".join(w[1000:2000]))
    assert part and part <= whole
    assert corpus.shared(set(), whole) == 1.0  # too short to be compared: not taken


def test_html_and_manual_pages() -> None:
    page = b"<html><head><title>no</title></head><body><nav>no</nav><h1>A &amp; B</h1><p>one\n two<b>three</b></p><pre>x\n  y</pre><script>no</script></body>"
    assert text.plain("a.html", page) == "A & B\n\none twothree\n\nx\n  y\n"
    manual = b'.\\" comment\n.TH X 1\n.SH NAME\nls \\- list\n.B ls\nprints \\fIall\\fP \\(aqfiles\\(aq.\n.PP\n'
    assert text.plain("ls.1.gz", gzip.compress(manual)) == "NAME\nls - list\nls\nprints all 'files'.\n"
    assert text.plain("a.txt", b"a\r\n\n\n\n\tb  \n") == "a\n\n    b\n"
    assert text.plain("a.txt", b"\xff\xfe") is None and text.plain("a.txt", b"a\0b") is None


def test_tables_of_numbers_are_no_text() -> None:
    assert corpus.is_text("some words of text " * 100)
    assert not corpus.is_text("0x12, 0x34, 5678, " * 100) and not corpus.is_text("short")


def test_the_list_of_packages() -> None:
    settings = corpus.read()
    assert len({p.name for p in settings.packages}) == len(settings.packages) >= 20
    assert all(len(p.sha256) == 64 and p.include for p in settings.packages)
    assert set(corpus.made()["documents"]) == {p.name for p in settings.packages}
    with pytest.raises(ValueError, match="kind is 'poem'"):
        corpus.Package("a", "1", "0" * 64, "poem", ("*",))


def test_a_package_with_another_digest_is_refused(tmp_path: pathlib.Path) -> None:
    package = corpus.Package("a", "1:2", "0" * 64, "prose", ("*.txt",))
    (tmp_path / "a_1%3a2_all.deb").write_bytes(b"x")
    with pytest.raises(ValueError, match="has the SHA-256 2d711642"):
        corpus.fetch(package, tmp_path)


def test_documents_are_taken_until_the_package_has_given_enough() -> None:
    found = [" ".join(words(200, s)) for s in range(10)]
    package = corpus.Package("a", "1", "0" * 64, "prose", ("*",), megabytes=0.005)
    kept = corpus.documents(package, found + found)
    assert len(kept) == 3 and [d.digest for d in kept] == sorted(d.digest for d in kept)
    assert kept == corpus.documents(package, list(reversed(found)))


def test_tokenizer_has_its_size_and_every_byte() -> None:
    found = [document(" ".join(words(3000, s)) + " é\n") for s in range(3)]
    tokenizer = corpus.train_tokenizer(found, 300)
    assert tokenizer.get_vocab_size() == 300 and tokenizer.encode("a").ids[0] == 0
    strange = "żółw 漢字\t\n  x"
    assert tokenizer.decode(tokenizer.encode(strange).ids, skip_special_tokens=True) == strange


def test_another_corpus_is_refused(tmp_path: pathlib.Path) -> None:
    made = {"corpus": "a" * 64, "tokens_train": 10**6, "documents_held_out": 3}
    assert "1.0 M tokens" in corpus.check(made, tmp_path / "made.json")
    assert corpus.check(made, tmp_path / "made.json")
    with pytest.raises(ValueError, match="these differ: tokens_train"):
        corpus.check(made | {"tokens_train": 5}, tmp_path / "made.json")
