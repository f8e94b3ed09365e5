// The draws must be torch's own: seeded by the low 32 bits, one 32-bit word an element, low half.
#include "harness/adapters/reference/rounding_generator.h"

#include <gtest/gtest.h>

#include "harness/state/error.h"

namespace resumecheck {
namespace {

// torch.manual_seed(7); torch.randint(0, 1 << 16, (6,), dtype=torch.int32)
const std::vector<std::uint16_t> kTorchWithSeed7 = {61615, 58564, 49689, 10742, 38467, 53459};

TEST(RoundingGenerator, DrawsWhatTorchDraws) {
  RoundingGenerator generator(7);
  EXPECT_EQ(generator.draw(6), kTorchWithSeed7);
  const auto more = generator.draw(1300);  // past the 624 words of its state
  EXPECT_EQ(std::vector<std::uint16_t>(more.end() - 4, more.end()),
            (std::vector<std::uint16_t>{62443, 22128, 20217, 42440}));
}

TEST(RoundingGenerator, OnlyTheLow32BitsOfTheSeedCount) {
  EXPECT_EQ(RoundingGenerator(7).draw(9), RoundingGenerator(7 + (1ULL << 32)).draw(9));
  EXPECT_NE(RoundingGenerator(7).draw(9), RoundingGenerator(8).draw(9));
}

TEST(RoundingGenerator, DrawsGoOnWhereTheLastOnesEnded) {
  RoundingGenerator whole(3), parts(3);
  const auto want = whole.draw(1300);  // more than the 624 words of its state
  auto got = parts.draw(700);
  const auto rest = parts.draw(600);
  got.insert(got.end(), rest.begin(), rest.end());
  EXPECT_EQ(got, want);
  EXPECT_EQ(parts.digest(), whole.digest());
}

TEST(RoundingGenerator, GoesOnFromItsText) {
  RoundingGenerator source(3), taken(4);
  source.draw(1000);
  EXPECT_NE(taken.digest(), source.digest());
  taken.take(source.text(), "x");
  EXPECT_EQ(taken.digest(), source.digest());
  EXPECT_EQ(taken.draw(1000), source.draw(1000));
}

TEST(RoundingGenerator, EveryDrawChangesTheDigest) {
  RoundingGenerator generator(3);
  const std::string before = generator.digest();
  generator.draw(1);
  EXPECT_NE(generator.digest(), before);
}

TEST(RoundingGenerator, ATextThatIsNoStateIsTheSubjectsError) {
  RoundingGenerator generator(3);
  const std::string before = generator.digest();
  const std::string whole = generator.text();
  for (const std::string& text : {std::string(), std::string("1 2 3"), std::string("x") + whole}) {
    try {
      generator.take(text, "folder");
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), Error::Kind::subject);
      EXPECT_EQ(error.where(), "folder");
    }
  }
  EXPECT_EQ(generator.digest(), before) << "a text that is refused must not count";
}

}  // namespace
}  // namespace resumecheck
