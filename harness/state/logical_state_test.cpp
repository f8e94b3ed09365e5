#include "harness/state/logical_state.h"

#include <gtest/gtest.h>

namespace resumecheck {
namespace {

TEST(Selection, ANameSelectsItselfAndItsChildren) {
  EXPECT_TRUE(selects("moment1", "moment1.codes"));
  EXPECT_TRUE(selects("moment1", "moment1.values"));
  EXPECT_TRUE(selects("moment1", "moment1"));
  EXPECT_TRUE(selects("moment1.codes", "moment1.codes"));
}

TEST(Selection, NothingElseIsSelected) {
  EXPECT_FALSE(selects("moment1.codes", "moment1.scale"));
  EXPECT_FALSE(selects("moment1.codes", "moment1"));
  EXPECT_FALSE(selects("moment", "moment1.codes")) << "a prefix of a word is another word";
  EXPECT_FALSE(selects("moment1", "moment10.codes"));
  EXPECT_FALSE(selects("", "param")) << "an empty selector must not select everything";
  EXPECT_FALSE(selects(std::vector<std::string>{}, "param"));
}

TEST(Selection, AnyOfSeveral) {
  EXPECT_TRUE(selects(std::vector<std::string>{"param", "step"}, "step"));
  EXPECT_FALSE(selects(std::vector<std::string>{"param", "step"}, "lr"));
}

TEST(Selection, AValueBelongsToThePartBeforeTheSlash) {
  EXPECT_EQ(value_part("lr/0"), "lr");
  EXPECT_EQ(value_part("param_group/1/betas/0"), "param_group");
  EXPECT_EQ(value_part("scheduler"), "scheduler");
}

TEST(LogicalState, Texts) {
  EXPECT_EQ(to_text(TensorKey{"ffn.up", "moment2.scale"}), "moment2.scale of ffn.up");
  EXPECT_EQ(to_text(Value(true)), "true");
  EXPECT_EQ(to_text(Value(std::int64_t{3})), "3");
  EXPECT_EQ(to_text(Value(0.001)), "0.001");
  EXPECT_EQ(to_text(Value(static_cast<double>(1e-3F))), "0.0010000000474974513")
      << "all digits: two values that differ must not read the same";
  EXPECT_EQ(to_text(Value(std::string("cosine"))), "cosine");
}

}  // namespace
}  // namespace resumecheck
