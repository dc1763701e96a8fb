// Valid and malformed safetensors files, built byte by byte, so that each case violates exactly one rule. Every
// malformed case must be rejected with one sentence that names the value and the limit; a few valid ones must be read.
#include "server/model/safetensors.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "gmock/gmock.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

using testing::HasSubstr;

std::string Length(uint64_t value) {
  std::string bytes;
  for (int i = 0; i < 8; ++i) bytes.push_back(value >> (8 * i));
  return bytes;
}

std::string File(const std::string& header, size_t data_bytes) {
  return Length(header.size()) + header + std::string(data_bytes, '\0');
}

// A tensor entry.
std::string Entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return absl::StrCat("\"", name, "\":{\"dtype\":\"", dtype, "\",\"shape\":", shape, ",\"data_offsets\":", offsets,
                      "}");
}

struct BadFile {
  const char* name;
  std::string bytes;
  std::vector<std::string> message;  // contained in the message
};

std::vector<BadFile> BadFiles() {
  const std::string good = Entry("a", "F32", "[2]", "[0,8]");
  auto one = [](const std::string& entry, size_t data_bytes) { return File("{" + entry + "}", data_bytes); };
  std::vector<BadFile> files = {
      // Length.
      {"Empty", "", {"0"}},
      {"OneByte", "x", {"1"}},
      {"SevenBytes", std::string(7, '\0'), {"7"}},
      {"LengthOnly", Length(0), {}},
      {"LengthZeroWithData", Length(0) + std::string(8, '\0'), {}},
      {"LengthOnePastEnd", Length(3) + "{}", {"2"}},
      {"LengthFarPastEnd", Length(1000) + "{}", {"2"}},
      {"LengthAboveLimit", Length(100'000'001) + "{}", {"100000000"}},
      {"LengthAllOnes", Length(~uint64_t{0}) + "{}", {"100000000"}},
      {"LengthSignBit", Length(uint64_t{1} << 63) + "{}", {"limit"}},
      // JSON.
      {"SpaceFirst", File(" {}", 0), {}},
      {"ArrayHeader", File("[]", 0), {}},
      {"StringHeader", File("\"a\"", 0), {}},
      {"Unclosed", File("{", 0), {"header"}},
      {"UnclosedEntry", File("{\"a\":{", 0), {"header"}},
      {"TrailingComma", one(good + ",", 8), {"header"}},
      {"TwoObjects", File("{}{}", 0), {"header"}},
      {"Comment", File("{/* */}", 0), {"header"}},
      {"SingleQuotes", File("{'a':1}", 0), {"header"}},
      {"NotUtf8", File("{\"\xff\":1}", 0), {"header"}},
      {"NulPadding", File("{" + Entry("a", "F32", "[]", "[0,4]") + "}" + std::string(3, '\0'), 4), {"JSON"}},
      {"NulInHeader", File(std::string("{\0}", 3), 0), {"header"}},
      {"NaN", one("\"a\":NaN", 0), {"header"}},
      {"DuplicateTensor", one(good + "," + good, 8), {}},
      {"DuplicateKey", one("\"a\":{\"dtype\":\"F32\",\"dtype\":\"F16\",\"shape\":[2],\"data_offsets\":[0,8]}", 8), {}},
      {"TooDeep", File("{\"a\":" + std::string(300, '[') + std::string(300, ']') + "}", 0), {"levels"}},
      // Entries.
      {"EntryNumber", one("\"a\":1", 0), {"number"}},
      {"EntryNull", one("\"a\":null", 0), {"null"}},
      {"EntryList", one("\"a\":[]", 0), {"array"}},
      {"NoDtype", one("\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}", 8), {}},
      {"NoShape", one("\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}", 8), {}},
      {"NoOffsets", one("\"a\":{\"dtype\":\"F32\",\"shape\":[2]}", 8), {"data_offsets"}},
      {"UnknownKey",
       one("\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"scale\":1}", 8),
       {"\"scale\""}},
      {"MetadataList", one("\"__metadata__\":[]," + good, 8), {"__metadata__"}},
      {"MetadataNumber", one("\"__metadata__\":{\"format\":1}," + good, 8), {}},
      // Types.
      {"TypeUnknown", one(Entry("a", "F4", "[16]", "[0,8]"), 8), {"\"F4\""}},
      {"TypeLowerCase", one(Entry("a", "f32", "[2]", "[0,8]"), 8), {"\"f32\""}},
      {"TypeEmpty", one(Entry("a", "", "[2]", "[0,8]"), 8), {"dtype"}},
      {"TypeNumber", one("\"a\":{\"dtype\":32,\"shape\":[2],\"data_offsets\":[0,8]}", 8), {"dtype"}},
      // Shapes.
      {"ShapeNumber", one(Entry("a", "F32", "2", "[0,8]"), 8), {}},
      {"ShapeString", one(Entry("a", "F32", "[\"2\"]", "[0,8]"), 8), {}},
      {"ShapeFloat", one(Entry("a", "F32", "[2.0]", "[0,8]"), 8), {}},
      {"ShapeNegative", one(Entry("a", "F32", "[-2]", "[0,8]"), 8), {"-2"}},
      {"ShapeTwoNegatives", one(Entry("a", "F32", "[-1,-2]", "[0,8]"), 8), {"-1"}},
      {"ShapeTooSmall", one(Entry("a", "F32", "[1]", "[0,8]"), 8), {"4"}},
      {"ShapeTooLarge", one(Entry("a", "F32", "[3]", "[0,8]"), 8), {"12"}},
      {"ShapeWrongForType", one(Entry("a", "F16", "[2]", "[0,8]"), 8), {"4"}},
      {"ShapeOverflow", one(Entry("a", "F32", "[4294967296,4294967296]", "[0,8]"), 8), {"overflows"}},
      {"ShapeOverflowToZero", one(Entry("a", "F32", "[4611686018427387904,4]", "[0,0]"), 0), {"overflows"}},
      {"ShapeOverflowByType", one(Entry("a", "F32", "[4611686018427387904]", "[0,8]"), 8), {"overflows"}},
      {"ShapeAbove63Bits", one(Entry("a", "F32", "[18446744073709551615]", "[0,8]"), 8), {"2^63"}},
      {"ShapeAbove64Bits", one(Entry("a", "F32", "[36893488147419103232]", "[0,8]"), 8), {}},
      {"ShapeNineAxes", one(Entry("a", "F32", "[1,1,1,1,1,1,1,1,2]", "[0,8]"), 8), {"8"}},
      // Offsets.
      {"OffsetsNumber", one(Entry("a", "F32", "[2]", "8"), 8), {}},
      {"OffsetsOne", one(Entry("a", "F32", "[2]", "[8]"), 8), {}},
      {"OffsetsThree", one(Entry("a", "F32", "[2]", "[0,4,8]"), 8), {}},
      {"OffsetsReversed", one(Entry("a", "F32", "[2]", "[8,0]"), 8), {}},
      {"OffsetsNegative", one(Entry("a", "F32", "[2]", "[-8,0]"), 8), {"-8"}},
      {"OffsetsFloat", one(Entry("a", "F32", "[2]", "[0,8.0]"), 8), {}},
      {"OffsetsHuge", one(Entry("a", "F32", "[2]", "[18446744073709551608,18446744073709551615]"), 8), {"2^63"}},
      {"OffsetsWrapAround", one(Entry("a", "F32", "[2]", "[9223372036854775800,9223372036854775807]"), 8), {"8"}},
      {"EndPastFile", one(Entry("a", "F32", "[3]", "[0,12]"), 8), {"12", "8"}},
      {"Truncated", one(good, 7), {"8", "7"}},
      {"NoData", one(good, 0), {"8", "0"}},
      {"GapAtStart", one(Entry("a", "F32", "[2]", "[4,12]"), 12), {"(gap)"}},
      {"GapBetween", one(good + "," + Entry("b", "F32", "[1]", "[12,16]"), 16), {"(gap)"}},
      {"Overlap", one(good + "," + Entry("b", "F32", "[1]", "[4,8]"), 8), {"(overlap)"}},
      {"SameBytesTwice", one(good + "," + Entry("b", "F32", "[2]", "[0,8]"), 8), {"(overlap)"}},
      {"OverlapInside",
       one(Entry("a", "F32", "[4]", "[0,16]") + "," + Entry("b", "F32", "[1]", "[4,8]"), 16),
       {"(overlap)"}},
      {"RestAtEnd", one(good, 9), {"8"}},
      {"RestWithoutTensors", File("{}", 4), {"0"}},
      {"EmptyInsideAnother", one(good + "," + Entry("b", "F32", "[0]", "[4,4]"), 8), {"(overlap)"}},
  };
  return files;
}

class BadFileTest : public testing::TestWithParam<BadFile> {};

TEST_P(BadFileTest, IsRejectedInOneSentence) {
  const auto tensors = ParseSafetensors(GetParam().bytes);
  ASSERT_FALSE(tensors.ok());
  EXPECT_EQ(tensors.status().code(), absl::StatusCode::kInvalidArgument);
  const std::string message(tensors.status().message());
  EXPECT_THAT(message, MessageMatcher(GetParam().message));
  EXPECT_THAT(message, testing::Not(HasSubstr("\n")));
  EXPECT_LT(message.size(), 300u);
}

INSTANTIATE_TEST_SUITE_P(All, BadFileTest, testing::ValuesIn(BadFiles()),
                         [](const testing::TestParamInfo<BadFile>& info) { return std::string(info.param.name); });

TEST(SafetensorsTest, ThereAreSixtyBadFiles) { EXPECT_GE(BadFiles().size(), 60u); }

TEST(SafetensorsTest, ReadsTensorsInAnyHeaderOrder) {
  ASSIGN_OR_FAIL(
      const auto tensors,
      ParseSafetensors(File("{\"__metadata__\":{\"format\":\"pt\"}," + Entry("z", "F32", "[1,2]", "[0,8]") + "," +
                                Entry("a", "BF16", "[3]", "[8,14]") + "," + Entry("e", "F16", "[0]", "[8,8]") + "}   ",
                            14)));
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors[0].name, "z");
  EXPECT_EQ(tensors[0].element_count(), 2);
  EXPECT_EQ(tensors[1].name, "e");
  EXPECT_EQ(tensors[2].shape, std::vector<int64_t>({3}));
}

// As in the reference implementation.
TEST(SafetensorsTest, NullMetadataIsNone) {
  EXPECT_TRUE(ParseSafetensors(File("{\"__metadata__\":null," + Entry("a", "F32", "[]", "[0,4]") + "}", 4)).ok());
}

TEST(SafetensorsTest, AScalarHasOneElement) {
  ASSIGN_OR_FAIL(const auto tensors, ParseSafetensors(File("{" + Entry("a", "F32", "[]", "[0,4]") + "}", 4)));
  EXPECT_EQ(tensors[0].element_count(), 1);
}

TEST(SafetensorsTest, EveryTruncationIsRejected) {
  const std::string good =
      File("{" + Entry("a", "F32", "[2]", "[0,8]") + "," + Entry("b", "BF16", "[2,2]", "[8,16]") + "}", 16);
  ASSERT_TRUE(ParseSafetensors(good).ok());
  for (size_t size = 0; size < good.size(); ++size)
    EXPECT_FALSE(ParseSafetensors(absl::string_view(good).substr(0, size)).ok()) << size << " bytes";
}

// Flips every bit of the header, one at a time: views must stay inside the file.
TEST(SafetensorsTest, EveryBitFlipKeepsViewsInsideTheFile) {
  const std::string good =
      File("{" + Entry("a", "F32", "[2]", "[0,8]") + "," + Entry("b", "BF16", "[2,2]", "[8,16]") + "}", 16);
  size_t accepted = 0;
  for (size_t bit = 0; bit < 8 * (good.size() - 16); ++bit) {
    std::string flipped = good;
    flipped[bit / 8] = flipped[bit / 8] ^ (1 << (bit % 8));
    const auto tensors = ParseSafetensors(flipped);
    if (!tensors.ok()) continue;
    ++accepted;  // a letter of a name changed
    for (const TensorView& tensor : *tensors) {
      EXPECT_GE(tensor.bytes.data(), flipped.data());
      EXPECT_LE(tensor.bytes.data() + tensor.bytes.size(), flipped.data() + flipped.size());
    }
  }
  EXPECT_LT(accepted, 40u);
}

// Random edits (change, insert, delete up to four bytes): no crash, no view outside the file, no overlap.
TEST(SafetensorsTest, RandomEditsAreRejectedOrSafe) {
  const std::string good =
      File("{\"__metadata__\":{\"format\":\"pt\"}," + Entry("a", "F32", "[2]", "[0,8]") + "," +
               Entry("b", "BF16", "[2,2]", "[8,16]") + "," + Entry("c", "F16", "[]", "[16,18]") + "}",
           18);
  Random random("safetensors edits");
  size_t accepted = 0;
  for (int i = 0; i < 50000; ++i) {
    std::string bytes = good;
    for (uint64_t edit = 0; edit <= random.Below(4); ++edit) {
      const size_t at = random.Below(bytes.size());
      static constexpr char kLikely[] = "0123456789,:[]{}\"-.eE \0\xff";
      const char value = random.Coin() ? kLikely[random.Below(sizeof kLikely - 1)] : static_cast<char>(random.Next());
      switch (random.Below(3)) {
        case 0:
          bytes[at] = value;
          break;
        case 1:
          bytes.insert(at, 1, value);
          break;
        default:
          bytes.erase(at, 1);
      }
    }
    const auto tensors = ParseSafetensors(bytes);
    if (!tensors.ok()) continue;
    ++accepted;
    size_t covered = 0;
    for (const TensorView& tensor : *tensors) {
      ASSERT_GE(tensor.bytes.data(), bytes.data());
      ASSERT_LE(tensor.bytes.data() + tensor.bytes.size(), bytes.data() + bytes.size());
      covered += tensor.bytes.size();
    }
    ASSERT_LE(covered, bytes.size());
  }
  EXPECT_LT(accepted, 25000u);
}

class DirectoryTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = absl::StrCat(testing::TempDir(), "/safetensors_",
                              testing::UnitTest::GetInstance()->current_test_info()->name());
    std::filesystem::remove_all(directory_);
    std::filesystem::create_directories(directory_);
  }
  void TearDown() override {
    std::filesystem::remove_all(directory_);
    std::filesystem::remove_all(directory_ + "_cache");
  }
  void Write(const std::string& name, const std::string& bytes) {
    std::ofstream(directory_ + "/" + name, std::ios::binary) << bytes;
  }
  void WriteIndex(const std::string& weight_map) {
    Write("model.safetensors.index.json", "{\"metadata\":{},\"weight_map\":" + weight_map + "}");
  }
  std::string Error() {
    const auto source = OpenWeights(directory_);
    return source.ok() ? "" : std::string(source.status().message());
  }
  const std::string a_ = File("{" + Entry("a", "F32", "[2]", "[0,8]") + "}", 8);
  const std::string b_ = File("{" + Entry("b", "F32", "[2]", "[0,8]") + "}", 8);
  std::string directory_;
};

TEST_F(DirectoryTest, NoWeights) { EXPECT_THAT(Error(), Message("model.safetensors")); }
TEST_F(DirectoryTest, ErrorNamesTheFile) {
  Write("model.safetensors", "abc");
  EXPECT_THAT(Error(), Message("model.safetensors", "3"));
}
TEST_F(DirectoryTest, Shards) {
  Write("1.safetensors", a_);
  Write("2.safetensors", b_);
  WriteIndex(R"({"a":"1.safetensors","b":"2.safetensors"})");
  ASSIGN_OR_FAIL(const auto source, OpenWeights(directory_));
  EXPECT_EQ(source->tensors().size(), 2u);
  EXPECT_EQ(source->files().size(), 2u);
}
TEST_F(DirectoryTest, ShardMissing) {
  Write("1.safetensors", a_);
  WriteIndex(R"({"a":"1.safetensors","b":"2.safetensors"})");
  EXPECT_THAT(Error(), HasSubstr("2.safetensors"));
}
TEST_F(DirectoryTest, TensorNotInIndex) {
  Write("1.safetensors", a_);
  WriteIndex(R"({"c":"1.safetensors"})");
  EXPECT_THAT(Error(), Message("\"a\""));
}
TEST_F(DirectoryTest, TensorOfIndexIsMissing) {
  Write("1.safetensors", a_);
  WriteIndex(R"({"a":"1.safetensors","c":"1.safetensors"})");
  EXPECT_THAT(Error(), Message("\"c\""));
}
TEST_F(DirectoryTest, PathInIndexEscapes) {
  WriteIndex(R"({"a":"../1.safetensors"})");
  EXPECT_THAT(Error(), Message());
}
TEST_F(DirectoryTest, OtherFileInIndex) {
  WriteIndex(R"({"a":"pytorch_model.bin"})");
  EXPECT_THAT(Error(), HasSubstr("pytorch_model.bin"));
}
TEST_F(DirectoryTest, EmptyIndex) {
  WriteIndex("{}");
  EXPECT_THAT(Error(), Message("weight_map"));
}
TEST_F(DirectoryTest, IndexWithoutMap) {
  Write("model.safetensors.index.json", "{}");
  EXPECT_THAT(Error(), Message("weight_map"));
}
TEST_F(DirectoryTest, IndexNotJson) {
  Write("model.safetensors.index.json", "{");
  EXPECT_THAT(Error(), HasSubstr("model.safetensors.index.json"));
}
TEST_F(DirectoryTest, DuplicateInIndex) {
  WriteIndex(R"({"a":"1.safetensors","a":"2.safetensors"})");
  EXPECT_THAT(Error(), HasSubstr("duplicate key"));
}

// The hash is that of the file, is cached outside the directory, and is reused only for the same file.
TEST_F(DirectoryTest, HashIsCachedOutsideTheDirectory) {
  Write("model.safetensors", a_);
  const std::string cache = directory_ + "_cache";
  std::filesystem::remove_all(cache);
  ASSIGN_OR_FAIL(auto source, OpenWeights(directory_));
  FakeClock later(source->files()[0]->input().identity().changed_ns / 1000 + 10'000'000);  // old enough
  EXPECT_EQ(HashWeights(*source, cache, later)->whole, Sha256Hex(a_));
  EXPECT_EQ(HashWeights(*source, "")->whole, Sha256Hex(a_));
  // A forged entry is returned, which shows that the second look-up read it.
  const std::string forged = std::string(64, 'a') + "\n";
  for (const auto& entry : std::filesystem::directory_iterator(cache + "/weights"))
    std::ofstream(entry.path()) << forged << forged;
  EXPECT_EQ(HashWeights(*source, cache)->whole, std::string(64, 'a'));
  Write("model.safetensors", b_ + "");
  ASSIGN_OR_FAIL(auto other, OpenWeights(directory_));
  EXPECT_NE(HashWeights(*other, cache)->whole, std::string(64, 'a'));
}
// Hashes of the file and of its tensors;
// larger than the blocks in which they are read, and not ordered by name.
TEST_F(DirectoryTest, OnePassHashesFileAndTensors) {
  constexpr size_t kFirst = 200'004, kSecond = 17 << 20, kAll = kSecond + 12;
  std::string data(kAll, '\0');
  for (size_t i = 0; i < kAll; ++i) data[i] = i >> 9 ^ i * 7;
  std::string file = File("{" + Entry("z", "F32", "[50001]", absl::StrCat("[0,", kFirst, "]")) + "," +
                              Entry("n", "F32", "[0]", absl::StrCat("[", kFirst, ",", kFirst, "]")) + "," +
                              Entry("a", "F32", absl::StrCat("[", (kSecond - kFirst) / 4, "]"),
                                    absl::StrCat("[", kFirst, ",", kSecond, "]")) +
                              "," + Entry("m", "F32", "[3]", absl::StrCat("[", kSecond, ",", kAll, "]")) + "}",
                          kAll);
  file.replace(file.size() - kAll, kAll, data);
  Write("model.safetensors", file);
  const std::string cache = directory_ + "_cache";
  std::filesystem::remove_all(cache);
  ASSIGN_OR_FAIL(auto source, OpenWeights(directory_));
  const std::string whole = Sha256Hex(file);
  const TensorDigests tensors = {
      {"z", Sha256(data.substr(0, kFirst))},
      {"n", Sha256("")},
      {"a", Sha256(data.substr(kFirst, kSecond - kFirst))},
      {"m", Sha256(data.substr(kSecond))},
  };
  FakeClock later(source->files()[0]->input().identity().changed_ns / 1000 + 10'000'000);  // old enough
  for (const char* how : {"hashed", "remembered"}) {
    SCOPED_TRACE(how);
    const WeightDigests digests = *HashWeights(*source, cache, later);
    EXPECT_EQ(digests.whole, whole);
    EXPECT_EQ(digests.tensors, tensors);
  }
}
TEST_F(DirectoryTest, ShardsAreIdentifiedByTheirDigests) {
  Write("1.safetensors", a_);
  Write("2.safetensors", b_);
  WriteIndex(R"({"a":"1.safetensors","b":"2.safetensors"})");
  ASSIGN_OR_FAIL(auto source, OpenWeights(directory_));
  const WeightDigests digests = *HashWeights(*source, "");
  EXPECT_EQ(digests.whole, Sha256Hex(absl::StrCat(Sha256Hex(a_), "\n", Sha256Hex(b_), "\n")));
  EXPECT_EQ(digests.tensors.size(), 2u);
}
TEST_F(DirectoryTest, UnwritableCacheIsNoError) {
  Write("model.safetensors", a_);
  ASSIGN_OR_FAIL(auto source, OpenWeights(directory_));
  EXPECT_EQ(HashWeights(*source, "/proc/nowhere")->whole, Sha256Hex(a_));
}

}  // namespace
}  // namespace varifocal
