// Reader of an R package's data file: the text vectors of an .rdb, each as one text.
//
// The file is a row of records: a big-endian length, then a zlib stream that inflates to that many bytes. A record of
// interest is R's portable serialization, version 3, of one vector of strings: "X\n", three 32-bit integers, the name of
// the encoding, the type (16), a count, and the strings, each with a flags word and a length. All numbers are
// big-endian. Records of another type are left out.
//
// Errors: INVALID_ARGUMENT naming the byte of the file at which the record stands.
// Source: "R Internals", section 1.8 (serialization formats).
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace varifocal {

// The strings of each vector joined by newlines, in file order.
absl::StatusOr<std::vector<std::string>> ReadTextVectors(absl::string_view rdb);

}  // namespace varifocal
