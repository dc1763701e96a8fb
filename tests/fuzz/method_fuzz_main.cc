// libFuzzer over the methods of the API: the first byte of an input names the method, the rest is its request. Half of the
// mutations are of the message's fields.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/fuzz/message_mutator.h"
#include "tests/fuzz/method_target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace {

const varifocal::ServiceMethod& MethodOf(uint8_t byte) {
  const auto& methods = varifocal::ServiceMethods();
  return methods[byte % methods.size()];
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static int64_t count = 0;
  if (size == 0) return 0;
  varifocal::CallMethod(MethodOf(data[0]), absl::string_view(reinterpret_cast<const char*>(data + 1), size - 1));
  if (++count % 1000 == 0) varifocal::CheckServing();
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  varifocal::Random random(absl::StrCat("mutation ", seed));
  if (max_size < 2) return size;
  if (size == 0 || random.Below(16) == 0) {  // a request that is accepted, of any method
    data[0] = random.Below(256);
    size = 1;
  }
  const varifocal::ServiceMethod& method = MethodOf(data[0]);
  if (size > 1 && random.Coin()) return 1 + LLVMFuzzerMutate(data + 1, size - 1, max_size - 1);
  const std::unique_ptr<google::protobuf::Message> request(method.request->New());
  if (size == 1 || !request->ParseFromArray(data + 1, size - 1)) request->CopyFrom(*method.request);
  for (uint64_t i = 0; i < 1 + random.Below(4); ++i) varifocal::MutateMessage(*request, random);
  const std::string bytes = request->SerializePartialAsString();
  if (bytes.size() >= max_size) return size;
  std::memcpy(data + 1, bytes.data(), bytes.size());
  return 1 + bytes.size();
}
