// Truncation of a context's last tokens equals upstream's expression, byte for byte, for every number of tokens, on
// contexts that do not round-trip through decoding (recipes/goldens/make_helmet_cuts.py).

#include "absl/strings/str_cat.h"
#include "base/json.h"
#include "eval_tasks/helmet/task.h"
#include "eval_tasks/token_counter.h"
#include "gtest/gtest.h"
#include "tests/support/read_json.h"
#include "tokenizer/tokenizer.h"

namespace varifocal::helmet {
namespace {

constexpr char kGoldens[] = "tests/testdata/goldens/";

TEST(CutTest, EqualsUpstream) {
  const Json golden = testing_support::ReadJson(absl::StrCat(kGoldens, "helmet_cuts.json"));
  int cut_count = 0;
  for (const Json& row : golden["rows"]) {
    const auto name = row["tokenizer"].get<std::string>();
    const auto counter = MakeTokenCounter(Tokenizer::Load(absl::StrCat(kGoldens, "tokenizers/", name)).value(),
                                          /*chat_format=*/nullptr, SpecialTokens::kAsTokens);
    for (size_t i = 0; i < row["kept"].size(); ++i) {
      const auto context = golden["contexts"][i].get<std::string>();
      const auto kept = row["kept"][i].get<std::vector<size_t>>();
      for (size_t cut = 1; cut <= kept.size(); ++cut, ++cut_count) {
        EXPECT_EQ(WithoutLastTokens(context, cut, *counter).value(), context.substr(0, kept[cut - 1]))
            << name << ", context " << i << " without " << cut << " tokens";
      }
      EXPECT_EQ(WithoutLastTokens(context, std::ssize(kept) + 1, *counter).status().code(),
                absl::StatusCode::kOutOfRange);
    }
  }
  EXPECT_GT(cut_count, 1000);
}

}  // namespace
}  // namespace varifocal::helmet
