// One parameter and its optimizer state on one rank: a contiguous run of the flattened parameter,
// since only dimension 0 is sharded. Whether the moments are quantised, and where their blocks lie,
// follows from the whole parameter, never from the run; deciding it on the shard changes the
// storage width with the mesh.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/adapters/reference/arithmetic.h"
#include "harness/scenario/mesh.h"
#include "harness/scenario/settings.h"
#include "harness/state/assembly.h"
#include "harness/state/state_file.h"

namespace resumecheck {

kernels::Profile profile_of(const Settings& settings);       // Error(usage) for an unknown one
kernels::ParamType param_type_of(const Settings& settings);  // Error(usage) for an unknown one

class ParameterShard {
 public:
  // Weights from init_seed, moments as a fresh optimizer has them, step 0. ordinal: the parameter's
  // position in bytewise FQN order.
  ParameterShard(std::string name, Shape shape, std::uint32_t ordinal, const Settings& settings,
                 std::uint64_t init_seed, const Mesh& mesh, int rank);

  // One step with the gradients of `run_step` (1-based). Returns the blocks that a shard boundary
  // cuts; each must come back through finish() once its absmax covers every rank.
  std::vector<kernels::CutBlock> step(std::uint64_t seed, std::int64_t run_step,
                                      const kernels::AdamWSettings& optimizer,
                                      const Arithmetic& arithmetic);
  void finish(const std::vector<kernels::CutBlock>& cuts, const Arithmetic& arithmetic);

  // Every box this rank holds; empty ones are left out.
  std::vector<Piece> pieces() const;

  // Takes this rank's boxes. Error(subject), `where` in front: a tensor that is missing or has
  // another dtype or shape.
  void take(const LogicalState& checkpoint, const std::string& where);

  // From now on scales and unquantised moments are kept in the parameter's dtype.
  void cast_moments_to_param_dtype();
  void restart_step() { step_ = 0; }

  const std::string& name() const { return name_; }
  const std::vector<std::int64_t>& cut_blocks() const { return cut_blocks_; }  // of any rank
  bool quantised() const { return quantised_; }

 private:
  struct Moment {
    std::vector<std::uint8_t> codes;  // [count]
    std::vector<float> scale;         // [blocks touched]
    std::vector<float> codebook;      // [256]
    Bytes values;                     // [count], where unquantised
  };

  kernels::QuantisedRun quantised_run();
  kernels::PlainRun plain_run();
  Bytes gradients(std::uint64_t seed, std::int64_t run_step) const;
  Bytes typed(const std::vector<float>& values) const;  // rounded to the parameter's dtype
  Box scale_box() const;
  std::int64_t blocks() const { return whole_ / block_; }
  Dtype param_dtype() const;
  Dtype value_dtype() const;
  void keep_scales_in_bf16();
  void add_moment(std::vector<Piece>& pieces, const std::string& part, const Moment& moment) const;
  void take_moment(const LogicalState& checkpoint, const std::string& part, Moment& moment,
                   const std::string& where) const;

  std::string name_;
  Shape shape_;
  std::uint32_t ordinal_;
  kernels::ParamType type_;
  kernels::ParamType moment_type_;
  kernels::Profile profile_;
  Box box_;
  std::int64_t first_ = 0, count_ = 0, whole_ = 0, block_ = 256;
  std::vector<std::int64_t> cut_blocks_;
  bool quantised_ = false;
  bool scales_in_bf16_ = false;
  Bytes param_;  // [count]
  Bytes grad_;   // [count], of the step being taken
  Moment moment1_, moment2_;
  float step_ = 0;
};

}  // namespace resumecheck
