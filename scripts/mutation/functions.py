# SPDX-License-Identifier: Apache-2.0
"""Reads which functions a run executed, from the files of `gcc --coverage` (gcov-io.h of GCC 12 and later)."""
import contextlib, struct

FUNCTION, COUNTERS = 0x01000000, 0x01A10000


class Reader:
    def __init__(self, path, magic):
        self.data, self.at = path.read_bytes(), 16
        if self.data[:4] != magic or self.data[7:8] < b"B":
            raise SystemExit(f"{path} was not written by GCC 12 or later; set CXX=g++")

    def number(self):
        self.at += 4
        return struct.unpack_from("<i", self.data, self.at - 4)[0]

    def text(self):
        length = self.number()
        self.at += length
        return self.data[self.at - length : self.at - 1].decode()

    def records(self):
        """Yields (tag, length in bytes) of each record, with `at` where it begins."""
        while self.at + 8 <= len(self.data):
            tag, length = self.number(), self.number()
            end = self.at + max(length, 0)  # a negative length: that many bytes of zeros, left out
            yield tag, length
            self.at = end


def compiled(notes):
    """{ident: (name, source file, first line, last line)} of a .gcno file."""
    reader = Reader(notes, b"oncg")
    reader.text(), reader.number()
    functions = {}
    for tag, _ in reader.records():
        if tag == FUNCTION:
            ident = reader.number()
            reader.at += 8
            name, _, source = reader.text(), reader.number(), reader.text()
            first, _, last = reader.number(), reader.number(), reader.number()
            functions[ident] = (name, source, first, last)
    return functions


def executed(counts):
    """The idents of the functions with a counter that is not zero, of a .gcda file; of one that was cut off when its
    process was killed, those in its beginning."""
    reader = Reader(counts, b"adcg")
    idents, ident = set(), None
    with contextlib.suppress(struct.error):
        for tag, length in reader.records():
            if tag == FUNCTION and length > 0:
                ident = reader.number()
            elif tag == COUNTERS and length > 0 and any(reader.data[reader.at : reader.at + length]):
                idents.add(ident)
    return idents
