#include "harness/report/printable_text.h"

#include <gtest/gtest.h>

namespace resumecheck {
namespace {

TEST(Printable, KeepsGoodTextAndShowsTheRest) {
  EXPECT_EQ(printable("plain \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80"),
            "plain \xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(printable("a\x1b[31mb\x07\x7f"), "a\\x1b[31mb\\x07\\x7f");
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("a\nb\tc"), "a b c");
  EXPECT_EQ(printable("a\nb\tc\r", true), "a\nb\tc\\x0d");
}

TEST(Printable, BrokenUtf8BecomesTheReplacementCharacter) {
  const std::string r = "\xEF\xBF\xBD";
  EXPECT_EQ(printable("\xff"
                      "a"),
            r + "a");
  EXPECT_EQ(printable("\xC3"), r);
  EXPECT_EQ(printable("\xC0\xAF"), r + r) << "an overlong form";
  EXPECT_EQ(printable("\xED\xA0\x80"), r + r + r) << "half a surrogate pair";
  EXPECT_EQ(printable("\xF4\x90\x80\x80"), r + r + r + r) << "above U+10FFFF";
  EXPECT_EQ(printable("\xE2\x82"), r + r) << "cut off";
  EXPECT_EQ(printable("\xEF\xBF\xBF"), r) << "U+FFFF is no XML character";
  EXPECT_EQ(printable("\xC2\x9B"
                      "1m"),
            r + "1m")
      << "a terminal's control sequence in one character";
}

TEST(CutTo, CountsCharactersNotBytes) {
  EXPECT_EQ(cut_to("abcdef", 6), "abcdef");
  EXPECT_EQ(cut_to("abcdefg", 6), "abc...");
  EXPECT_EQ(cut_to("\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9\xC3\xA9", 4), "\xC3\xA9...");
  EXPECT_EQ(columns("\xC3\xA9\xE2\x82\xAC"), 2U);
  EXPECT_EQ(cut_to("abcd", 2), "..");
}

}  // namespace
}  // namespace resumecheck
