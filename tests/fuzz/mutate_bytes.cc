#include "tests/fuzz/mutate_bytes.h"

#include <algorithm>
#include <iterator>

namespace varifocal {

std::string MutateBytes(std::string bytes, Random& random) {
  static constexpr const char* kExtremes[] = {"-1", "0", "1e999", "18446744073709551616", "null", "[]", "{}", "\"\""};
  const int count = 1 + random.Below(4);
  for (int i = 0; i < count && !bytes.empty(); ++i) {
    const size_t head = std::min<size_t>(bytes.size(), 4096);
    const size_t at = random.Below(2) == 0 ? random.Below(head) : random.Below(bytes.size());
    switch (random.Below(5)) {
      case 0:
        bytes[at] = random.Below(256);
        break;
      case 1:
        bytes.erase(at, 1 + random.Below(16));
        break;
      case 2:
        bytes.insert(at, bytes.substr(at, 1 + random.Below(64)));
        break;
      case 3:
        bytes.resize(at);
        break;
      default: {
        const size_t digit = bytes.find_first_of("0123456789", at);
        if (digit == std::string::npos) break;
        const size_t end = std::min(bytes.find_first_not_of("0123456789.eE+-", digit), bytes.size());
        bytes.replace(digit, end - digit, kExtremes[random.Below(std::size(kExtremes))]);
      }
    }
  }
  return bytes;
}

}  // namespace varifocal
