// Rows of 8K to 128K tokens that NVIDIA's own scripts wrote of the stand-ins (recipes/goldens/make_ruler.py --long).
#include "eval_tasks/ruler/golden_rows.h"

namespace varifocal::ruler {
namespace {

TEST_F(GoldenRowsTest, LongRowsAreUpstreams) {
  EXPECT_EQ(CompareRows("eval_tasks/ruler/testdata/long_rows.json", kStandIns, true), 124);
}

}  // namespace
}  // namespace varifocal::ruler
