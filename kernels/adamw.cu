// The phases on a CUDA device, one thread block a quantisation block, through host buffers. No
// arithmetic stands here: what a device computes is what the host's loops compute, and only the
// place of the data differs. Compiled with -fmad=false, or the device would round less often.
#include <cuda_runtime.h>

#include <limits>
#include <stdexcept>

#include "kernels/adamw.h"
#include "kernels/adamw_phases.h"
#include "kernels/code_map.h"
#include "kernels/device_memory.h"
#include "kernels/run_tasks.h"

// A stand-in of the runtime compiles this file for the host and defines its own launch.
#ifndef RESUMECHECK_LAUNCH
#define RESUMECHECK_LAUNCH(kernel, blocks, shared_bytes, ...) \
  kernel<<<static_cast<unsigned>(blocks), threads_per_block, shared_bytes>>>(__VA_ARGS__)
#endif

namespace resumecheck::kernels {
namespace {

constexpr std::int64_t largest_block = 4096;  // its moments must fit shared memory

#ifdef __CUDACC__
extern __shared__ float shared_words[];
#endif

// ---- On the device --------------------------------------------------------------------------

struct DeviceTeam {
  template <int stride, class Phase>
  RESUMECHECK_PHASE void elements(int count, Phase phase) const {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < stride)
      for (int i = thread; i < count; i += stride) phase(thread, i);
    __syncthreads();
  }
  template <class Phase>
  RESUMECHECK_PHASE void threads(int active, Phase phase) const {
    const int thread = static_cast<int>(threadIdx.x);
    if (thread < active) phase(thread);
    __syncthreads();
  }
};

RESUMECHECK_PHASE std::uint32_t* shared_integers(std::int64_t after_floats) {
  return reinterpret_cast<std::uint32_t*>(shared_words + after_floats);
}

template <class Values, class Lookup1, class Lookup2>
__global__ void update_blocks_kernel(BlockTask task, Lookup1 lookup1, Lookup2 lookup2) {
  std::uint32_t* words = shared_integers(2 * task.block);
  const BlockMemory memory = {shared_words, shared_words + task.block, words,
                              words + 2 * partial_maxima};
  update_block<FusedLerp, Values>(DeviceTeam{}, task, blockIdx.x, memory, lookup1, lookup2);
}

template <class Values>
__global__ void update_part_kernel(BlockTask task, float* moment1, float* moment2,
                                   std::uint32_t* absmax) {
  const BlockMemory memory = {moment1, moment2, shared_integers(0), absmax};
  update_moments<FusedLerp, Values>(DeviceTeam{}, task, 0, 0, static_cast<int>(task.count), memory);
}

template <class Lookup>
__global__ void quantise_part_kernel(QuantiseTask task, const std::uint32_t* absmax,
                                     Lookup lookup) {
  quantise_values(DeviceTeam{}, task.values, static_cast<int>(task.count), absmax, lookup,
                  task.codes, task.scale);
}

template <class Lookup>
__global__ void quantise_blocks_kernel(QuantiseTask task, Lookup lookup) {
  std::uint32_t* words = shared_integers(0);
  quantise_block(DeviceTeam{}, task, blockIdx.x, words, words + partial_maxima, lookup);
}

__global__ void dequantise_blocks_kernel(DequantiseTask task) {
  dequantise_block(DeviceTeam{}, task, blockIdx.x);
}

template <class Values, class MomentValues>
__global__ void update_plain_kernel(PlainTask task) {
  update_plain_tile<FusedLerp, Values, MomentValues>(DeviceTeam{}, task, blockIdx.x);
}

// ---- From the host -----------------------------------------------------------------------------

// Waits, so that an error of the kernel is named here and not at the next call.
void finish_launch(const char* kernel) {
  check_cuda(cudaGetLastError(), kernel);
  check_cuda(cudaDeviceSynchronize(), kernel);
}

std::int64_t launchable(std::int64_t blocks) {
  if (blocks > std::numeric_limits<int>::max())
    throw std::invalid_argument("kernels: more blocks than one launch on a device can hold");
  return blocks;
}

void check_block_fits(std::int64_t block) {
  if (block > largest_block)
    throw std::invalid_argument("kernels: a device takes blocks of at most 4096 elements, not " +
                                std::to_string(block));
}

// A codebook and its table, on the device for as long as this lives.
class DeviceMap {
 public:
  explicit DeviceMap(const CodeMap& host)
      : codebook_(host.codebook, 256),
        table_(host.table, host.table == nullptr ? 0 : std::int64_t{1} << (32 - shift_of(host))),
        map_{codebook_.data(), table_.data(), host.is_signed} {}
  CodeMap map() const { return map_; }

 private:
  static int shift_of(const CodeMap& map) {
    return map.is_signed ? signed_table_shift : unsigned_table_shift;
  }
  DeviceArray<float> codebook_;
  DeviceArray<std::uint32_t> table_;
  CodeMap map_;
};

// A BlockTask whose pointers are to copies on the device; copy_back brings home what a step writes.
class DeviceBlocks {
 public:
  explicit DeviceBlocks(const BlockTask& host)
      : host_(host),
        blocks_(launchable(blocks_of(host.count, host.block))),
        param_(host.param, host.count * element_bytes()),
        grad_(host.grad, host.count * element_bytes()),
        codes1_(host.codes1, host.count),
        codes2_(host.codes2, host.count),
        scale1_(host.scale1, blocks_),
        scale2_(host.scale2, blocks_),
        map1_(host.map1),
        map2_(host.map2) {}
  std::int64_t blocks() const { return blocks_; }
  BlockTask task() const {
    BlockTask task = host_;
    task.param = param_.data();
    task.grad = grad_.data();
    task.codes1 = codes1_.data();
    task.codes2 = codes2_.data();
    task.scale1 = scale1_.data();
    task.scale2 = scale2_.data();
    task.map1 = map1_.map();
    task.map2 = map2_.map();
    return task;
  }
  void copy_param_back() const { param_.copy_to(host_.param); }
  void copy_back() const {
    copy_param_back();
    codes1_.copy_to(host_.codes1);
    codes2_.copy_to(host_.codes2);
    scale1_.copy_to(host_.scale1);
    scale2_.copy_to(host_.scale2);
  }

 private:
  std::int64_t element_bytes() const { return host_.bf16 ? 2 : 4; }
  BlockTask host_;
  std::int64_t blocks_;
  DeviceArray<unsigned char> param_, grad_;
  DeviceArray<std::uint8_t> codes1_, codes2_;
  DeviceArray<float> scale1_, scale2_;
  DeviceMap map1_, map2_;
};

template <class Values>
void launch_update_blocks(const BlockTask& task, std::int64_t blocks) {
  const std::size_t shared =
      static_cast<std::size_t>(2 * task.block + reduction_words) * sizeof(float);
  const bool by_table = task.map1.table != nullptr && task.map1.is_signed &&
                        task.map2.table != nullptr && !task.map2.is_signed;
  if (by_table)
    RESUMECHECK_LAUNCH((update_blocks_kernel<Values, SignedTableLookup, UnsignedTableLookup>),
                       blocks, shared, task, SignedTableLookup{task.map1.table},
                       UnsignedTableLookup{task.map2.table});
  else
    RESUMECHECK_LAUNCH((update_blocks_kernel<Values, SearchLookup, SearchLookup>), blocks, shared,
                       task, SearchLookup{task.map1.codebook}, SearchLookup{task.map2.codebook});
  finish_launch("updating whole blocks");
}

void update_whole_blocks(const BlockTask& host) {
  const DeviceBlocks device(host);
  host.bf16 ? launch_update_blocks<Bf16Values>(device.task(), device.blocks())
            : launch_update_blocks<Fp32Values>(device.task(), device.blocks());
  device.copy_back();
}

template <class Values>
void launch_update_part(const BlockTask& task, float* moment1, float* moment2,
                        std::uint32_t* absmax) {
  constexpr std::size_t shared = 2 * partial_maxima * sizeof(std::uint32_t);
  RESUMECHECK_LAUNCH((update_part_kernel<Values>), 1, shared, task, moment1, moment2, absmax);
  finish_launch("updating a cut block");
}

CutBlock update_cut_block(const QuantisedRun& run, const StepScalars& scalars, std::int64_t begin,
                          std::int64_t count) {
  const BlockTask host = task_of(run, scalars, begin, count);
  const DeviceBlocks device(host);
  const DeviceArray<float> moment1(count), moment2(count);
  const DeviceArray<std::uint32_t> absmax(2);
  host.bf16
      ? launch_update_part<Bf16Values>(device.task(), moment1.data(), moment2.data(), absmax.data())
      : launch_update_part<Fp32Values>(device.task(), moment1.data(), moment2.data(),
                                       absmax.data());
  device.copy_param_back();
  CutBlock cut;
  cut.block = (run.first + begin) / run.block;
  cut.begin = begin;
  cut.moment1.resize(static_cast<std::size_t>(count));
  cut.moment2.resize(static_cast<std::size_t>(count));
  moment1.copy_to(cut.moment1.data());
  moment2.copy_to(cut.moment2.data());
  std::uint32_t largest[2] = {0, 0};
  absmax.copy_to(largest);
  cut.absmax1 = largest[0];
  cut.absmax2 = largest[1];
  return cut;
}

// launch(task, lookup) with the task's pointers on the device and the look-up of its codebook.
template <class Launch>
void quantise_by(const QuantiseTask& host, std::int64_t blocks, Launch launch) {
  const DeviceArray<float> values(host.values, host.count), scale(blocks);
  const DeviceArray<std::uint8_t> codes(host.count);
  const DeviceMap map(host.map);
  QuantiseTask task = host;
  task.values = values.data();
  task.codes = codes.data();
  task.scale = scale.data();
  task.map = map.map();
  if (task.map.table == nullptr)
    launch(task, SearchLookup{task.map.codebook});
  else if (task.map.is_signed)
    launch(task, SignedTableLookup{task.map.table});
  else
    launch(task, UnsignedTableLookup{task.map.table});
  codes.copy_to(host.codes);
  scale.copy_to(host.scale);
}

struct LaunchQuantisePart {
  const std::uint32_t* absmax;
  template <class Lookup>
  void operator()(const QuantiseTask& task, Lookup lookup) const {
    RESUMECHECK_LAUNCH((quantise_part_kernel<Lookup>), 1, 0, task, absmax, lookup);
    finish_launch("quantising a cut block");
  }
};

struct LaunchQuantiseBlocks {
  std::int64_t blocks;
  template <class Lookup>
  void operator()(const QuantiseTask& task, Lookup lookup) const {
    constexpr std::size_t shared = (partial_maxima + 1) * sizeof(std::uint32_t);
    RESUMECHECK_LAUNCH((quantise_blocks_kernel<Lookup>), blocks, shared, task, lookup);
    finish_launch("quantising blocks");
  }
};

void quantise_part(const QuantiseTask& task, std::uint32_t largest) {
  const DeviceArray<std::uint32_t> absmax(&largest, 1);
  quantise_by(task, 1, LaunchQuantisePart{absmax.data()});
}

void dequantise_blocks(const DequantiseTask& host) {
  if (host.count == 0) return;
  const std::int64_t blocks = launchable(blocks_of(host.count, host.block));
  const DeviceArray<std::uint8_t> codes(host.codes, host.count);
  const DeviceArray<float> scale(host.scale, blocks), codebook(host.codebook, 256),
      values(host.count);
  DequantiseTask task = host;
  task.codes = codes.data();
  task.scale = scale.data();
  task.codebook = codebook.data();
  task.values = values.data();
  RESUMECHECK_LAUNCH((dequantise_blocks_kernel), blocks, 0, task);
  finish_launch("dequantising blocks");
  values.copy_to(host.values);
}

template <class Values, class MomentValues>
void launch_update_plain(const PlainTask& task) {
  const std::int64_t tiles = launchable(blocks_of(task.count, plain_tile));
  RESUMECHECK_LAUNCH((update_plain_kernel<Values, MomentValues>), tiles, 0, task);
  finish_launch("updating unquantised moments");
}

void launch_update_plain_by_types(const PlainTask& task) {
  if (task.bf16)
    task.bf16_moments ? launch_update_plain<Bf16Values, Bf16Values>(task)
                      : launch_update_plain<Bf16Values, Fp32Values>(task);
  else
    task.bf16_moments ? launch_update_plain<Fp32Values, Bf16Values>(task)
                      : launch_update_plain<Fp32Values, Fp32Values>(task);
}

}  // namespace

int device_count() {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status == cudaSuccess) return count;
  cudaGetLastError();
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) return 0;
  check_cuda(status, "counting devices");
  return 0;
}

DeviceDescription describe_device() {
  int device = 0;
  check_cuda(cudaGetDevice(&device), "asking for the current device");
  cudaDeviceProp properties;
  check_cuda(cudaGetDeviceProperties(&properties, device), "asking for the device's properties");
  DeviceDescription description;
  description.name = properties.name;
  description.compute_major = properties.major;
  description.compute_minor = properties.minor;
  check_cuda(cudaDriverGetVersion(&description.driver_version), "asking for the driver's version");
  check_cuda(cudaRuntimeGetVersion(&description.runtime_version),
             "asking for the runtime's version");
  return description;
}

std::vector<CutBlock> update_quantised_on_device(const QuantisedRun& run,
                                                 const StepScalars& scalars, Profile /*profile*/) {
  const GridPlace place = place_on_grid(run);
  check_block_fits(run.block);
  std::vector<CutBlock> cuts;
  if (place.head > 0) cuts.push_back(update_cut_block(run, scalars, 0, place.head));
  if (place.tail > place.head)
    update_whole_blocks(task_of(run, scalars, place.head, place.tail - place.head));
  if (run.count > place.tail)
    cuts.push_back(update_cut_block(run, scalars, place.tail, run.count - place.tail));
  return cuts;
}

void finish_cut_block_on_device(const QuantisedRun& run, const CutBlock& cut) {
  const FinishTasks tasks = finish_tasks(run, cut);
  quantise_part(tasks.moment1, cut.absmax1);
  quantise_part(tasks.moment2, cut.absmax2);
}

void update_plain_on_device(const PlainRun& run, const StepScalars& scalars, Profile /*profile*/) {
  const PlainTask host = task_of(run, scalars);
  if (host.count == 0) return;
  const std::int64_t bytes = host.count * (host.bf16 ? 2 : 4);
  const std::int64_t moment_bytes = host.count * (host.bf16_moments ? 2 : 4);
  const DeviceArray<unsigned char> param(host.param, bytes), grad(host.grad, bytes);
  const DeviceArray<unsigned char> moment1(host.moment1, moment_bytes),
      moment2(host.moment2, moment_bytes);
  PlainTask task = host;
  task.param = param.data();
  task.grad = grad.data();
  task.moment1 = moment1.data();
  task.moment2 = moment2.data();
  launch_update_plain_by_types(task);
  param.copy_to(host.param);
  moment1.copy_to(host.moment1);
  moment2.copy_to(host.moment2);
}

void dequantise_on_device(Storage /*storage*/, const std::uint8_t* codes, const float* scale,
                          const float* codebook, std::int64_t first, std::int64_t count,
                          std::int64_t block, float* values) {
  const DequantiseTasks tasks =
      dequantise_tasks(codes, scale, codebook, first, count, block, values);
  dequantise_blocks(tasks.head);
  dequantise_blocks(tasks.rest);
}

void quantise_on_device(Storage /*storage*/, const float* values, std::int64_t count,
                        std::int64_t block, const float* codebook, std::uint8_t* codes,
                        float* scale) {
  const QuantiseTask task = quantise_task(values, count, block, codebook, codes, scale);
  if (count == 0) return;
  const std::int64_t blocks = launchable(blocks_of(count, block));
  quantise_by(task, blocks, LaunchQuantiseBlocks{blocks});
}

}  // namespace resumecheck::kernels
