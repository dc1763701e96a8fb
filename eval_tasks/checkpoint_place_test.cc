// The place of a checkpoint: its parts in either direction, and texts that only look like them.
#include "eval_tasks/checkpoint_place.h"

#include <gtest/gtest.h>

namespace varifocal {
namespace {

TEST(CheckpointPlaceTest, PartsOfAPlace) {
  const struct {
    const char *place, *directory, *adapter, *dtype, *devices;
  } kPlaces[] = {
      {"models/a", "models/a", "", "", ""},
      {"models/a@bf16", "models/a", "", "bf16", ""},
      {"a@cuda:1", "a", "", "", "cuda:1"},
      {"a@cuda:0,12", "a", "", "", "cuda:0,12"},
      {"a@adapter=b@bf16@cuda:1,0", "a", "b", "bf16", "cuda:1,0"},
      {"a@adapter=b@cuda:2", "a", "b", "", "cuda:2"},
      {"a@cuda:", "a", "", "", "cuda:"},              // refused as a list
      {"a@cuda:0,,1", "a", "", "", "cuda:0,,1"},      // the same
      {"a@cuda:x", "a", "", "", "cuda:x"},            // the same
      {"a@cuda:1@bf16", "a", "", "", "cuda:1@bf16"},  // the same
      {"a@cuda-tuned", "a@cuda-tuned", "", "", ""},
      {"a@cuda:1/b", "a@cuda:1/b", "", "", ""},
      {"a@cuda", "a", "", "", "cuda"},
  };
  for (const auto& expected : kPlaces) {
    const CheckpointPlace place = CheckpointOf(expected.place);
    EXPECT_EQ(place.directory, expected.directory) << expected.place;
    EXPECT_EQ(place.adapter, expected.adapter) << expected.place;
    EXPECT_EQ(place.dtype, expected.dtype) << expected.place;
    EXPECT_EQ(place.devices, expected.devices) << expected.place;
    EXPECT_EQ(place.ToString(), expected.place);
  }
}

// An adapter goes where its base is placed, so that they share weights.
TEST(CheckpointPlaceTest, AnAdapterIsOnTheDevicesOfItsBase) {
  const auto place = ReadAdapterFlag("b=a:lora", {{"a", "dir@bf16@cuda:1"}});
  ASSERT_TRUE(place.ok()) << place.status();
  EXPECT_EQ(place->place, "dir@adapter=lora@bf16@cuda:1");
}

}  // namespace
}  // namespace varifocal
