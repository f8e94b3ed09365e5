// A wrong last bit in a scalar is a wrong last bit in every parameter. The expected values were
// computed apart, in Python's doubles for canonical; the torchao ones follow from fp32 subtraction.
#include <gtest/gtest.h>

#include <cmath>

#include "kernels/adamw.h"
#include "kernels/float_bits.h"

namespace resumecheck::kernels {
namespace {

AdamWSettings settings_for(Profile profile) {
  AdamWSettings settings;
  settings.profile = profile;
  return settings;
}

TEST(CanonicalScalars, AreRoundedOnceFromDoubles) {
  const AdamWSettings settings = settings_for(Profile::canonical);
  const struct {
    std::int64_t step;
    std::uint32_t bias1, bias2;
  } expected[] = {{1, 0x3dcccccd, 0x3a83126f},
                  {2, 0x3e428f5c, 0x3b0301a8},
                  {10, 0x3f26bd02, 0x3c231acc},
                  {1000, 0x3f800000, 0x3f21deb6}};
  for (const auto& e : expected) {
    const StepScalars scalars = step_scalars(settings, e.step);
    EXPECT_EQ(bits_of(scalars.bias1), e.bias1) << "step " << e.step;
    EXPECT_EQ(bits_of(scalars.bias2_sqrt), bits_of(sqrtf(float_of(e.bias2)))) << "step " << e.step;
    EXPECT_EQ(bits_of(scalars.decay), 0x3727c5acU);
    EXPECT_EQ(bits_of(scalars.weight1), 0x3dcccccdU);
    EXPECT_EQ(bits_of(scalars.weight2), 0x3a83126fU);
  }
}

TEST(TorchaoEagerScalars, AreComputedInFp32) {
  const StepScalars scalars = step_scalars(settings_for(Profile::torchao_eager), 1);
  EXPECT_EQ(bits_of(scalars.bias1), bits_of(1.0F - 0.9F));
  EXPECT_EQ(bits_of(scalars.bias2_sqrt), bits_of(sqrtf(1.0F - 0.999F)));
  EXPECT_EQ(bits_of(scalars.weight2), 0x3a83126fU) << "the weights are subtracted in double";
  AdamWSettings settings = settings_for(Profile::torchao_eager);
  settings.lr = 1e-2;
  settings.weight_decay = 0.1;
  EXPECT_EQ(bits_of(step_scalars(settings, 1).decay), bits_of(0.01F * 0.1F));
}

TEST(CompiledScalars, FoldTheLerpsWeightInDouble) {
  AdamWSettings settings = settings_for(Profile::torchao_compiled);
  settings.beta1 = 0.4;
  settings.beta2 = 0.5;
  const StepScalars compiled = step_scalars(settings, 3);
  EXPECT_EQ(bits_of(compiled.weight1), bits_of(-0.4F)) << "1 - 0.4 - 1 in double";
  EXPECT_FALSE(compiled.from_moment1);
  EXPECT_FALSE(compiled.from_moment2) << "a half is not less than a half";
  settings.profile = Profile::torchao_eager;
  const StepScalars eager = step_scalars(settings, 3);
  EXPECT_EQ(bits_of(eager.weight1), bits_of(0.6F - 1.0F));
  EXPECT_NE(bits_of(eager.weight1), bits_of(compiled.weight1));
  EXPECT_EQ(bits_of(eager.bias1), bits_of(compiled.bias1)) << "both ask powf";
}

// 1 - beta is below a half in double, and a half once it is rounded.
TEST(CompiledScalars, CompareTheWeightWithAHalfInDouble) {
  AdamWSettings settings = settings_for(Profile::torchao_compiled);
  settings.beta1 = 0.5 + 1e-12;
  EXPECT_TRUE(step_scalars(settings, 1).from_moment1);
  settings.profile = Profile::torchao_eager;
  EXPECT_FALSE(step_scalars(settings, 1).from_moment1);
}

TEST(Scalars, DifferBetweenProfiles) {
  const StepScalars canonical = step_scalars(settings_for(Profile::canonical), 1);
  const StepScalars torchao = step_scalars(settings_for(Profile::torchao_eager), 1);
  EXPECT_NE(bits_of(canonical.bias2_sqrt), bits_of(torchao.bias2_sqrt))
      << "0.999 rounded to fp32 and taken from 1 is not 1 - 0.999 rounded";
}

}  // namespace
}  // namespace resumecheck::kernels
