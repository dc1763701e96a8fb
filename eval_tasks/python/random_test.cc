// Reimplemented generators: against draws of CPython and numpy (recipes/goldens/make_random.py), and against the vectors
// in HELMET's specification.
#include "eval_tasks/python/random.h"

#include <numeric>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/sha256.h"
#include "gtest/gtest.h"
#include "tests/support/read_json.h"

namespace varifocal {
namespace {

template <typename T>
std::string Digest(const std::vector<T>& numbers) {
  return Sha256Hex(absl::StrJoin(numbers, " "));
}

uint64_t SeedOf(const Json& row) {
  uint64_t seed = 0;
  EXPECT_TRUE(absl::SimpleAtoi(row["seed"].get<std::string>(), &seed));
  return seed;
}

// A number of up to 128 bits in decimal.
std::string Decimal(const std::vector<uint32_t>& words) {
  unsigned __int128 value = 0;
  for (size_t i = words.size(); i > 0; --i) value = value << 32 | words[i - 1];
  std::string text;
  do text.insert(text.begin(), static_cast<char>('0' + static_cast<int>(value % 10)));
  while ((value /= 10) != 0);
  return text;
}

std::vector<size_t> Range(size_t count) {
  std::vector<size_t> items(count);
  std::iota(items.begin(), items.end(), size_t{0});
  return items;
}

std::vector<size_t> Head(std::vector<size_t> items, size_t count) {
  items.resize(count);
  return items;
}

const Json& Golden() {
  static const Json golden = testing_support::ReadJson("eval_tasks/python/testdata/random.json");
  return golden;
}

TEST(PythonRandomTest, EqualsCPython) {
  ASSERT_GE(Golden()["python"].size(), 10u);
  for (const Json& row : Golden()["python"]) {
    const uint64_t seed = SeedOf(row);
    SCOPED_TRACE(seed);
    PythonRandom random(seed);
    std::vector<uint32_t> words;
    for (int i = 0; i < 2000; ++i) words.push_back(random.GetRandBits(32)[0]);
    EXPECT_EQ(Digest(words), row["words"]);
    random = PythonRandom(seed);
    for (const Json& value : row["uniform"]) EXPECT_EQ(random.Uniform(), value.get<double>());
    random = PythonRandom(seed);
    for (const Json& pair : row["bits"]) EXPECT_EQ(Decimal(random.GetRandBits(pair[0])), pair[1]) << pair[0];
    random = PythonRandom(seed);
    std::vector<uint64_t> below;
    for (uint64_t n = 1; n < 300; ++n) below.push_back(random.Below(n));
    for (int shift : {31, 32}) below.push_back(random.Below(uint64_t{1} << shift));
    below.push_back(random.Below((uint64_t{1} << 32) + 1));
    for (int shift : {40, 63}) below.push_back(random.Below(uint64_t{1} << shift));
    EXPECT_EQ(Digest(below), row["below"]);
    for (const Json& pair : row["shuffle"]) {
      std::vector<size_t> items = Range(pair[0]);
      PythonRandom(seed).Shuffle(items);
      EXPECT_EQ(Digest(items), pair[1]) << pair[0];
    }
    for (const Json& triple : row["sample"]) {
      EXPECT_EQ(Digest(PythonRandom(seed).Sample(triple[0], triple[1])), triple[2]) << triple.dump();
    }
    EXPECT_EQ(Digest(PythonRandom(seed).Choices(26, 200)), row["choices"]);
  }
}

TEST(PythonRandomTest, VectorsOfTheSpecification) {
  PythonRandom one(42);
  std::vector<uint32_t> words;
  for (int i = 0; i < 4; ++i) words.push_back(one.GetRandBits(32)[0]);
  EXPECT_EQ(words, (std::vector<uint32_t>{2746317213, 478163327, 107420369, 3184935163}));
  EXPECT_EQ(PythonRandom(0).Uniform(), 0.8444218515250481);
  EXPECT_EQ(PythonRandom(42).GetRandBits(128), (std::vector<uint32_t>{0xa3b1799d, 0x1c80317f, 0x06671ad1, 0xbdd640fb}));
}

TEST(PythonRandomTest, SelectionsOfTheSpecification) {
  using Indices = std::vector<size_t>;
  Indices items = Range(10);
  PythonRandom(42).Shuffle(items);
  EXPECT_EQ(items, (Indices{7, 3, 2, 8, 5, 6, 9, 4, 0, 1}));
  EXPECT_EQ(PythonRandom(42).Sample(10, 3), (Indices{1, 0, 4}));
  EXPECT_EQ(Head(PythonRandom(42).Sample(993, 100), 10), (Indices{654, 114, 25, 759, 281, 250, 228, 142, 754, 104}));
  EXPECT_EQ(Head(PythonRandom(42).Sample(1300, 100), 10), (Indices{228, 51, 563, 501, 457, 285, 209, 1116, 178, 1209}));
  PythonRandom pairs(42);
  std::string drawn;
  for (int i = 0; i < 12; ++i) drawn += absl::StrJoin(pairs.Sample(4, 2), "") + " ";
  EXPECT_EQ(drawn, "03 20 10 02 02 30 03 10 02 12 30 32 ");
  EXPECT_EQ(Sha256Seed("who sang grease is the word in the movie"), 1127077173u);
  EXPECT_EQ(Sha256Seed("4222362"), 1658234286u);
  EXPECT_EQ(Head(NumpyRandom(1127077173).Permutation(1000), 6), (Indices{84, 8, 20, 178, 163, 611}));
}

TEST(NumpyRandomTest, PermutationsEqualNumpy) {
  int compared = 0;
  for (const Json& row : Golden()["numpy"]) {
    for (const Json& pair : row["permutation"]) {
      EXPECT_EQ(Digest(NumpyRandom(SeedOf(row)).Permutation(pair[0])), pair[1]) << row["seed"] << " " << pair[0];
      ++compared;
    }
  }
  EXPECT_GE(compared, 100);
}

TEST(NumpyRandomTest, RawWordsOfTheSpecification) {
  NumpyRandom random(42);
  EXPECT_EQ(random.Next64(), 0xc621fbcd16d92688u);
  EXPECT_EQ(random.Next64(), 0x705a5661a791ffc1u);
  EXPECT_EQ(random.Next64(), 0xdbcd12c26eda1624u);
  NumpyRandom halves(42);
  EXPECT_EQ(halves.Next32(), 0x16d92688u);
  EXPECT_EQ(halves.Next32(), 0xc621fbcdu);
  NumpyRandom two_words(uint64_t{1} << 32);
  EXPECT_EQ(two_words.Next64(), 0xe3c5ebe285ac1625u);
}

TEST(NumpyRandomTest, SplitsLikeDatasets) {
  const TrainTestSplit split = SplitTrainTest(25715, 0.1, 42);
  EXPECT_EQ(split.test.size(), 2572u);
  EXPECT_EQ(Head(split.train, 5), (std::vector<size_t>{13776, 212, 15687, 14091, 21015}));
}

TEST(NumpyLegacyRandomTest, EqualsNumpy) {
  for (const Json& row : Golden()["legacy"]) {
    const uint32_t seed = row["seed"];
    SCOPED_TRACE(seed);
    NumpyLegacyRandom random(seed);
    for (const Json& value : row["uniform"]) EXPECT_EQ(random.Uniform(), value.get<double>());
    random = NumpyLegacyRandom(seed);
    std::vector<uint32_t> below;
    for (uint32_t bound = 1; bound < 300; ++bound) below.push_back(random.Below(bound));
    for (int i = 0; i < 50; ++i) below.push_back(random.Below(89999));
    for (const uint32_t bound : {1u << 31, 0xffffffffu}) below.push_back(random.Below(bound));
    EXPECT_EQ(Digest(below), row["below"]);
    random = NumpyLegacyRandom(seed);
    std::vector<uint32_t> seeds;
    for (int i = 0; i < 1000; ++i) seeds.push_back(random.TakeShuffleSeed());
    for (size_t i = 0; i < row["shuffle_seeds"].size(); ++i) EXPECT_EQ(seeds[i], row["shuffle_seeds"][i]);
    EXPECT_EQ(Digest(seeds), row["shuffle_seeds_digest"]);
  }
  NumpyLegacyRandom random(42);
  std::vector<uint32_t> seeds;
  for (int i = 0; i < 6; ++i) seeds.push_back(random.TakeShuffleSeed());
  EXPECT_EQ(seeds, (std::vector<uint32_t>{42, 4170412009, 3342822751, 1210243767, 1412570585, 2465546753}));
}

}  // namespace
}  // namespace varifocal
