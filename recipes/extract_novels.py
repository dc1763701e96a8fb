"""Write the six novels of deploy/novels.sha256 from an R package's data file into a folder; deploy/get_novels.sh calls it.

    python3 recipes/extract_novels.py RDB DIGESTS DIR

An .rdb is a row of records: a big-endian length, then a zlib stream that inflates to that many bytes. A record of interest
is R's portable serialization, version 3, of one vector of strings ("R Internals", section 1.8): "X\\n", three 32-bit
integers, the name of the encoding, the type (16), a count, and the strings, each with a flags word and a length. All
numbers are big-endian. Records of another type are left out.
"""

import hashlib
import pathlib
import struct
import sys
import zlib

RECORD_BYTES_MAX = 64 << 20
STRING_VECTOR = 16
MISSING = 0xFFFFFFFF  # the length of NA


class Malformed(ValueError):
    pass


class Reader:
    """Takes big-endian numbers and bytes from the front."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, count):
        if self.at + count > len(self.data):
            raise Malformed(f"ends after {len(self.data)} bytes, within a field of {count}")
        self.at += count
        return self.data[self.at - count : self.at]

    def number(self):
        return struct.unpack(">I", self.take(4))[0]


def parse_record(record):
    """The strings joined by newlines; None for a record of another type."""
    reader = Reader(record)
    if reader.take(2) != b"X\n":
        raise Malformed("is not in R's portable format")
    version = reader.number()
    if version != 3:
        raise Malformed(f"has format version {version}; 3 is read")
    reader.take(8)  # versions of the writer, and of the oldest reader
    reader.take(reader.number())  # the encoding
    if reader.number() & 0xFF != STRING_VECTOR:
        return None
    lines = []
    for _ in range(reader.number()):
        reader.number()  # the string's flags
        size = reader.number()
        lines.append(b"" if size == MISSING else reader.take(size))
    return b"\n".join(lines)


def text_vectors(rdb):
    """The text of each vector of strings, in file order."""
    texts, at = [], 0
    while at < len(rdb):
        try:
            size = Reader(rdb[at : at + 4]).number()
            if size > RECORD_BYTES_MAX:
                raise Malformed(f"has a length of {size} bytes; the limit is {RECORD_BYTES_MAX}")
            stream = zlib.decompressobj()
            record = stream.decompress(rdb[at + 4 :], size + 1)
            if not stream.eof or len(record) != size:
                raise Malformed(f"does not inflate to {size} bytes")
            text = parse_record(record)
        except (Malformed, zlib.error) as error:
            raise Malformed(f"the record at byte {at} {error}") from None
        if text is not None:
            texts.append(text)
        at = len(rdb) - len(stream.unused_data)
    return texts


def main(rdb_path, digests_path, directory):
    texts = {hashlib.sha256(text).hexdigest(): text for text in text_vectors(pathlib.Path(rdb_path).read_bytes())}
    for line in pathlib.Path(digests_path).read_text().splitlines():
        digest, name = line.split()
        if digest not in texts:
            raise Malformed(f"none of its {len(texts)} texts has the SHA-256 of {name}, {digest}")
        (pathlib.Path(directory) / name).write_bytes(texts[digest])


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    try:
        main(*sys.argv[1:])
    except (OSError, Malformed) as error:
        sys.exit(f"{sys.argv[1]}: {error}")
