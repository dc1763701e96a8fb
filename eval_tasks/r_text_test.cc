// The reader of R data files on records written here with zlib, byte by byte as "R Internals" states them, and on the
// same bytes broken in every way that a length, a type or a stream can be.
#include "eval_tasks/r_text.h"

#include <zlib.h>

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace varifocal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string BigEndian(uint32_t value) {
  std::string bytes(4, '\0');
  for (int i = 0; i < 4; ++i) bytes[i] = static_cast<char>(value >> (24 - 8 * i));
  return bytes;
}

std::string Vector(const std::vector<std::string>& lines, uint32_t version = 3, uint32_t type = 16) {
  std::string out = absl::StrCat("X\n", BigEndian(version), BigEndian(0x40201), BigEndian(0x30500), BigEndian(5),
                                 "UTF-8", BigEndian(type), BigEndian(static_cast<uint32_t>(lines.size())));
  for (const std::string& line : lines) {
    absl::StrAppend(&out, BigEndian(0x40009), BigEndian(static_cast<uint32_t>(line.size())), line);
  }
  return out;
}

std::string Record(const std::string& content, int64_t stated_size = -1) {
  uLongf size = compressBound(content.size());
  std::string deflated(size, '\0');
  EXPECT_EQ(compress(reinterpret_cast<Bytef*>(deflated.data()), &size, reinterpret_cast<const Bytef*>(content.data()),
                     content.size()),
            Z_OK);
  deflated.resize(size);
  return absl::StrCat(BigEndian(static_cast<uint32_t>(stated_size < 0 ? content.size() : stated_size)), deflated);
}

TEST(RTextTest, JoinsTheStringsOfEachVector) {
  const std::string rdb =
      Record(Vector({"EMMA", "", "by \xc2\xa3"})) + Record(Vector({}, 3, 13)) + Record(Vector({"second", "text"}));
  EXPECT_THAT(ReadTextVectors(rdb).value(), ElementsAre("EMMA\n\nby \xc2\xa3", "second\ntext"));
  EXPECT_TRUE(ReadTextVectors("").value().empty());
}

TEST(RTextTest, SaysWhatIsWrongAndWhere) {
  const std::string good = Record(Vector({"a"}));
  const std::string content = Vector({"abc"});
  const std::vector<std::pair<std::string, std::string>> cases = {
      {Record(Vector({"a"}, 2)), "the record at byte 0 has format version 2; 3 is read"},
      {Record("A\n123"), "is not in R's portable format"},
      {Record(content, 5), "does not inflate to 5 bytes"},
      {Record(content, static_cast<int64_t>(content.size()) + 1), "does not inflate to"},
      {BigEndian(0xFFFFFFFF) + "x", "says it has 4294967295 bytes"},
      {"\x01\x02", "ends after 2 bytes where 4 more should follow"},
      {Record(content.substr(0, content.size() - 2)), "ends after 1 bytes where 3 more should follow"},
  };
  for (const auto& [bytes, message] : cases) {
    EXPECT_THAT(ReadTextVectors(bytes).status().message(), HasSubstr(message));
    EXPECT_THAT(ReadTextVectors(good + bytes).status().message(), HasSubstr(absl::StrCat("byte ", good.size())));
  }
  // No cut of a good file is read to its end, and none reads past it.
  for (size_t size = 1; size < good.size(); ++size) {
    EXPECT_FALSE(ReadTextVectors(absl::string_view(good).substr(0, size)).ok()) << size;
  }
}

}  // namespace
}  // namespace varifocal
