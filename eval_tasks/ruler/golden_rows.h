// For tests: rows that NVIDIA's own scripts wrote, and how generated ones differ from them.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/files.h"
#include "base/json.h"
#include "base/reason.h"
#include "base/sha256.h"
#include "eval_tasks/ruler/fixture.h"
#include "gmock/gmock.h"

namespace varifocal::ruler {

struct GoldenCase {
  Json golden;
  std::map<std::string, std::string> parameters;
  std::string tokenizer;
  int64_t seed = 42;
  int length = 0;
};

inline std::vector<GoldenCase> GoldenCases(const std::string& path, const std::string& data) {
  std::vector<GoldenCase> cases;
  const Json all = ParseJson(ReadFile(path, kDataFile).value()).value();
  for (const Json& golden : all) {
    GoldenCase made;
    made.golden = golden;
    made.parameters = {{"task", golden["task"].get<std::string>()}, {"data", data}};
    made.tokenizer = golden["tokenizer"].get<std::string>();
    made.seed = golden.value("seed", 42);
    made.length = golden["length"].get<int>();
    if (golden.contains("template_tokens")) {
      made.parameters["template_tokens"] = absl::StrCat(golden["template_tokens"].get<int>());
    } else if (golden.contains("template")) {
      made.parameters["model_template"] = golden["template"].get<std::string>();
    }
    cases.push_back(std::move(made));
  }
  return cases;
}

class GoldenRowsTest : public RulerFolderTest {
 protected:
  // Of the whole suite, in any order of rows.
  static int CompareRows(const std::string& path, const std::string& data, bool digests_only) {
    int compared = 0;
    for (const GoldenCase& one : GoldenCases(path, data)) {
      SCOPED_TRACE(absl::StrCat(one.golden["task"].get<std::string>(), " ", one.tokenizer, " ", one.length, " ",
                                one.golden.value("template", std::string()), " seed ", one.seed));
      const auto task = OpenRuler("ruler", one.parameters);
      EXPECT_TRUE(task.ok()) << task.status();
      if (!task.ok()) continue;
      const Json& rows = one.golden["rows"];
      const auto counter = CounterOf(one.tokenizer);
      if (rows.empty()) {  // upstream's script did not end, at some of five rows
        const auto sample = (*task)->MakeSample({one.seed, one.length, 4}, *counter);
        EXPECT_TRUE(HasReason(sample.status(), ErrorReason::kImpossibleLength)) << sample.status();
        ++compared;
        continue;
      }
      for (int i = std::ssize(rows) - 1; i >= 0; --i) {
        const auto sample = (*task)->MakeSample({one.seed, one.length, i}, *counter);
        EXPECT_TRUE(sample.ok()) << sample.status();
        if (!sample.ok()) break;
        EXPECT_EQ(Difference(*sample, rows[i], digests_only), "") << "row " << i;
        ++compared;
      }
    }
    return compared;
  }

  static std::string Difference(const Sample& sample, const Json& row, bool digests_only) {
    const std::string input = sample.prompt.substr(0, sample.prompt.size() - sample.answer_prefix.size());
    const auto digest = [](absl::string_view text) { return Sha256Hex(text).substr(0, 16); };
    if (digests_only) {
      std::string outputs;
      for (const std::string& output : sample.gold) absl::StrAppend(&outputs, outputs.empty() ? "" : "\n", output);
      if (digest(sample.answer_prefix) != row["answer_prefix"].get<std::string>())
        return "prefix " + sample.answer_prefix;
      if (digest(outputs) != row["outputs"].get<std::string>()) return "outputs " + outputs;
    } else {
      if (sample.answer_prefix != row["answer_prefix"].get<std::string>()) return "prefix " + sample.answer_prefix;
      if (Json(sample.gold) != row["outputs"]) return "outputs " + Json(sample.gold).dump();
      if (row.contains("input") && input != row["input"].get<std::string>()) return "input " + input;
    }
    if (digest(input) != row["input_sha256"].get<std::string>())
      return absl::StrCat("a prompt of ", input.size(), " bytes");
    return "";
  }
};

}  // namespace varifocal::ruler
