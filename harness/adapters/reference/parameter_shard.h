// One parameter and its optimizer state on one rank: a box, which is one run of the flattened
// parameter where only rows are divided, and a run a row where columns are. Whether the moments are
// quantised, and where their blocks lie, follows from the whole parameter, never from the box;
// deciding it on the shard changes the storage width with the mesh.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/adapters/reference/arithmetic.h"
#include "harness/scenario/placement.h"
#include "harness/scenario/settings.h"
#include "harness/state/assembly.h"
#include "harness/state/state_file.h"

namespace resumecheck {

// Each Error(usage) for one that the reference does not have.
kernels::Profile profile_of(const std::string& name);
kernels::ParamType param_type_of(const Settings& settings);
std::optional<kernels::Storage> storage_of(const Settings& settings);  // nothing: never quantised

// Consecutive elements of the flattened parameter that are consecutive in a rank's box, too.
struct ShardRun {
  std::int64_t first = 0;  // in the parameter
  std::int64_t count = 0;
  std::int64_t in_box = 0;  // of the first
};

class ParameterShard {
 public:
  // Weights from init_seed, moments as a fresh optimizer has them, step 0. ordinal: the parameter's
  // position in bytewise FQN order.
  ParameterShard(std::string name, Shape shape, std::uint32_t ordinal, const Settings& settings,
                 std::uint64_t init_seed, const Mesh& mesh, int rank);

  // One step. gradient: of this rank's elements; it is rounded (nearest even) to the parameter's
  // dtype first, as `.grad` is, beside a master copy too. rounding: for each element what
  // stochastic rounding compares with; empty: to nearest even. Returns the blocks that a shard
  // boundary cuts; each must come back through finish() once its absmax covers every rank.
  std::vector<kernels::CutBlock> step(const std::vector<float>& gradient,
                                      const kernels::AdamWSettings& optimizer,
                                      std::vector<std::uint16_t> rounding,
                                      const Arithmetic& arithmetic);
  void finish(const std::vector<kernels::CutBlock>& cuts, const Arithmetic& arithmetic);

  // Every box this rank holds; empty ones are left out.
  std::vector<Piece> pieces() const;

  // Takes this rank's boxes. Error(subject), `where` in front: a tensor that is missing or has
  // another dtype or shape.
  void take(const LogicalState& checkpoint, const std::string& where);

  // Takes everything from the same shard of another run, each in memory of its own; with `aliased`
  // the moments stay the other run's memory.
  void take_from(const ParameterShard& source, bool aliased);

  // Deliberate mistakes. From now on scales and unquantised moments are kept in the parameter's
  // dtype; from now on the moments are kept unquantised.
  void cast_moments_to_param_dtype();
  void keep_moments_unquantised();
  void restart_step() { step_ = 0; }

  // The injected gradient of a step (1-based), which no order of summation can change.
  std::vector<float> injected_gradient(std::uint64_t seed, std::int64_t run_step) const;

  // This rank's elements of a tensor of the parameter's shape.
  std::vector<float> of_whole(const std::vector<float>& whole) const;

  // What a model multiplies: of a master copy, its rounding to bf16.
  std::vector<float> forward_values() const;

  // The rounding that no mesh can change.
  std::vector<std::uint16_t> rounding_by_element(std::uint64_t seed, std::int64_t run_step) const;

  const std::string& name() const { return name_; }
  const Shape& shape() const { return shape_; }
  const Box& box() const { return box_; }
  const Placement& placement() const { return placement_; }
  std::int64_t elements() const { return whole_; }  // of the whole parameter
  std::int64_t local_elements() const { return count_; }
  const std::vector<std::int64_t>& cut_blocks() const { return cut_blocks_; }  // of any rank
  bool quantised() const { return quantised_; }

 private:
  struct Moment {
    std::vector<std::uint8_t> codes;  // [count]
    std::vector<float> scale;         // [blocks touched]
    std::vector<float> codebook;      // [256] or [16]; none for codes that are floats themselves
    Bytes values;                     // [count], where unquantised
  };

  kernels::QuantisedRun quantised_run(const ShardRun& run);
  kernels::PlainRun plain_run();
  std::vector<float> initial_weights(bool computes, std::uint64_t init_seed) const;
  Bytes typed(const std::vector<float>& values) const;  // rounded to the parameter's dtype
  void touch_blocks();
  std::size_t scale_index(std::int64_t element) const;  // of its block, among those touched
  std::vector<Box> scale_boxes() const;                 // consecutive blocks that are touched
  template <class Value, class Give>
  std::vector<Value> by_element(const Give& give) const;  // of its index in the parameter
  std::int64_t blocks() const { return whole_ / block_; }
  Dtype param_dtype() const;
  Dtype value_dtype() const;
  Dtype code_dtype() const;
  void keep_scales_in_bf16();
  Bytes dequantised(const Moment& moment) const;  // as unquantised values
  void add_moment(std::vector<Piece>& pieces, const std::string& part, const Moment& moment) const;
  void take_moment(const LogicalState& checkpoint, const std::string& part, Moment& moment,
                   const std::string& where) const;

  std::string name_;
  Shape shape_;
  std::uint32_t ordinal_;
  kernels::ParamType type_;
  kernels::ParamType moment_type_;
  Placement placement_;
  bool held_ = true;  // by this rank; a box may be empty all the same
  Box box_;
  std::vector<ShardRun> runs_;
  std::int64_t count_ = 0, whole_ = 0, block_ = 256;
  std::vector<std::int64_t> cut_blocks_, touched_;
  std::vector<std::size_t> run_of_cut_;  // of each cut block of the step being taken
  kernels::Storage storage_ = kernels::Storage::map8;
  bool quantised_ = false;
  bool scales_in_bf16_ = false;
  bool has_master_ = false;
  Bytes param_;                          // [count]
  std::vector<float> master_;            // [count], where the parameter has one
  Bytes grad_;                           // [count], of the step being taken, as is rounding_
  std::vector<std::uint16_t> rounding_;  // [count] or empty
  std::shared_ptr<Moment> moment1_, moment2_;
  float step_ = 0;
};

}  // namespace resumecheck
