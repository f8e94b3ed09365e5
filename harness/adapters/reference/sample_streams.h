// What belongs to a logical sample and not to a rank: where it is in the data, and the generator
// that drops its features. Kept by rank instead, a resume on another mesh repeats samples, skips
// others, and gives a sample another's mask.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/scenario/mesh.h"
#include "harness/state/logical_state.h"
#include "harness/state/state_file.h"

namespace resumecheck {

// Of the samples of one rank: some 64-bit numbers a sample, a tensor [24, numbers] over all ranks.
class SampleTensor {
 public:
  SampleTensor(TensorKey key, std::int64_t numbers, Rows samples);
  std::int64_t& at(std::int64_t sample, std::int64_t number);
  std::int64_t at(std::int64_t sample, std::int64_t number) const;
  const Rows& samples() const { return samples_; }
  const TensorKey& key() const { return key_; }
  void add_to(std::vector<Piece>& pieces) const;
  void take(const LogicalState& checkpoint, const std::string& where);

 private:
  Shape shape() const;
  Box box() const;

  TensorKey key_;
  std::int64_t numbers_;
  Rows samples_;
  std::vector<std::int64_t> values_;
};

// Of each sample the next index in the data.
class DataPositions {
 public:
  explicit DataPositions(Rows samples);
  std::int64_t of(std::int64_t sample) const { return next_.at(sample, 0); }
  void advance();
  SampleTensor& tensor() { return next_; }
  const SampleTensor& tensor() const { return next_; }

 private:
  SampleTensor next_;
};

// Of each sample a key of its own and how many steps have drawn from it.
class DropoutGenerators {
 public:
  DropoutGenerators(std::uint64_t seed, Rows samples);
  float factor(std::int64_t layer, std::int64_t sample, std::int64_t feature) const;  // 0 or 2
  void advance();
  SampleTensor& tensor() { return state_; }
  const SampleTensor& tensor() const { return state_; }

 private:
  SampleTensor state_;
};

}  // namespace resumecheck
