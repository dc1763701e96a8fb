#include "tokenizer/unicode_classes.h"

#include <algorithm>
#include <vector>

#include "base/check.h"

namespace varifocal {

const uint16_t* UnicodeClasses() {
  static const std::vector<uint16_t>* const table = [] {
    auto* filled = new std::vector<uint16_t>;  // never freed: other static objects may outlive this one
    filled->reserve(0x110000);
    for (int i = 0; i < kUnicodeClassRunsSize; i += 2)
      filled->insert(filled->end(), kUnicodeClassRuns[i], kUnicodeClassRuns[i + 1]);
    VF_CHECK(filled->size() == 0x110000, "the runs cover all code points");
    return filled;
  }();
  return table->data();
}

uint32_t ToLowercase(uint32_t point) {
  const LowercaseRange* end = kLowercaseRanges + kLowercaseRangeCount;
  const LowercaseRange* range = std::lower_bound(
      kLowercaseRanges, end, point, [](const LowercaseRange& r, uint32_t value) { return r.last < value; });
  if (range == end || point < range->first || (point - range->first) % range->step != 0) return point;
  return point + range->distance;
}

}  // namespace varifocal
