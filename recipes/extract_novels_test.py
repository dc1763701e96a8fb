"""extract_novels.py on records built byte by byte, and on the same bytes with corrupted lengths, types and streams:
python3 recipes/extract_novels_test.py
"""

import hashlib
import pathlib
import struct
import tempfile
import unittest
import zlib

import extract_novels
from extract_novels import Malformed, text_vectors


def big_endian(*values):
    return struct.pack(f">{len(values)}I", *values)


def vector(lines, version=3, kind=16):
    out = b"X\n" + big_endian(version, 0x40201, 0x30500, 5) + b"UTF-8" + big_endian(kind, len(lines))
    for line in lines:
        out += big_endian(0x40009, 0xFFFFFFFF) if line is None else big_endian(0x40009, len(line)) + line
    return out


def record(content, size=None):
    return big_endian(len(content) if size is None else size) + zlib.compress(content)


class ExtractNovelsTest(unittest.TestCase):
    def test_vectors_in_order_and_other_types_left_out(self):
        rdb = record(vector([b"a", None, b"b"])) + record(vector([], kind=13)) + record(vector([b"\xff"]))
        self.assertEqual(text_vectors(rdb), [b"a\n\nb", b"\xff"])
        self.assertEqual(text_vectors(b""), [])

    def test_broken_records(self):
        good = record(vector([b"line"]))
        cases = {
            "at byte 0 ends after 2": good[:2],
            "at byte 0 does not inflate": record(vector([b"line"]), size=5),
            "does not inflate": good[:-3],
            "the limit is": big_endian(1 << 30) + good[4:],
            "portable format": record(b"A\n" + vector([b"line"])[2:]),
            "version 2": record(vector([b"line"], version=2)),
            "within a field of 4": record(vector([b"line"])[:-1]),
            f"at byte {len(good)} ": good + good[:-1],
            "incorrect header": big_endian(4) + b"abcdefgh",
        }
        for message, rdb in cases.items():
            with self.subTest(message), self.assertRaisesRegex(Malformed, message):
                text_vectors(rdb)

    def test_files_are_found_by_digest(self):
        with tempfile.TemporaryDirectory() as directory:
            folder = pathlib.Path(directory)
            (folder / "r.rdb").write_bytes(record(vector([b"other"])) + record(vector([b"one", b"two"])))
            digests = folder / "digests"
            digests.write_text(hashlib.sha256(b"one\ntwo").hexdigest() + "  x.txt\n")
            extract_novels.main(folder / "r.rdb", digests, folder)
            self.assertEqual((folder / "x.txt").read_bytes(), b"one\ntwo")
            digests.write_text("00  y.txt\n")
            with self.assertRaisesRegex(Malformed, "none of its 2 texts has the SHA-256 of y.txt"):
                extract_novels.main(folder / "r.rdb", digests, folder)


if __name__ == "__main__":
    unittest.main()
