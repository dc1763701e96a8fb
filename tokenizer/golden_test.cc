// Ids and decoded text must equal those of the `tokenizers` library (tests/testdata/goldens/tokenizers, written by
// recipes/goldens/make_tokenizers.py, which documents golden.json), string by string, for a tokenizer of every
// family, on one thread and on several that share a tokenizer.
#include <gtest/gtest.h>

#include <algorithm>
#include <thread>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/json.h"
#include "base/sha256.h"
#include "tests/support/assign_or_fail.h"
#include "tests/support/read_json.h"
#include "tokenizer/tokenizer.h"

namespace varifocal {
namespace {

using Ids = std::vector<int32_t>;
constexpr char kGoldens[] = "tests/testdata/goldens/tokenizers/";

const Json& Texts() {
  static const Json texts = testing_support::ReadJson(absl::StrCat(kGoldens, "texts.json"));
  return texts;
}

// One word that nothing cuts: pseudo-random letters, as recipes/goldens/tokenizer_texts.py makes it.
std::string LongWord(size_t size) {
  std::string word;
  for (uint64_t state = 1; word.size() < size;) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    word.push_back('a' + (state >> 33) % 26);
  }
  return word;
}

class GoldenTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
    const std::string name = GetParam();
    ASSIGN_OR_FAIL(auto loaded, Tokenizer::Load(name == "shipped" ? "models/baseline" : kGoldens + name));
    tokenizer_ = loaded;
    golden_ = testing_support::ReadJson(kGoldens + name + "/golden.json");
    ASSERT_GT(Texts()["texts"].size(), 300u);
    ASSERT_EQ(golden_["ids"].size(), Texts()["texts"].size());
  }

  // Number of differing values; reports the first few.
  int CountDifferences() const {
    int different_count = 0;
    auto same = [&](const Json& what, const char* check, const auto& got, const Json& wanted) {
      if (got.ok() && Json(*got) == wanted) return;
      if (++different_count > 3) return;
      ADD_FAILURE() << check << " of " << what.dump(-1, ' ', true).substr(0, 300) << "\n got "
                    << (got.ok() ? Json(*got).dump() : got.status().ToString()) << "\n not " << wanted.dump();
    };
    const auto before = golden_["before"].get<Ids>(), behind = golden_["behind"].get<Ids>();
    for (size_t i = 0; i < golden_["ids"].size(); ++i) {
      const Json& shown = Texts()["texts"][i];
      const auto text = shown.get<std::string>(), key = absl::StrCat(i);
      const auto ids = golden_["ids"][i].get<Ids>();
      Ids whole = before;
      whole.insert(whole.end(), ids.begin(), ids.end());
      whole.insert(whole.end(), behind.begin(), behind.end());
      same(shown, "ids", tokenizer_->Encode(text), whole);
      same(shown, "plain ids", tokenizer_->Encode(text, {.add_special_tokens = false}), ids);
      same(shown, "ids of specials as text",
           tokenizer_->Encode(text, {.add_special_tokens = false, .special_tokens_as_text = true}),
           golden_["as_text"].value(key, Json(ids)));
      const Json decoded = golden_["decoded"].value(key, shown);
      same(shown, "decoded", tokenizer_->Decode(ids), decoded);
      same(shown, "decoded with specials", tokenizer_->Decode(ids, {.keep_special_tokens = true}),
           golden_["kept"].value(key, decoded));
    }
    for (size_t i = 0; i < golden_["bytes"].size(); ++i) {
      const Json& hex = Texts()["bytes"][i];
      same(hex, "bytes",
           tokenizer_->Encode(absl::HexStringToBytes(hex.get<std::string>()), {.add_special_tokens = false}),
           golden_["bytes"][i]);
    }
    for (const Json& row : golden_["decodes"]) {
      same(row, "decoded", tokenizer_->Decode(row[0].get<Ids>()), row[1]);
      same(row, "decoded with specials", tokenizer_->Decode(row[0].get<Ids>(), {.keep_special_tokens = true}), row[2]);
    }
    return different_count;
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  Json golden_;
};

std::string Show(const std::vector<TextRange>& offsets) {
  return absl::StrJoin(offsets, "", [](std::string* out, const TextRange& range) {
    absl::StrAppend(out, range.begin, ",", range.end, ";");
  });
}

TEST_P(GoldenTest, EqualsTheLibrary) { EXPECT_EQ(CountDifferences(), 0); }

TEST_P(GoldenTest, OffsetsEqualTheLibrary) {
  ASSERT_EQ(golden_["offsets"].size(), Texts()["texts"].size());
  int different_count = 0;
  for (size_t i = 0; i < Texts()["texts"].size(); ++i) {
    const auto text = Texts()["texts"][i].get<std::string>();
    ASSIGN_OR_FAIL(const auto encoded, tokenizer_->EncodeWithOffsets(text));
    EXPECT_EQ(encoded.ids, *tokenizer_->Encode(text)) << text;
    const std::string shown = Show(encoded.offsets);
    if (Sha256Hex(shown).substr(0, 8) == golden_["offsets"][i].get<std::string>()) continue;
    if (++different_count <= 3)
      ADD_FAILURE() << "offsets of " << Texts()["texts"][i].dump(-1, ' ', true) << ": " << shown;
  }
  EXPECT_EQ(different_count, 0);
}

TEST_P(GoldenTest, LongWordEqualsTheLibrary) {
  ASSIGN_OR_FAIL(const auto ids,
                 tokenizer_->Encode(LongWord(Texts()["word_size"].get<size_t>()), {.add_special_tokens = false}));
  EXPECT_EQ(Sha256Hex(absl::StrCat("[", absl::StrJoin(ids, ","), "]")), golden_["word_sha256"].get<std::string>());
}

TEST_P(GoldenTest, FourThreadsShareOneTokenizer) {
  std::vector<int> different_counts(4, -1);
  std::vector<std::thread> threads;
  for (int& count : different_counts) threads.emplace_back([&, this] { count = CountDifferences(); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(different_counts, std::vector<int>(4, 0));
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTest,
                         testing::Values("shipped", "gpt2", "added-flags", "neox", "llama3", "qwen2", "tekken",
                                         "deepseek", "llama2", "phi3", "mistral", "gemma", "t5", "xlmr",
                                         "unigram-bytes", "bert"),
                         [](const auto& info) {
                           std::string name = info.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace varifocal
