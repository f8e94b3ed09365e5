// The FP8 state of one layer on one rank: scales, their inverses and the amax history, forward and
// backward. Every rank holds all of it, whatever the mesh, because every rank has seen the maximum
// over all of them: so a mesh change copies it whole and neither merges nor cuts it. Where the
// amaxes are not reduced each rank's history is its own, and no other mesh can load it.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "harness/adapters/reference/arithmetic.h"
#include "harness/scenario/mesh.h"
#include "harness/scenario/settings.h"
#include "harness/state/state_file.h"
#include "kernels/layernorm_mlp.h"

namespace resumecheck {

// The largest magnitudes of a step, as bits: forward's 6 columns, then backward's 4.
using Amaxes = std::array<std::uint32_t, kernels::forward_columns + kernels::backward_columns>;

// With injected gradients the amaxes are injected too. One rank sees each, the others half of it:
// only the maximum over all ranks is right.
Amaxes injected_amaxes(std::uint64_t seed, std::uint32_t layer, std::int64_t run_step, int rank,
                       int world);

class Fp8State {
 public:
  // As before the first step: scales 1, history 0. Error(usage) for a recipe that the reference
  // does not have.
  Fp8State(std::uint32_t layer, const Settings& settings, int rank);

  // Once a step. mine: what this rank saw; reduced: the maximum over the ranks that reduce.
  void update(const Amaxes& mine, const Amaxes& reduced, const Arithmetic& arithmetic);

  // What a step quantises by. raised: where it notes the maxima, alive as long as the result.
  kernels::BlockScaling scaling(Amaxes& raised) const;

  std::vector<Piece> pieces() const;
  // The value that tells the recipe: "fp8.recipe/layers.0"; none where there is no state.
  std::string recipe_name() const { return "fp8.recipe/" + module_; }
  const std::string& recipe_text() const { return recipe_; }

  // Error(subject), `where` in front, naming module and field: what is missing, has another number
  // of columns or rows, or another recipe.
  void take(const LogicalState& checkpoint, const std::string& where);

  // Deliberate mistakes. Everything as before the first step; the same, and there is nothing to
  // tell before the next step makes it anew.
  void forget();
  void forget_until_next_step();
  bool told() const { return told_; }

  const std::string& name() const { return name_; }  // "layers.0", of rank 1 alone "layers.0@rank1"

 private:
  struct Direction {
    std::string name;  // "forward" | "backward"
    kernels::Fp8Format format;
    std::int64_t columns;
    std::vector<float> history;           // [rows][columns]
    std::vector<float> scale, scale_inv;  // [columns]
  };
  struct Field {  // one tensor of the state
    std::string part;
    Shape shape;
    Direction Fp8State::*direction;
    std::vector<float> Direction::*values;
  };
  std::vector<Field> fields() const;
  void update(Direction& direction, const std::uint32_t* mine, const std::uint32_t* reduced,
              const Arithmetic& arithmetic);

  std::string module_, name_, recipe_;
  kernels::DelayedScaling scaling_;
  Direction forward_, backward_;
  bool told_ = true;
};

}  // namespace resumecheck
