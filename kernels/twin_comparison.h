// Runs a build of the kernels (an instruction set, a device) and the slow twin over the same inputs
// and counts the elements whose bits differ. The inputs lean on what breaks kernels: edge values
// (twin_inputs.h), ties between codes, all-zero blocks, sizes off the block grid, blocks cut by a
// shard boundary at every place.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/twin_inputs.h"

namespace resumecheck::kernels {

// The functions of adamw.h on one build.
struct Subject {
  std::string name;
  std::function<std::vector<CutBlock>(const QuantisedRun&, const StepScalars&, Profile)> update;
  std::function<void(const QuantisedRun&, const CutBlock&)> finish;
  std::function<void(const PlainRun&, const StepScalars&, Profile)> update_plain;
  std::function<void(Storage storage, const float* values, std::int64_t count, std::int64_t block,
                     const float* codebook, std::uint8_t* codes, float* scale)>
      quantise;
  std::function<void(Storage storage, const std::uint8_t* codes, const float* scale,
                     const float* codebook, std::int64_t first, std::int64_t count,
                     std::int64_t block, float* values)>
      dequantise;
};
Subject host_subject(Isa isa);

// repetitions: how many times the random inputs are drawn anew; 1 takes about half a second on a
// core. Of all ways to cut a parameter in two or three, every division_stride-th is tried.
std::vector<Outcome> compare_with_twin(const Subject& subject, int repetitions,
                                       std::size_t division_stride = 1);

}  // namespace resumecheck::kernels
