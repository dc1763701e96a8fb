// Products of counts, for offsets of rows and sizes of buffers. The factors are often ints, whose product may not fit in one.
#pragma once

#include <cstddef>

namespace varifocal {

constexpr size_t WideProduct(size_t a, size_t b) { return a * b; }
constexpr size_t WideProduct(size_t a, size_t b, size_t c) { return a * b * c; }

}  // namespace varifocal
