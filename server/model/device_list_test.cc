// The table of device lists, good and bad: a good one gives its devices in order, a bad one a sentence with the text and the
// cause.
#include "server/model/device_list.h"

#include <gmock/gmock.h>

#include "absl/strings/str_join.h"
#include "base/reason.h"
#include "kernels/backend.h"
#include "server/model/model.h"
#include "server/model/transformer.h"
#include "tests/support/messages.h"

namespace varifocal {
namespace {

TEST(DeviceListTest, GoodOnes) {
  const struct {
    const char *text, *devices;
  } kGood[] = {{"", "auto"},
               {"auto", "auto"},
               {"cpu", "cpu"},
               {"reference", "reference"},
               {"tpu", "tpu"},  // the backends refuse it by name
               {"cuda", "cuda:0"},
               {"cuda:3", "cuda:3"},
               {"cuda:03", "cuda:3"},
               {"cuda:0,1", "cuda:0 cuda:1"},
               {"cuda:7,0,12", "cuda:7 cuda:0 cuda:12"}};
  for (const auto& good : kGood) {
    const auto devices = ParseDevices(good.text);
    ASSERT_TRUE(devices.ok()) << good.text << ": " << devices.status();
    EXPECT_EQ(absl::StrJoin(*devices, " "), good.devices) << good.text;
  }
}

// Models of "auto" and of the device that it means share threads, weights and turns.
TEST(DeviceListTest, AutoAndItsDeviceAreOneBackend) {
  ModelOptions automatic, named;
  automatic.device = "auto";
  automatic.dtype = named.dtype = "f32";
  named.device = kernels::ChosenDevice({.device = "auto", .dtype = kernels::DType::kF32});
  EXPECT_EQ(named.device, "cpu") << "f32 is the CPU's";
  const auto a = LoadModel("models/baseline", automatic), b = LoadModel("models/baseline", named);
  ASSERT_TRUE(a.ok() && b.ok()) << a.status() << b.status();
  EXPECT_EQ(&(*a)->transformer().backend(), &(*b)->transformer().backend());
}

TEST(DeviceListTest, BadOnes) {
  const struct {
    const char *text, *cause;
  } kBad[] = {{"cuda:", "\"\""},
              {"cuda:0,", "\"\""},
              {"cuda:,1", "\"\""},
              {"cuda:0,,1", "\"\""},
              {"cuda:x", "\"x\""},
              {"cuda:-1", "\"-1\""},
              {"cuda:+1", "\"+1\""},
              {"cuda:0, 1", "\" 1\""},
              {"cuda:0-3", "\"0-3\""},
              {"cuda:0,cuda:1", "\"cuda:1\""},
              {"cuda:99999999999", "\"99999999999\""},
              {"cuda:1,1", "cuda:1 "},
              {"cuda:0,1,00", "cuda:0 "},
              {"cpu,cpu", "GPU"},
              {"cpu:1", "GPU"},
              {"auto,cuda:0", "GPU"},
              {"reference,cpu", "GPU"},
              {"cuda0,1", "GPU"},
              {",", "GPU"}};
  for (const auto& bad : kBad) {
    const absl::Status status = ParseDevices(bad.text).status();
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad.text << ": " << status;
    if (status.ok()) continue;
    EXPECT_THAT(status, RefusedFor("BAD_DEVICE", Message(bad.text, bad.cause)));
  }
}

}  // namespace
}  // namespace varifocal
