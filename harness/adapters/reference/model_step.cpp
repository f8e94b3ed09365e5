#include "harness/adapters/reference/model_step.h"

#include <algorithm>
#include <stdexcept>

#include "harness/adapters/reference/model_pass.h"
#include "harness/adapters/reference/whole_model_step.h"
#include "harness/scenario/model_schema.h"

namespace resumecheck {

Rows samples_of(const Mesh& mesh, int rank) {
  const auto coordinates = mesh.coordinates(rank);
  int index = 0, count = 1;
  for (const char* dim : {"rep", "dp", "cp"}) {
    const auto found = coordinates.find(dim);
    const int size = mesh.size_of(dim);
    index = index * size + (found == coordinates.end() ? 0 : found->second);
    count *= size;
  }
  return chunk(logical_samples, count, index);
}

StepInputs inputs_by_step(std::int64_t run_step) {
  StepInputs inputs;
  inputs.data_index = [run_step](std::int64_t sample) {
    return (run_step - 1) * logical_samples + sample;
  };
  return inputs;
}

ModelStep model_step(const Settings& settings, const StepInputs& inputs,
                     const std::vector<ParameterShard>& shards, const std::vector<Fp8State>& fp8,
                     const Mesh& mesh, Communicator& ranks, const Arithmetic& arithmetic) {
  const WholeParameters parameters(settings, shards, mesh, ranks);
  const kernels::ModelKernels* kernels = arithmetic.model();
  if (kernels == nullptr) {
    if (mesh.world() != 1) throw std::logic_error("the slow twin computes whole steps only");
    return whole_model_step(settings, inputs, parameters, fp8);
  }
  ModelPass pass(settings, inputs, parameters, fp8, mesh, ranks, *kernels);
  const Rows mine = samples_of(mesh, ranks.rank());
  const auto batches = static_cast<int>(settings.accumulate);
  for (int batch = 0; batch < batches; ++batch) {
    const Rows rows = chunk(mine.last - mine.first, batches, batch);
    pass.run({mine.first + rows.first, mine.first + rows.last});
  }
  return pass.add();
}

}  // namespace resumecheck
