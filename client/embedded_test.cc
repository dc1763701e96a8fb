// Options of the server in this process: a flag of the command line reaches the model that is loaded.
#include "client/embedded.h"

#include "absl/strings/str_cat.h"
#include "client/run_flags.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/model/kernel_flags.h"
#include "server/server.h"

namespace varifocal::client {
namespace {

TEST(EmbeddedTest, RunHasTheDaemonsFlagsOfKernels) {
  ASSERT_FALSE(KernelFlags().empty());
  for (const KernelFlag& given : KernelFlags()) {
    RunFlags run;
    FlagSet flags;
    run.AddTo(flags);
    EXPECT_THAT(flags.Names(), testing::Contains("--" + std::string(given.name)));
    EXPECT_FALSE(run.engine.AnyGiven()) << given.name;
    const absl::Status parsed = flags.Parse({"quick", "--model=m=DIR", absl::StrCat("--", given.name, "=chosen")});
    ASSERT_TRUE(parsed.ok()) << parsed;
    EXPECT_TRUE(run.engine.AnyGiven()) << given.name;
    const absl::StatusOr<EmbeddedOptions> options = run.Options();
    ASSERT_TRUE(options.ok()) << options.status();
    const ModelOptions model = ToServerOptions(*options).model;
    for (const KernelFlag& flag : KernelFlags()) {
      EXPECT_EQ(model.*flag.value, flag.value == given.value ? "chosen" : "") << given.name << " sets " << flag.name;
    }
  }
}

}  // namespace
}  // namespace varifocal::client
