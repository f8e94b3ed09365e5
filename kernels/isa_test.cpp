// Every instruction set of this machine gives the slow twin's bits, and a build with one wrong flag
// does not: without the second half the first could be green because it compares nothing.
#include "kernels/isa.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <stdexcept>

#include "kernels/contracted.h"
#include "kernels/model_twin_comparison.h"
#include "kernels/twin_comparison.h"

namespace resumecheck::kernels {
namespace {

class EveryIsa : public testing::TestWithParam<Isa> {};

TEST_P(EveryIsa, GivesTheSlowTwinsBits) {
  for (const Outcome& outcome : compare_with_twin(host_subject(GetParam()), 1)) {
    EXPECT_GT(outcome.elements, 0) << outcome.kernel << " compared nothing";
    EXPECT_EQ(outcome.mismatches, 0)
        << outcome.kernel << " of the " << name_of(GetParam())
        << " build: " << outcome.first_mismatch
        << "\nread the formula in slow_twin.cpp against the phase in "
        << "adamw_phases.h; if only one instruction set is wrong, its flags in CMakeLists.txt";
  }
}

TEST_P(EveryIsa, GivesTheSlowModelTwinsBits) {
  for (const Outcome& outcome : compare_model_with_twin(host_model_kernels(GetParam()), 2)) {
    EXPECT_GT(outcome.elements, 0) << outcome.kernel << " compared nothing";
    EXPECT_EQ(outcome.mismatches, 0)
        << outcome.kernel << " of the " << name_of(GetParam())
        << " build: " << outcome.first_mismatch
        << "\nread the formula in slow_model_twin.cpp against the phase in fp8_phases.h or "
        << "model_phases.h";
  }
}

INSTANTIATE_TEST_SUITE_P(Kernels, EveryIsa, testing::ValuesIn(available_isas()),
                         [](const auto& info) { return name_of(info.param); });

using Update = decltype(Subject::update);

std::int64_t mismatches_of(const Update& update) {
  Subject subject = host_subject(Isa::avx2);
  subject.update = update;
  return compare_with_twin(subject, 1).front().mismatches;
}

TEST(ForbiddenFlags, GiveOtherBits) {
  if (!contracted_available()) GTEST_SKIP() << "the processor has no FMA to contract with";
  EXPECT_GT(mismatches_of(update_quantised_contracted), 0)
      << "-ffp-contract=fast changed nothing: look at the flags of isa_contracted.cpp, and whether "
      << "the comparison still compares parameters";
  EXPECT_GT(mismatches_of(update_quantised_fast_math), 1000)
      << "-ffast-math changed next to nothing: look at the flags of isa_fast_math.cpp";
}

std::int64_t mismatches_of(const ModelKernels& kernels) {
  std::int64_t mismatches = 0;
  for (const Outcome& outcome : compare_model_with_twin(kernels, 1))
    mismatches += outcome.mismatches;
  return mismatches;
}

TEST(ForbiddenFlags, GiveTheModelOtherBits) {
  if (!contracted_available()) GTEST_SKIP() << "the processor has no FMA to contract with";
  EXPECT_GT(mismatches_of(model_kernels_contracted()), 1000)
      << "-ffp-contract=fast changed next to nothing: look at the flags of isa_contracted.cpp";
  EXPECT_GT(mismatches_of(model_kernels_fast_math()), 1000)
      << "-ffast-math changed next to nothing: look at the flags of isa_fast_math.cpp";
}

TEST(Isas, OnlyThoseOfThisMachineAreHandedOut) {
  EXPECT_EQ(available_isas().front(), Isa::baseline);
  EXPECT_EQ(available_isas().back(), best_isa());
  for (const Isa isa : {Isa::baseline, Isa::avx2, Isa::avx512}) {
    const std::vector<Isa> isas = available_isas();
    if (std::find(isas.begin(), isas.end(), isa) == isas.end())
      EXPECT_THROW(unit_of(isa), std::invalid_argument);
    else
      EXPECT_NO_THROW(unit_of(isa));
  }
}

}  // namespace
}  // namespace resumecheck::kernels
