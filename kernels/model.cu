// FP8 and the pieces of layernorm_mlp on a CUDA device, through host buffers. No arithmetic stands
// here: a task's pointers become pointers to copies, its teams become thread blocks. Compiled with
// -fmad=false, or the device would round less often.
#include <cuda_runtime.h>

#include "kernels/device_memory.h"
#include "kernels/device_team.h"
#include "kernels/model.h"
#include "kernels/model_phases.h"
#include "kernels/model_tasks.h"

namespace resumecheck::kernels {
namespace {

template <class Task>
__global__ void run_team_kernel(Task task) {
  run_team(DeviceTeam{}, task, blockIdx.x, *reinterpret_cast<TeamMemory*>(shared_words));
}

template <class Task>
void run_on_device(const Task& task, const char* doing) {
  const std::int64_t teams = launchable(teams_of(task));
  if (teams == 0) return;
  RESUMECHECK_LAUNCH((run_team_kernel<Task>), teams, sizeof(TeamMemory), task);
  finish_launch(doing);
}

using Floats = DeviceArray<float>;

// A copy of what may be missing.
std::int64_t elements_if(const void* host, std::int64_t count) {
  return host == nullptr ? 0 : count;
}

void cast(const CastTask& host) {
  const Floats values(host.values, host.count);
  const DeviceArray<std::uint8_t> codes(host.count);
  CastTask task = host;
  task.values = values.data();
  task.codes = codes.data();
  run_on_device(task, "casting to FP8");
  codes.copy_to(host.codes);
}

void decode(const DecodeTask& host) {
  const DeviceArray<std::uint8_t> codes(host.codes, host.count);
  const Floats values(host.count);
  DecodeTask task = host;
  task.codes = codes.data();
  task.values = values.data();
  run_on_device(task, "decoding FP8");
  values.copy_to(host.values);
}

void amax(const AmaxTask& host) {
  const Floats values(host.values, host.count);
  const DeviceArray<std::uint32_t> tile_maxima(amax_tiles(host.count));
  AmaxTask task = host;
  task.values = values.data();
  task.tile_maxima = tile_maxima.data();
  run_on_device(task, "finding an amax");
  tile_maxima.copy_to(host.tile_maxima);
}

void update_scaling(const ScalingTask& host) {
  const Floats reduced(host.reduced, host.columns);
  const Floats history(host.history, host.rows * host.columns), scale(host.scale, host.columns);
  const Floats scale_inv(elements_if(host.scale_inv, host.columns));
  ScalingTask task = host;
  task.reduced = reduced.data();
  task.history = history.data();
  task.scale = scale.data();
  task.scale_inv = scale_inv.data();
  run_on_device(task, "updating scales");
  history.copy_to(host.history);
  scale.copy_to(host.scale);
  scale_inv.copy_to(host.scale_inv);
}

void product(const ProductTask& host) {
  const Floats left(host.left, left_extent(host)), right(host.right, right_extent(host));
  const Floats sums(sums_of(host));
  ProductTask task = host;
  task.left = left.data();
  task.right = right.data();
  task.sums = sums.data();
  run_on_device(task, "adding products");
  sums.copy_to(host.sums);
}

void add_chunks(const ChunkAdditionTask& host) {
  const Floats chunk_sums(host.chunk_sums, chunks_of_a_sum * host.count), sums(host.count);
  ChunkAdditionTask task = host;
  task.chunk_sums = chunk_sums.data();
  task.sums = sums.data();
  run_on_device(task, "adding chunk sums");
  sums.copy_to(host.sums);
}

void epilogue(const EpilogueTask& host) {
  const std::int64_t count = host.rows * host.columns;
  const Floats bias(host.bias, elements_if(host.bias, host.columns));
  const Floats residual(host.residual, elements_if(host.residual, count));
  const Floats sums(host.sums, count), out(count);
  EpilogueTask task = host;
  task.bias = bias.data();
  task.residual = residual.data();
  task.sums = sums.data();
  task.out = out.data();
  run_on_device(task, "finishing a linear layer");
  out.copy_to(host.out);
}

void layernorm(const LayerNormTask& host) {
  const std::int64_t count = host.rows * host.width;
  const Floats x(host.x, count), gamma(host.gamma, host.width), beta(host.beta, host.width);
  const Floats h(count), normalised(count), rstd(host.rows);
  LayerNormTask task = host;
  task.x = x.data();
  task.gamma = gamma.data();
  task.beta = beta.data();
  task.h = h.data();
  task.normalised = normalised.data();
  task.rstd = rstd.data();
  run_on_device(task, "normalising rows");
  h.copy_to(host.h);
  normalised.copy_to(host.normalised);
  rstd.copy_to(host.rstd);
}

void layernorm_backward(const LayerNormBackwardTask& host) {
  const std::int64_t count = host.rows * host.width;
  const Floats dh(host.dh, count), normalised(host.normalised, count), rstd(host.rstd, host.rows);
  const Floats gamma(host.gamma, host.width), dy(host.dy, count), dx(count), dgamma(count);
  LayerNormBackwardTask task = host;
  task.dh = dh.data();
  task.normalised = normalised.data();
  task.rstd = rstd.data();
  task.gamma = gamma.data();
  task.dy = dy.data();
  task.dx = dx.data();
  task.dgamma = dgamma.data();
  run_on_device(task, "the backward of normalising rows");
  dx.copy_to(host.dx);
  dgamma.copy_to(host.dgamma);
}

void relu(const ReluTask& host) {
  const Floats a(host.a, host.count), r(host.count);
  ReluTask task = host;
  task.a = a.data();
  task.r = r.data();
  run_on_device(task, "the squared ReLU");
  r.copy_to(host.r);
}

void relu_backward(const ReluBackwardTask& host) {
  const Floats a(host.a, host.count), dr(host.dr, host.count), da(host.count);
  ReluBackwardTask task = host;
  task.a = a.data();
  task.dr = dr.data();
  task.da = da.data();
  run_on_device(task, "the backward of the squared ReLU");
  da.copy_to(host.da);
}

void loss(const LossTask& host) {
  const std::int64_t count = host.rows * host.width;
  const Floats y(host.y, count), target(host.target, count), d(count), losses(host.rows);
  LossTask task = host;
  task.y = y.data();
  task.target = target.data();
  task.d = d.data();
  task.loss = losses.data();
  run_on_device(task, "the loss");
  d.copy_to(host.d);
  losses.copy_to(host.loss);
}

constexpr ModelUnit device_unit = {cast,          decode,   amax,      update_scaling,     product,
                                   add_chunks,    epilogue, layernorm, layernorm_backward, relu,
                                   relu_backward, loss};

}  // namespace

ModelKernels device_model_kernels() { return model_kernels_with(device_unit, "device"); }

}  // namespace resumecheck::kernels
