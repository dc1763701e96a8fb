// Ids and decoded text must equal those of the `tokenizers` library (tests/testdata/goldens/tokenizers, written by
// recipes/goldens/make_tokenizers.py), string by string, on one thread and on several that share a tokenizer.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <thread>

#include "base/json.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

constexpr char kGoldens[] = "tests/testdata/goldens/tokenizers/";

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

class GoldenTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = GetParam();
    auto loaded = Tokenizer::Load(name == "shipped" ? "models/baseline" : kGoldens + name);
    ASSERT_TRUE(loaded.ok()) << loaded.status();
    tokenizer_ = *loaded;
    auto golden = ParseJson(ReadFile(kGoldens + name + "/golden.json"));
    ASSERT_TRUE(golden.ok()) << golden.status();
    golden_ = *golden;
  }
  // Number of differing values; reports the first few.
  int CountDifferences() const {
    int different_count = 0;
    auto same = [&](const Json& test_case, const char* what, const auto& got, const Json& wanted) {
      if (got.ok() && Json(*got) == wanted) return;
      if (++different_count <= 3) {
        ADD_FAILURE() << what << " of " << test_case.dump(-1, ' ', true).substr(0, 300) << "\n got "
                      << (got.ok() ? Json(*got).dump() : got.status().ToString());
      }
    };
    for (const Json& c : golden_["cases"]) {
      const auto text = c["text"].get<std::string>();
      const auto plain = c["ids_without_specials"].get<std::vector<int32_t>>();
      same(c, "ids", tokenizer_->Encode(text), c["ids"]);
      same(c, "ids_without_specials", tokenizer_->Encode(text, {.add_special_tokens = false}),
           c["ids_without_specials"]);
      same(c, "ids_specials_as_text",
           tokenizer_->Encode(text, {.add_special_tokens = false, .special_tokens_as_text = true}),
           c.value("ids_specials_as_text", c["ids_without_specials"]));
      const Json decoded = c.value("decoded", c["text"]);
      same(c, "decoded", tokenizer_->Decode(plain), decoded);
      same(c, "decoded_with_specials", tokenizer_->Decode(plain, {.keep_special_tokens = true}),
           c.value("decoded_with_specials", decoded));
    }
    for (const Json& c : golden_["decodes"]) {
      const auto ids = c["ids"].get<std::vector<int32_t>>();
      same(c, "decoded", tokenizer_->Decode(ids), c["decoded"]);
      same(c, "decoded_with_specials", tokenizer_->Decode(ids, {.keep_special_tokens = true}),
           c.value("decoded_with_specials", c["decoded"]));
    }
    return different_count;
  }
  std::shared_ptr<const Tokenizer> tokenizer_;
  Json golden_;
};

TEST_P(GoldenTest, EqualsTheLibrary) {
  EXPECT_GT(golden_["cases"].size(), 50u);
  EXPECT_EQ(CountDifferences(), 0);
}

TEST_P(GoldenTest, FourThreadsShareOneTokenizer) {
  std::vector<int> different_counts(4, -1);
  std::vector<std::thread> threads;
  for (int& count : different_counts) threads.emplace_back([&, this] { count = CountDifferences(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(different_counts, std::vector<int>(4, 0));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest, testing::Values("shipped", "gpt2-plain", "gpt2-added", "llama3"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace varifocal
