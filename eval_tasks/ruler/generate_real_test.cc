// Rows with upstream's own prompts and word lists. Skipped where the user has no checkout.
#include <filesystem>

#include "eval_tasks/ruler/golden_rows.h"
#include "eval_tasks/ruler/inputs.h"

namespace varifocal::ruler {
namespace {

class RealRowsTest : public GoldenRowsTest {};

// Essays and questions are the stand-ins.
TEST_F(RealRowsTest, AreUpstreams) {
  namespace fs = std::filesystem;
  const fs::path real = DefaultRulerDirectory();
  if (!fs::exists(real / "RULER") || !fs::exists(real / "wonderwords") || !fs::exists(real / "punkt_tab")) {
    GTEST_SKIP() << real << " has no checkout, word lists and Punkt";
  }
  CopyStandIns();
  const auto copy = fs::copy_options::recursive | fs::copy_options::overwrite_existing;
  for (const char* name : {"niah.py", "variable_tracking.py", "qa.py", "constants.py"}) {
    const fs::path path = fs::path("RULER/scripts/data/synthetic") / name;
    fs::copy(real / path, folder_ / path, copy);
  }
  fs::copy(real / "wonderwords", fs::path(folder_) / "wonderwords", copy);
  fs::copy(real / "punkt_tab/english", fs::path(folder_) / "punkt_tab/english", copy);
  EXPECT_GT(CompareRows("eval_tasks/ruler/testdata/real_rows.json", folder_, true), 60);
}

}  // namespace
}  // namespace varifocal::ruler
