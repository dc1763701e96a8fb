// The libFuzzer entry point of one target: VARIFOCAL_FUZZ_TARGET is its name, VARIFOCAL_FUZZ_TARGETS its list.
#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "base/check.h"
#include "tests/fuzz/targets.h"

namespace {

const varifocal::FuzzTarget& Target() {
  for (const varifocal::FuzzTarget& target : varifocal::VARIFOCAL_FUZZ_TARGETS()) {
    if (std::string(target.name) == VARIFOCAL_FUZZ_TARGET) return target;
  }
  VF_CHECK(false);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const varifocal::FuzzTarget& target = Target();
  target.run(absl::string_view(reinterpret_cast<const char*>(data), size));
  return 0;
}
