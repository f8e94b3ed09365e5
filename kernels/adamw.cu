// The phases on a CUDA device, one thread block a quantisation block, through host buffers. No
// arithmetic stands here: what a device computes is what the host's loops compute, and only the
// place of the data differs. Compiled with -fmad=false, or the device would round less often.
#include <cuda_runtime.h>

#include <stdexcept>

#include "kernels/adamw.h"
#include "kernels/adamw_phases.h"
#include "kernels/code_map.h"
#include "kernels/device_memory.h"
#include "kernels/device_team.h"
#include "kernels/run_tasks.h"

namespace resumecheck::kernels {
namespace {

constexpr std::int64_t largest_block = 4096;  // its moments must fit shared memory

// ---- On the device --------------------------------------------------------------------------

RESUMECHECK_PHASE std::uint32_t* shared_integers(std::int64_t after_floats) {
  return reinterpret_cast<std::uint32_t*>(shared_words + after_floats);
}

template <class Arithmetic, class Param>
__global__ void update_blocks_kernel(BlockTask task) {
  std::uint32_t* words = shared_integers(2 * task.block);
  const BlockMemory memory = {shared_words, shared_words + task.block, words,
                              words + 2 * partial_maxima};
  update_block<Arithmetic, Param>(DeviceTeam{}, task, blockIdx.x, memory);
}

template <class Arithmetic, class Param>
__global__ void update_part_kernel(BlockTask task, float* moment1, float* moment2,
                                   std::uint32_t* absmax) {
  const BlockMemory memory = {moment1, moment2, shared_integers(0), absmax};
  update_moments<Arithmetic, Param>(DeviceTeam{}, task, 0, 0, static_cast<int>(task.count), memory);
}

__global__ void quantise_part_kernel(QuantiseTask task, const std::uint32_t* absmax) {
  quantise_values(DeviceTeam{}, task.values, static_cast<int>(task.count), absmax, task.map,
                  task.codes, task.scale);
}

__global__ void quantise_blocks_kernel(QuantiseTask task) {
  std::uint32_t* words = shared_integers(0);
  quantise_block(DeviceTeam{}, task, blockIdx.x, words, words + partial_maxima);
}

__global__ void dequantise_blocks_kernel(DequantiseTask task) {
  dequantise_block(DeviceTeam{}, task, blockIdx.x);
}

template <class Arithmetic, class Param, class MomentValues>
__global__ void update_plain_kernel(PlainTask task) {
  update_plain_tile<Arithmetic, Param, MomentValues>(DeviceTeam{}, task, blockIdx.x);
}

// ---- From the host -----------------------------------------------------------------------------

void check_block_fits(std::int64_t block) {
  if (block > largest_block)
    throw std::invalid_argument("kernels: a device takes blocks of at most 4096 elements, not " +
                                std::to_string(block));
}

// A codebook and its table, on the device for as long as this lives.
class DeviceMap {
 public:
  explicit DeviceMap(const CodeMap& host)
      : codebook_(host.codebook, host.entries),
        table_(host.table, host.table_entries),
        map_{host.rule, codebook_.data(), table_.data(), host.entries, host.table_entries} {}
  CodeMap map() const { return map_; }

 private:
  DeviceArray<float> codebook_;
  DeviceArray<std::uint32_t> table_;
  CodeMap map_;
};

// A parameter, its gradient and what else its rounding needs.
class DeviceParam {
 public:
  DeviceParam(const ParamTask& host, std::int64_t count)
      : host_(host),
        param_(host.param, count * element_bytes()),
        grad_(host.grad, count * element_bytes()),
        rounding_(host.rounding, host.rounding == nullptr ? 0 : count),
        master_(host.master, host.master == nullptr ? 0 : count) {}
  ParamTask task() const {
    return {host_.bf16, param_.data(), grad_.data(), rounding_.data(), master_.data()};
  }
  void copy_back() const {
    param_.copy_to(host_.param);
    master_.copy_to(host_.master);
  }

 private:
  std::int64_t element_bytes() const { return host_.bf16 ? 2 : 4; }
  ParamTask host_;
  DeviceArray<unsigned char> param_, grad_;
  DeviceArray<std::uint16_t> rounding_;
  DeviceArray<float> master_;
};

// A BlockTask whose pointers are to copies on the device; copy_back brings home what a step writes.
class DeviceBlocks {
 public:
  explicit DeviceBlocks(const BlockTask& host)
      : host_(host),
        blocks_(launchable(blocks_of(host.count, host.block))),
        param_(host.param, host.count),
        codes1_(host.codes1, host.count),
        codes2_(host.codes2, host.count),
        scale1_(host.scale1, blocks_),
        scale2_(host.scale2, blocks_),
        map1_(host.map1),
        map2_(host.map2) {}
  std::int64_t blocks() const { return blocks_; }
  BlockTask task() const {
    BlockTask task = host_;
    task.param = param_.task();
    task.codes1 = codes1_.data();
    task.codes2 = codes2_.data();
    task.scale1 = scale1_.data();
    task.scale2 = scale2_.data();
    task.map1 = map1_.map();
    task.map2 = map2_.map();
    return task;
  }
  void copy_param_back() const { param_.copy_back(); }
  void copy_back() const {
    copy_param_back();
    codes1_.copy_to(host_.codes1);
    codes2_.copy_to(host_.codes2);
    scale1_.copy_to(host_.scale1);
    scale2_.copy_to(host_.scale2);
  }

 private:
  BlockTask host_;
  std::int64_t blocks_;
  DeviceParam param_;
  DeviceArray<std::uint8_t> codes1_, codes2_;
  DeviceArray<float> scale1_, scale2_;
  DeviceMap map1_, map2_;
};

struct LaunchUpdateBlocks {
  const BlockTask& task;
  std::int64_t blocks;
  template <class Arithmetic, class Param>
  void operator()(Arithmetic, Param) const {
    const std::size_t shared =
        static_cast<std::size_t>(2 * task.block + reduction_words) * sizeof(float);
    RESUMECHECK_LAUNCH((update_blocks_kernel<Arithmetic, Param>), blocks, shared, task);
    finish_launch("updating whole blocks");
  }
};

void update_whole_blocks(const BlockTask& host) {
  const DeviceBlocks device(host);
  const BlockTask task = device.task();
  by_policies(task, LaunchUpdateBlocks{task, device.blocks()});
  device.copy_back();
}

struct LaunchUpdatePart {
  const BlockTask& task;
  float* moment1;
  float* moment2;
  std::uint32_t* absmax;
  template <class Arithmetic, class Param>
  void operator()(Arithmetic, Param) const {
    constexpr std::size_t shared = 2 * partial_maxima * sizeof(std::uint32_t);
    RESUMECHECK_LAUNCH((update_part_kernel<Arithmetic, Param>), 1, shared, task, moment1, moment2,
                       absmax);
    finish_launch("updating a cut block");
  }
};

CutBlock update_cut_block(const QuantisedRun& run, const BlockTask& host, std::int64_t begin) {
  const std::int64_t count = host.count;
  const DeviceBlocks device(host);
  const DeviceArray<float> moment1(count), moment2(count);
  const DeviceArray<std::uint32_t> absmax(2);
  const BlockTask task = device.task();
  by_policies(task, LaunchUpdatePart{task, moment1.data(), moment2.data(), absmax.data()});
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

// launch(task) with the task's pointers on the device.
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
  launch(task);
  codes.copy_to(host.codes);
  scale.copy_to(host.scale);
}

void quantise_part(const QuantiseTask& host, std::uint32_t largest) {
  const DeviceArray<std::uint32_t> absmax(&largest, 1);
  quantise_by(host, 1, [&](const QuantiseTask& task) {
    RESUMECHECK_LAUNCH((quantise_part_kernel), 1, 0, task, absmax.data());
    finish_launch("quantising a cut block");
  });
}

void dequantise_blocks(const DequantiseTask& host) {
  if (host.count == 0) return;
  const std::int64_t blocks = launchable(blocks_of(host.count, host.block));
  const DeviceArray<std::uint8_t> codes(host.codes, host.count);
  const DeviceArray<float> scale(host.scale, blocks), values(host.count);
  const DeviceMap map(host.map);
  DequantiseTask task = host;
  task.codes = codes.data();
  task.scale = scale.data();
  task.map = map.map();
  task.values = values.data();
  RESUMECHECK_LAUNCH((dequantise_blocks_kernel), blocks, 0, task);
  finish_launch("dequantising blocks");
  values.copy_to(host.values);
}

template <class MomentValues>
struct LaunchUpdatePlain {
  const PlainTask& task;
  template <class Arithmetic, class Param>
  void operator()(Arithmetic, Param) const {
    const std::int64_t tiles = launchable(blocks_of(task.count, plain_tile));
    RESUMECHECK_LAUNCH((update_plain_kernel<Arithmetic, Param, MomentValues>), tiles, 0, task);
    finish_launch("updating unquantised moments");
  }
};

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

std::string device_bus_id(int device) {
  char id[32] = {};
  check_cuda(cudaDeviceGetPCIBusId(id, sizeof id, device), "asking where a device is");
  return id;
}

void use_device(int device) { check_cuda(cudaSetDevice(device), "choosing a device"); }

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
                                                 const StepScalars& scalars, Profile profile) {
  const GridPlace place = place_on_grid(run);
  check_block_fits(run.block);
  const auto task = [&](std::int64_t begin, std::int64_t end) {
    return task_of(run, scalars, profile, begin, end - begin);
  };
  std::vector<CutBlock> cuts;
  if (place.head > 0) cuts.push_back(update_cut_block(run, task(0, place.head), 0));
  if (place.tail > place.head) update_whole_blocks(task(place.head, place.tail));
  if (run.count > place.tail)
    cuts.push_back(update_cut_block(run, task(place.tail, run.count), place.tail));
  return cuts;
}

void finish_cut_block_on_device(const QuantisedRun& run, const CutBlock& cut) {
  const FinishTasks tasks = finish_tasks(run, cut);
  quantise_part(tasks.moment1, cut.absmax1);
  quantise_part(tasks.moment2, cut.absmax2);
}

void update_plain_on_device(const PlainRun& run, const StepScalars& scalars, Profile profile) {
  const PlainTask host = task_of(run, scalars, profile);
  if (host.count == 0) return;
  const std::int64_t moment_bytes = host.count * (host.bf16_moments ? 2 : 4);
  const DeviceParam param(host.param, host.count);
  const DeviceArray<unsigned char> moment1(host.moment1, moment_bytes),
      moment2(host.moment2, moment_bytes);
  PlainTask task = host;
  task.param = param.task();
  task.moment1 = moment1.data();
  task.moment2 = moment2.data();
  task.bf16_moments ? by_policies(task, LaunchUpdatePlain<Bf16Values>{task})
                    : by_policies(task, LaunchUpdatePlain<Fp32Values>{task});
  param.copy_back();
  moment1.copy_to(host.moment1);
  moment2.copy_to(host.moment2);
}

void dequantise_on_device(Storage storage, const std::uint8_t* codes, const float* scale,
                          const float* codebook, std::int64_t first, std::int64_t count,
                          std::int64_t block, float* values) {
  const DequantiseTasks tasks =
      dequantise_tasks(storage, codes, scale, codebook, first, count, block, values);
  dequantise_blocks(tasks.head);
  dequantise_blocks(tasks.rest);
}

void quantise_on_device(Storage storage, const float* values, std::int64_t count,
                        std::int64_t block, const float* codebook, std::uint8_t* codes,
                        float* scale) {
  const QuantiseTask host = quantise_task(storage, values, count, block, codebook, codes, scale);
  if (count == 0) return;
  const std::int64_t blocks = launchable(blocks_of(count, block));
  quantise_by(host, blocks, [&](const QuantiseTask& task) {
    constexpr std::size_t shared = (partial_maxima + 1) * sizeof(std::uint32_t);
    RESUMECHECK_LAUNCH((quantise_blocks_kernel), blocks, shared, task);
    finish_launch("quantising blocks");
  });
}

}  // namespace resumecheck::kernels
