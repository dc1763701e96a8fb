#include "tokenizer/unicode_classes.h"

#include <algorithm>
#include <vector>

namespace varifocal {

const uint8_t* UnicodeClasses() {
  static const std::vector<uint8_t>* const table = [] {
    auto* filled = new std::vector<uint8_t>(0x110000, 0);  // never freed: other static objects may outlive this one
    for (int i = 0; i < kUnicodeClassRangeCount; ++i) {
      const UnicodeClassRange& range = kUnicodeClassRanges[i];
      std::fill(filled->begin() + range.first, filled->begin() + range.last + 1, range.classes);
    }
    return filled;
  }();
  return table->data();
}

}  // namespace varifocal
