#include "harness/state/box.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "harness/state/expect_error.h"

namespace resumecheck {
namespace {

using Random = std::mt19937;

std::int64_t between(Random& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

Shape random_shape(Random& random) {
  Shape shape(between(random, 0, 4));
  for (std::int64_t& size : shape) size = between(random, 1, 6);
  return shape;
}

Box random_box(Random& random, const Shape& global) {
  Shape offsets, sizes;
  for (const std::int64_t size : global) {
    offsets.push_back(between(random, 0, size - 1));
    sizes.push_back(between(random, 1, size - offsets.back()));
  }
  return Box(offsets, sizes);
}

bool holds(const Box& box, const Shape& index) {
  for (std::size_t d = 0; d < index.size(); ++d) {
    if (index[d] < box.offsets()[d] || index[d] >= box.offsets()[d] + box.sizes()[d]) return false;
  }
  return true;
}

std::int64_t flat(const Shape& index, const Box& box) {
  std::int64_t result = 0;
  for (std::size_t d = 0; d < index.size(); ++d) {
    result = result * box.sizes()[d] + index[d] - box.offsets()[d];
  }
  return result;
}

// Every index of the tensor, the obvious way.
std::vector<Shape> indices(const Shape& global) {
  std::vector<Shape> all = {{}};
  for (const std::int64_t size : global) {
    std::vector<Shape> longer;
    for (const Shape& prefix : all) {
      for (std::int64_t i = 0; i < size; ++i) {
        longer.push_back(prefix);
        longer.back().push_back(i);
      }
    }
    all = longer;
  }
  return all;
}

TEST(Box, CountsElements) {
  EXPECT_EQ(element_count(Shape{}), 1) << "a 0-dimensional tensor holds one element";
  EXPECT_EQ(element_count(Shape{3, 4}), 12);
  EXPECT_EQ(element_count(Shape{3, 0}), 0);
}

TEST(Box, RefusesWhatNoTensorHas) {
  const auto harness = Error::Kind::harness;
  expect_error(harness, {"negative"}, [] { element_count(Shape{2, -1}); });
  expect_error(harness, {"63 bits"}, [] { element_count(Shape{INT64_MAX, 2}); });
  expect_error(harness, {"63 bits"}, [] { element_count(Shape{0, INT64_MAX, 2}); });
  expect_error(harness, {"negative"}, [] { Box(Shape{-1}, Shape{2}); });
  expect_error(harness, {"negative"}, [] { Box(Shape{1}, Shape{-2}); });
  expect_error(harness, {"dimension"}, [] { Box(Shape{1, 2}, Shape{2}); });
  expect_error(harness, {"63 bits"}, [] { Box(Shape{INT64_MAX}, Shape{1}); });
}

TEST(Box, Text) {
  EXPECT_EQ(to_text(Box({128, 0}, {128, 64})), "[128:256, 0:64]");
  EXPECT_EQ(to_text(Box()), "[]");
  EXPECT_EQ(to_text(Shape{512, 256}), "[512, 256]");
}

TEST(Box, InsideNeedsEveryDimension) {
  EXPECT_TRUE(Box({2, 0}, {2, 3}).inside({4, 3}));
  EXPECT_FALSE(Box({2, 0}, {3, 3}).inside({4, 3}));
  EXPECT_FALSE(Box({2, 1}, {2, 3}).inside({4, 3}));
  EXPECT_FALSE(Box({2}, {2}).inside({4, 3})) << "boxes of other ranks lie in no such tensor";
  EXPECT_TRUE(Box().inside({}));
}

TEST(Box, IntersectionAndDifferenceAgreeWithEveryElement) {
  Random random(1);
  for (int round = 0; round < 300; ++round) {
    const Shape global = random_shape(random);
    const Box one = random_box(random, global);
    const Box two = random_box(random, global);
    const std::optional<Box> shared = one.intersection(two);
    const std::vector<Box> rest = difference(one, two);
    ASSERT_FALSE(shared && shared->empty()) << "boxes that only touch share nothing";
    for (const Shape& index : indices(global)) {
      const bool in_both = holds(one, index) && holds(two, index);
      ASSERT_EQ(shared && holds(*shared, index), in_both)
          << to_text(one) << " and " << to_text(two) << " at " << to_text(index);
      const auto times = std::count_if(rest.begin(), rest.end(),
                                       [&](const Box& box) { return holds(box, index); });
      ASSERT_EQ(times, holds(one, index) && !in_both ? 1 : 0)
          << to_text(one) << " without " << to_text(two) << " at " << to_text(index);
    }
  }
}

TEST(Box, RunsVisitEachElementOnceInOrder) {
  Random random(2);
  for (int round = 0; round < 300; ++round) {
    const Shape global = random_shape(random);
    const Box box = random_box(random, global);
    std::vector<std::pair<std::int64_t, std::int64_t>> want;
    for (const Shape& index : indices(global)) {
      if (holds(box, index)) want.emplace_back(flat(index, box), flat(index, Box::whole(global)));
    }
    std::vector<std::pair<std::int64_t, std::int64_t>> got;
    for_each_run(box, global, [&](std::int64_t in_box, std::int64_t in_tensor, std::int64_t run) {
      for (std::int64_t i = 0; i < run; ++i) got.emplace_back(in_box + i, in_tensor + i);
    });
    ASSERT_EQ(got, want) << to_text(box) << " of " << to_text(global);
  }
}

TEST(Box, RunsAreAsLongAsTheyCanBe) {
  int runs = 0;
  const auto count = [&](std::int64_t, std::int64_t, std::int64_t) { ++runs; };
  for_each_run(Box({2, 0, 0}, {4, 5, 6}), {8, 5, 6}, count);
  EXPECT_EQ(runs, 1) << "a shard of whole rows is one run, whatever its dimensions";
  runs = 0;
  for_each_run(Box({0, 1, 0}, {8, 2, 6}), {8, 5, 6}, count);
  EXPECT_EQ(runs, 8) << "one run for each index of the outermost dimension";
  runs = 0;
  for_each_run(Box({0, 0}, {0, 6}), {8, 6}, count);
  EXPECT_EQ(runs, 0) << "an empty box has no runs";
}

TEST(Box, CopyRegionEqualsTheNaiveLoop) {
  Random random(3);
  for (int round = 0; round < 300; ++round) {
    const Shape global = random_shape(random);
    const Box from_box = random_box(random, global);
    const Box onto_box = random_box(random, global);
    const std::optional<Box> region = from_box.intersection(onto_box);
    if (!region) continue;
    const std::size_t size = std::size_t{1} << between(random, 0, 3);
    std::vector<std::byte> from(from_box.element_count() * size);
    for (std::byte& byte : from) byte = static_cast<std::byte>(random());
    std::vector<std::byte> want(onto_box.element_count() * size, std::byte{0xee});
    std::vector<std::byte> got = want;
    for (const Shape& index : indices(global)) {
      if (!holds(*region, index)) continue;
      std::memcpy(&want[flat(index, onto_box) * size], &from[flat(index, from_box) * size], size);
    }
    copy_region(*region, from_box, from, onto_box, got, size);
    ASSERT_EQ(got, want) << to_text(*region) << " from " << to_text(from_box) << " onto "
                         << to_text(onto_box) << ", elements of " << size << " bytes";
  }
}

}  // namespace
}  // namespace resumecheck
