// The samples of one rank on their way through the model, and what they give to the gradients. All
// ranks of a mesh make the same exchanges in the same order, whatever they hold: one that has no
// layer of a stage, no expert, or no sample in a micro-batch gives nothing and takes part, or the
// others would wait for it.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harness/adapters/reference/model_step.h"
#include "harness/adapters/reference/whole_model_step.h"
#include "kernels/layernorm_mlp.h"

namespace resumecheck {

class ModelPass {
 public:
  ModelPass(const Settings& settings, const StepInputs& inputs, const WholeParameters& parameters,
            const std::vector<Fp8State>& fp8, const Mesh& mesh, Communicator& ranks,
            const kernels::ModelKernels& kernels);
  ModelPass(const ModelPass&) = delete;
  ModelPass& operator=(const ModelPass&) = delete;

  // Samples of one micro-batch, forward and backward; none is a micro-batch too.
  void run(Rows samples);
  // Of all ranks, added in the order of the samples. After the last micro-batch.
  ModelStep add();

 private:
  using Floats = std::vector<float>;
  using Samples = std::vector<int>;

  // The GEMMs of a layer that one rank computes for some samples: all of a dense layer's, or those
  // of one expert.
  struct Unit {
    std::int64_t layer = 0, expert = 0;
    bool mine = false;
    kernels::BlockParameters parameters;
    Floats fc2_weight;              // the held columns, where those are not all
    std::vector<std::size_t> uses;  // by part
  };
  // The samples of a micro-batch that go through a unit here.
  struct Passage {
    Samples samples;
    Floats dropout;
    kernels::BlockActivations kept;
  };
  // What samples have given to one parameter, one after the other.
  struct Given {
    Samples samples;
    Floats values;
  };

  // A parameter in one layer: where it is tied, each layer uses it.
  struct Use {
    std::int64_t layer = 0;
    std::string parameter;
    std::size_t part = 0;
    Given given;
  };

  void add_unit(std::int64_t layer, std::int64_t expert);
  Unit unit_of(std::int64_t layer, std::int64_t expert) const;
  const kernels::BlockScaling* scaling(std::int64_t layer) const;
  std::vector<Unit*> units_of(std::int64_t layer);
  Passage enter(const Unit& unit, Rows batch) const;
  kernels::BlockPass pass_of(const Passage& passage);
  void gather_chunks(Floats& chunk_sums);
  void take_part_in_gathering();  // with nothing to give
  void forward(Rows batch, Floats& values, std::vector<Passage>& passages);
  void backward(Rows batch, Floats& values, const std::vector<Passage>& passages);
  void spread(const Samples& done, Rows batch, Floats& values);
  void give(const Unit& unit, const Passage& passage,
            const kernels::BlockContributions& contributions);
  std::vector<Floats> gather_all(const Floats& mine);
  Floats samples_of_use(const Use& use, std::vector<const float*>& from);
  Floats gradient_of(const Use& use, const Floats& samples) const;
  void add_loss(ModelStep& step, std::vector<const float*>& from);

  const Settings& settings_;
  const StepInputs& inputs_;
  const WholeParameters& whole_;
  const Mesh& mesh_;
  Communicator& ranks_;
  const kernels::ModelKernels& kernels_;
  kernels::BlockShape shape_;
  bool first_of_tp_ = false, first_of_samples_ = false;
  bool moves_ = false;          // rows go from rank to rank between layers
  std::vector<Unit> units_;     // layer by layer, expert by expert
  std::vector<Amaxes> amaxes_;  // by layer, or none; the scaling points into it
  std::vector<kernels::BlockScaling> scaling_;
  std::vector<Use> uses_;
  Given losses_;
};

}  // namespace resumecheck
