"""The corpus: documents of Debian packages, without repetitions, with a held-out part by document, as token ids.

`corpus.toml` lists the packages with their versions and the digests of their files; `corpus.json`, which is committed, has the digests of what is made
of them. Everything is made in the order of the documents' digests, so a second machine makes the same bytes.
"""

import dataclasses
import fnmatch
import hashlib
import importlib
import json
import pathlib
import subprocess
import tarfile
import tempfile
import tomllib
import zlib
from typing import Any, Iterable, Iterator

import numpy as np
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

from llama.run import build
from scaling import text

HERE = pathlib.Path(__file__).parent
LIST, MADE = HERE / "corpus.toml", HERE / "corpus.json"
CACHE = pathlib.Path.home() / ".cache/varifocal/scaling"
BEGIN, END = "<|begin|>", "<|end|>"
SHORTEST, LONGEST = 1_000, 1_000_000  # characters of a document
LETTERS = 0.7  # share of letters and white space at least, so that tables of numbers are left out
SHINGLE = 8  # words
SAMPLED = 16  # one shingle in so many is compared
SHARED = 0.3  # share of a document's shingles that another part of the corpus has, above which it is left out
HELD_OUT = 0.05  # share of documents
TRAINED_ON = 8_000_000  # characters of which the tokenizer is trained


@dataclasses.dataclass(frozen=True)
class Package:
    """Files match one of `include` and none of `exclude`. Of them documents are taken in the order of their digests, until `megabytes`."""

    name: str
    version: str
    sha256: str
    kind: str
    include: tuple[str, ...]
    exclude: tuple[str, ...] = ()
    megabytes: float = 8.0

    def __post_init__(self) -> None:
        if self.kind not in ("prose", "documentation", "source"):
            raise ValueError(f"{self.name}: kind is {self.kind!r}, not prose, documentation or source")

    def wants(self, path: str) -> bool:
        return any(fnmatch.fnmatch(path, p) for p in self.include) and not any(fnmatch.fnmatch(path, p) for p in self.exclude)


@dataclasses.dataclass(frozen=True)
class Document:
    digest: str
    package: str
    kind: str
    text: str
    held_out: bool = False


@dataclasses.dataclass(frozen=True)
class Settings:
    vocabulary: int
    packages: tuple[Package, ...]


def read(path: pathlib.Path = LIST) -> Settings:
    raw = tomllib.loads(path.read_text())
    packages = tuple(build(Package, {k: tuple(v) if isinstance(v, list) else v for k, v in p.items()}) for p in raw.pop("packages"))
    settings: Settings = build(Settings, raw | {"packages": packages})
    return settings


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def fetch(package: Package, folder: pathlib.Path) -> pathlib.Path:
    """The package's file, by apt-get where it is not there."""
    folder.mkdir(parents=True, exist_ok=True)
    pattern = f"{package.name}_{package.version.replace(':', '%3a')}_*.deb"
    if not list(folder.glob(pattern)):
        subprocess.run(["apt-get", "download", "-qq", f"{package.name}={package.version}"], cwd=folder, check=True)
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        raise ValueError(f"{folder} has {len(found)} files {pattern}, not one")
    if (seen := digest(found[0].read_bytes())) != package.sha256:
        raise ValueError(f"{found[0]} has the SHA-256 {seen}, not {package.sha256} of corpus.toml")
    return found[0]


def files(archive: pathlib.Path) -> Iterator[tuple[str, bytes]]:
    """Of a Debian package, without unpacking it to disk."""
    with tempfile.NamedTemporaryFile(suffix=".tar") as flat:
        subprocess.run(["dpkg-deb", "--fsys-tarfile", archive], stdout=flat, check=True)
        with tarfile.open(flat.name) as tar:
            for member in tar:
                if member.isfile() and (stream := tar.extractfile(member)) is not None:
                    yield member.name.removeprefix("./"), stream.read()


def texts(package: Package, archive: pathlib.Path) -> Iterator[str]:
    for path, content in files(archive):
        if not package.wants(path):
            continue
        if path.endswith(".rdb"):  # novels in an R package
            vectors = importlib.import_module("extract_novels").text_vectors(content)
            yield from (t.decode("utf-8", "replace") for t in vectors)
        elif (found := text.plain(path, content)) is not None:
            yield found


def is_text(found: str) -> bool:
    if not SHORTEST <= len(found) <= LONGEST:
        return False
    return sum(c.isalpha() or c.isspace() for c in found) / len(found) >= LETTERS


def documents(package: Package, found: Iterable[str]) -> list[Document]:
    """In the order of their digests, until the package has given enough."""
    by_digest = {digest(t.encode()): t for t in found if is_text(t)}
    kept, left = [], package.megabytes * 1e6
    for name in sorted(by_digest):
        if len(by_digest[name]) <= left:
            kept.append(Document(name, package.name, package.kind, by_digest[name]))
            left -= len(by_digest[name])
    return kept


def shingles(found: str) -> set[int]:
    """Checksums of a sample of all runs of SHINGLE words: one of SAMPLED, which the checksum itself chooses, so that equal passages have
    equal samples."""
    words = found.split()
    sums = (zlib.crc32(" ".join(words[i : i + SHINGLE]).encode()) for i in range(len(words) - SHINGLE + 1))
    return {s for s in sums if s % SAMPLED == 0}


def shared(mine: set[int], others: set[int]) -> float:
    return len(mine & others) / len(mine) if mine else 1.0


def split(found: list[Document], share: float = HELD_OUT) -> list[Document]:
    """Without repetitions, in the order of the digests; the first `share` of all digests is held out. A held-out document is left out too
    where later documents hold much of it, one by one or together."""
    kept: list[tuple[Document, set[int]]] = []
    seen: set[int] = set()
    for d in sorted({d.digest: d for d in found}.values(), key=lambda d: d.digest):
        mine = shingles(d.text)
        if shared(mine, seen) <= SHARED:
            kept.append((dataclasses.replace(d, held_out=int(d.digest[:8], 16) < share * 2**32), mine))
            seen |= mine
    trained = set().union(*(s for d, s in kept if not d.held_out))
    return [d for d, s in kept if not d.held_out or shared(s, trained) <= SHARED]


def spread(name: str) -> str:
    """An order of documents that is not that of the split."""
    return digest(name.encode())


def train_tokenizer(found: list[Document], vocabulary: int) -> Tokenizer:
    """Byte-level BPE over training documents alone."""
    chosen, left = [], TRAINED_ON
    for d in sorted((d for d in found if not d.held_out), key=lambda d: spread(d.digest)):
        if len(d.text) <= left:
            chosen.append(d.text)
            left -= len(d.text)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=vocabulary, special_tokens=[BEGIN, END], initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(chosen, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{BEGIN} $A", pair=f"{BEGIN} $A $B", special_tokens=[(BEGIN, tokenizer.token_to_id(BEGIN))]
    )
    return tokenizer


def make(settings: Settings, cache: pathlib.Path = CACHE) -> dict[str, Any]:
    """Writes tokenizer.json, train.npy, held_out.npy and where the held-out documents begin; what corpus.json keeps of them."""
    found: list[Document] = []
    for package in settings.packages:
        mine = documents(package, texts(package, fetch(package, cache / "debs")))
        print(f"{package.name} {package.version}: {len(mine)} documents, {sum(len(d.text) for d in mine) / 1e6:.1f} M characters", flush=True)
        found += mine
    raw, found = len(found), split(found)
    tokenizer = train_tokenizer(found, settings.vocabulary)
    folder = cache / "corpus"
    folder.mkdir(parents=True, exist_ok=True)
    tokenizer.save(str(folder / "tokenizer.json"), pretty=True)
    parts: dict[str, list[np.ndarray]] = {"train": [], "held_out": []}
    starts, kinds = [0], []
    for d in sorted(found, key=lambda d: spread(d.digest)):
        ids = np.array(tokenizer.encode(d.text).ids, dtype=np.uint16)
        parts["held_out" if d.held_out else "train"].append(ids)
        if d.held_out:
            starts.append(starts[-1] + len(ids))
            kinds.append(d.kind)
    arrays = {name: np.concatenate(ids) for name, ids in parts.items()} | {"starts": np.array(starts)}
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    (folder / "kinds.json").write_text(json.dumps(kinds))
    kept = {p.name: sum(d.package == p.name for d in found) for p in settings.packages}
    by_kind = {k: sum(len(d.text) for d in found if d.kind == k) for k in ("prose", "documentation", "source")}
    return {
        "corpus": digest("".join(sorted(d.digest + "-+"[d.held_out] for d in found)).encode()),
        "tokenizer": digest((folder / "tokenizer.json").read_bytes()),
        **{name: digest(array.tobytes()) for name, array in arrays.items()},
        "documents_found": raw, "documents_train": len(parts["train"]), "documents_held_out": len(parts["held_out"]),
        "tokens_train": len(arrays["train"]), "tokens_held_out": len(arrays["held_out"]), "characters": by_kind, "documents": kept,
    }  # fmt: skip


def made(path: pathlib.Path = MADE) -> dict[str, Any]:
    """What corpus.json says of the corpus of this study."""
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def check(made_now: dict[str, Any], path: pathlib.Path = MADE) -> str:
    """Writes corpus.json where there is none; otherwise what was made must be what it has."""
    if not path.exists():
        path.write_text(json.dumps(made_now, indent=2) + "\n")
    wrong = [k for k, v in json.loads(path.read_text()).items() if made_now.get(k) != v]
    if wrong:
        raise ValueError(f"the corpus made here is not that of corpus.json; these differ: {', '.join(wrong)}")
    return f"corpus {made_now['corpus'][:12]}: {made_now['tokens_train'] / 1e6:.1f} M tokens, {made_now['documents_held_out']} documents held out"
