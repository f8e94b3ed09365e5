// Versions decide which defects are expected where, so an order that is almost PEP 440 would turn a
// release candidate or a local build green or red by mistake.
#include "harness/scenario/version.h"

#include <gtest/gtest.h>

#include "harness/scenario/expression.h"
#include "harness/state/expect_error.h"

namespace resumecheck {
namespace {

TEST(Version, OrdersAsPep440Does) {
  const char* ascending[] = {"0.0.dev1",
                             "0.9",
                             "0.17.0.dev20251231",
                             "0.17.0.dev20260101",
                             "0.17.0a1.dev3",
                             "0.17.0a1",
                             "0.17.0a1.post2.dev4",
                             "0.17.0a1.post2",
                             "0.17.0b2",
                             "0.17.0rc1",
                             "0.17.0",
                             "0.17.0+abc",
                             "0.17.0+abc.5",
                             "0.17.0+abc.10",
                             "0.17.0+cpu",
                             "0.17.0+5",
                             "0.17.0+5.a",
                             "0.17.0+10",
                             "0.17.0.post1.dev2",
                             "0.17.0.post1",
                             "0.17.1.dev0",
                             "0.17.1",
                             "2.8.0",
                             "2.15.0a0+gitabc1234",
                             "2.15.0",
                             "100000000000000000000000000000",
                             "100000000000000000000000000001",
                             "1!0.1"};
  for (std::size_t i = 0; i < std::size(ascending); ++i) {
    for (std::size_t j = 0; j < std::size(ascending); ++j) {
      const int expected = i < j ? -1 : i > j ? 1 : 0;
      EXPECT_EQ(compare_versions(ascending[i], ascending[j]), expected)
          << ascending[i] << " against " << ascending[j];
    }
  }
}

TEST(Version, SpellingsOfOneVersionAreEqual) {
  const std::vector<std::vector<const char*>> equal = {
      {"1.0", "1", "1.0.0", "v1.0", "V1", " 1.0 ", "01.00", "0!1"},
      {"1.0a1", "1.0alpha1", "1.0.a.1", "1.0-A-1", "1.0_alpha_01"},
      {"1.0rc2", "1.0c2", "1.0pre2", "1.0.preview2", "1.0RC2"},
      {"1.0.post3", "1.0-3", "1.0.r3", "1.0rev3", "1.0POST3"},
      {"1.0.dev0", "1.0dev", "1.0-dev", "1.0.dev"},
      {"1.0+a.1", "1.0+A-1", "1.0+a_01"}};
  for (const auto& spellings : equal) {
    for (const char* spelling : spellings) {
      EXPECT_EQ(compare_versions(spellings.front(), spelling), 0) << spelling;
    }
  }
}

TEST(Version, RefusesWhatIsNone) {
  for (const char* text :
       {"", " ", "torch", "1..0", "1.", ".1", "1.0+", "1.0+a..b", "1.0+a!", "!1", "1!", "1.0 .1",
        "1.0x", "1.0a1b2", "1.0dev1post1", "v", "1,0", "1.0\xff"}) {
    SCOPED_TRACE(text);
    EXPECT_FALSE(Version::parse(text).has_value());
    expect_error(Error::Kind::usage, {"is no version"}, [&] { compare_versions("1", text); });
  }
}

TEST(Version, DropsItsLocalLabel) {
  EXPECT_TRUE(Version::parse("2.8.0+cpu")->has_local());
  EXPECT_EQ(Version::parse("2.8.0+cpu")->without_local(), *Version::parse("2.8"));
}

}  // namespace
}  // namespace resumecheck
