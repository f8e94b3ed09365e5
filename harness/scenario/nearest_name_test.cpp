#include "harness/scenario/nearest_name.h"

#include <gtest/gtest.h>

namespace resumecheck {
namespace {

TEST(NearestName, OffersWhatWasMeantAndNothingElse) {
  const std::vector<std::string> keys = {"save_after", "train_until", "save_format", "gradients"};
  EXPECT_EQ(nearest_name("safe_after", keys), "save_after");
  EXPECT_EQ(nearest_name("gradient", keys), "gradients");
  EXPECT_EQ(nearest_name("onto", keys), std::nullopt);
  EXPECT_EQ(nearest_name("", keys), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(100'000, 'x'), keys), std::nullopt);
  EXPECT_EQ(did_you_mean("onto", {"a", "b"}), "known: a, b");
}

}  // namespace
}  // namespace resumecheck
