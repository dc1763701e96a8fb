#include "tests/fuzz/message_mutator.h"

#include <iterator>
#include <limits>
#include <string>

#include "google/protobuf/descriptor.h"

namespace varifocal {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int64_t kIntegers[] = {0,
                                 1,
                                 -1,
                                 2,
                                 3,
                                 8,
                                 16,
                                 127,
                                 128,
                                 256,
                                 512,
                                 1000,
                                 1001,
                                 4095,
                                 4096,
                                 4097,
                                 65536,
                                 100000,
                                 1 << 20,
                                 (1 << 20) + 1,
                                 std::numeric_limits<int32_t>::max(),
                                 std::numeric_limits<int32_t>::min(),
                                 std::numeric_limits<int64_t>::max(),
                                 std::numeric_limits<int64_t>::min()};
constexpr double kNumbers[] = {0,
                               1,
                               -1,
                               0.4,
                               0.7,
                               1e-300,
                               5e-324,
                               1e30,
                               1e308,
                               -0.0,
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN()};
// Names of the test's server, and texts that are special somewhere.
constexpr const char* kTexts[] = {"models/a",
                                  "models/b",
                                  "models/bare",
                                  "models/none",
                                  "a",
                                  "jobs/1",
                                  "jobs/0",
                                  "jobs/-1",
                                  "jobs/99999999999999999999",
                                  "recall_kv",
                                  "icl_labels",
                                  "rag_facts",
                                  "longqa_story",
                                  "jsonl",
                                  "format",
                                  "multiple_choice",
                                  "path",
                                  "prompt",
                                  "gold",
                                  "t",
                                  "log-n",
                                  "full-t",
                                  "focus-top-k",
                                  "exact_match",
                                  "",
                                  " ",
                                  "'; DROP TABLE jobs; --",
                                  "../../etc/passwd",
                                  "/dev/null",
                                  "%s%n",
                                  "\xff\xfe",
                                  "\xed\xa0\x80",
                                  "<|end|>",
                                  "NaN",
                                  "1e999",
                                  "-1"};

std::string SomeText(Random& random) {
  switch (random.Below(8)) {
    case 0: {
      std::string bytes(random.Below(200), '\0');
      for (char& byte : bytes) byte = random.Below(256);
      return bytes;
    }
    case 1:
      return std::string(1 << random.Below(13), 'a');
    case 2:
      return std::string("nul\0inside", 10);
    default:
      return kTexts[random.Below(std::size(kTexts))];
  }
}

int64_t SomeInteger(Random& random) {
  return random.Below(4) == 0 ? static_cast<int64_t>(random.Next()) : kIntegers[random.Below(std::size(kIntegers))];
}

double SomeNumber(Random& random) { return kNumbers[random.Below(std::size(kNumbers))]; }

// Strings must be UTF-8 in proto3; what is not fails to serialize as one, so bytes that are not are sent in bytes fields.
std::string ForField(const FieldDescriptor& field, std::string text) {
  if (field.type() == FieldDescriptor::TYPE_BYTES) return text;
  for (char& byte : text) {
    if (static_cast<unsigned char>(byte) > 127) byte = '?';
  }
  return text;
}

void SetOrAdd(Message& message, const FieldDescriptor& field, Random& random) {
  const Reflection& reflection = *message.GetReflection();
  const bool adds = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      const int32_t value = SomeInteger(random);
      adds ? reflection.AddInt32(&message, &field, value) : reflection.SetInt32(&message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      const int64_t value = SomeInteger(random);
      adds ? reflection.AddInt64(&message, &field, value) : reflection.SetInt64(&message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      const uint32_t value = SomeInteger(random);
      adds ? reflection.AddUInt32(&message, &field, value) : reflection.SetUInt32(&message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      const uint64_t value = SomeInteger(random);
      adds ? reflection.AddUInt64(&message, &field, value) : reflection.SetUInt64(&message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      const double value = SomeNumber(random);
      adds ? reflection.AddDouble(&message, &field, value) : reflection.SetDouble(&message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      const float value = SomeNumber(random);
      adds ? reflection.AddFloat(&message, &field, value) : reflection.SetFloat(&message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      const bool value = random.Coin();
      adds ? reflection.AddBool(&message, &field, value) : reflection.SetBool(&message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const int value = random.Below(8) - 1;
      adds ? reflection.AddEnumValue(&message, &field, value) : reflection.SetEnumValue(&message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string value = ForField(field, SomeText(random));
      adds ? reflection.AddString(&message, &field, std::move(value))
           : reflection.SetString(&message, &field, std::move(value));
      break;
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      MutateMessage(adds ? *reflection.AddMessage(&message, &field) : *reflection.MutableMessage(&message, &field),
                    random);
  }
}

}  // namespace

void MutateMessage(Message& message, Random& random) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  if (type.field_count() == 0) return;
  const Reflection& reflection = *message.GetReflection();
  const FieldDescriptor& field = *type.field(random.Below(type.field_count()));
  const int size = field.is_repeated() ? reflection.FieldSize(message, &field) : 0;
  // Most changes inside a message that is there keep the rest of it valid.
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && random.Below(4) > 0) {
    if (size > 0)
      return MutateMessage(*reflection.MutableRepeatedMessage(&message, &field, random.Below(size)), random);
    if (!field.is_repeated() && reflection.HasField(message, &field))
      return MutateMessage(*reflection.MutableMessage(&message, &field), random);
  }
  switch (random.Below(8)) {
    case 0:
      reflection.ClearField(&message, &field);
      return;
    case 1:
      if (size > 0) reflection.RemoveLast(&message, &field);
      return;
    case 2:  // many
      for (uint64_t i = 0; field.is_repeated() && i < 1 + random.Below(40); ++i) SetOrAdd(message, field, random);
      return;
    default:
      SetOrAdd(message, field, random);
  }
}

}  // namespace varifocal
