"""A SentencePiece "precompiled charsmap": a double array over the bytes of what is replaced, then the replacements.

Layout (base64 in tokenizer.json): the size of the array in bytes, the array as 32-bit units, the replacements one behind
the other with a NUL after each. A unit holds its label in the low byte (a leaf instead has the top bit and the position
of its replacement), whether a leaf follows in bit 8, and from bit 10 on what the position is XORed with to reach its
children. All numbers are little-endian.
"""

import struct

LEAF, HAS_LEAF, OFFSET_SHIFT, OFFSET_MAX = 1 << 31, 1 << 8, 10, 1 << 21


def build(replacements):
    """Bytes of the charsmap for {text: replacement}."""
    trie, texts = {}, b""
    for key, value in sorted((k.encode(), v.encode()) for k, v in replacements.items()):
        node = trie
        for byte in key:
            node = node.setdefault(byte, {})
        node[0] = len(texts)  # no key holds NUL, so its label marks the end of a key
        texts += value + b"\0"
    units, used, pending = {0: 0}, {0}, [(trie, 0)]
    while pending:
        node, at = pending.pop()
        offset = next(o for o in range(1, OFFSET_MAX) if all(at ^ o ^ label not in used for label in node))
        used.update(at ^ offset ^ label for label in node)
        units[at] |= offset << OFFSET_SHIFT | (HAS_LEAF if 0 in node else 0)
        for label, child in node.items():
            units[at ^ offset ^ label] = LEAF | child if label == 0 else label
            if label != 0:
                pending.append((child, at ^ offset ^ label))
    count = (max(units) | 255) + 1
    array = struct.pack(f"<{count}I", *(units.get(i, 0) for i in range(count)))
    return struct.pack("<I", len(array)) + array + texts
