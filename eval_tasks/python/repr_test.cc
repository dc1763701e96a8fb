// repr() of CPython 3.11 for texts of every branch of its rules.
#include "eval_tasks/python/repr.h"

#include <utility>

#include "gtest/gtest.h"

namespace varifocal {
namespace {

TEST(PythonReprTest, OfTexts) {
  const std::pair<const char*, const char*> cases[] = {
      {"plain \u00e9", "'plain \u00e9'"},
      {"a'b", "\"a'b\""},
      {"a'b\"c", "'a\\'b\"c'"},
      {"a\"b", "'a\"b'"},
      {"\\", "'\\\\'"},
      {"\n\r\t\x01\xC2\xA0", "'\\n\\r\\t\\x01\\xa0'"},
      {"\u2028\u2029\u200b\ue000\U000e0001\u3000\u0378", "'\\u2028\\u2029\\u200b\\ue000\\U000e0001\\u3000\\u0378'"},
  };
  for (const auto& [text, repr] : cases) EXPECT_EQ(PythonRepr(absl::string_view(text)), repr);
}

TEST(PythonReprTest, OfNumbers) {
  const std::pair<double, const char*> cases[] = {
      {0.0, "0.0"},
      {-0.0, "-0.0"},
      {1.5, "1.5"},
      {0.0001, "0.0001"},
      {0.00001, "1e-05"},
      {1e16, "1e+16"},
      {123456789012345, "123456789012345.0"},
  };
  for (const auto& [value, repr] : cases) EXPECT_EQ(PythonRepr(value), repr);
}

}  // namespace
}  // namespace varifocal
