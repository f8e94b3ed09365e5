#include "harness/adapters/reference/parameter_shard.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "harness/state/error.h"
#include "kernels/float_bits.h"
#include "kernels/philox.h"

namespace resumecheck {
namespace {

constexpr int kWeightExponent = -14;
constexpr int kGradientExponent = -12;

std::vector<ShardRun> runs_of(const Box& box, const Shape& shape) {
  std::vector<ShardRun> runs;
  if (box.empty()) return runs;
  for_each_run(box, shape, [&](std::int64_t in_box, std::int64_t in_tensor, std::int64_t length) {
    runs.push_back({in_tensor, length, in_box});
  });
  return runs;
}

// The blocks that a run of any rank ends or begins inside: the same list on every rank.
std::vector<std::int64_t> blocks_cut(const Shape& shape, const Placement& placement,
                                     const Mesh& mesh, std::int64_t block) {
  std::set<std::int64_t> cut;
  for (int rank = 0; rank < mesh.world(); ++rank) {
    for (const ShardRun& run : runs_of(box_of(shape, placement, mesh, rank), shape)) {
      for (const std::int64_t edge : {run.first, run.first + run.count}) {
        if (edge % block != 0) cut.insert(edge / block);
      }
    }
  }
  return {cut.begin(), cut.end()};
}

template <typename T>
Bytes bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

Bytes bf16_bytes_of(const std::vector<float>& values) {
  std::vector<std::uint16_t> halves(values.size());
  std::transform(values.begin(), values.end(), halves.begin(), kernels::round_to_bf16);
  return bytes_of(halves);
}

// One tensor of a checkpoint, once it is known to be what this run needs.
class Source {
 public:
  Source(const LogicalState& checkpoint, const TensorKey& key, Dtype dtype, const Shape& shape,
         const std::string& where) {
    const auto found = checkpoint.tensors.find(key);
    if (found == checkpoint.tensors.end()) {
      throw Error(Error::Kind::subject, where, "holds no " + to_text(key),
                  "load a checkpoint of the same model and optimizer");
    }
    tensor_ = &found->second;
    if (tensor_->dtype == dtype && tensor_->shape == shape) return;
    throw Error(Error::Kind::subject, where,
                to_text(key) + " is " + std::string(name_of(tensor_->dtype)) + " " +
                    to_text(tensor_->shape) + ", this run needs " + std::string(name_of(dtype)) +
                    " " + to_text(shape),
                "load a checkpoint of the same model and optimizer");
  }

  template <typename T>
  void into(const Box& box, std::vector<T>& values) const {
    if (box.empty()) return;
    copy_region(box, Box::whole(tensor_->shape), tensor_->bytes, box,
                std::as_writable_bytes(std::span(values)), size_of(tensor_->dtype));
  }

 private:
  const LogicalTensor* tensor_;
};

}  // namespace

kernels::Profile profile_of(const std::string& name) {
  if (name == "canonical") return kernels::Profile::canonical;
  if (name == "torchao_eager") return kernels::Profile::torchao_eager;
  if (name == "torchao_compiled") return kernels::Profile::torchao_compiled;
  throw Error(Error::Kind::usage, "optimizer.profile",
              "the reference has no profile '" + name + "'",
              "canonical, torchao_eager or torchao_compiled");
}

std::optional<kernels::Storage> storage_of(const Settings& settings) {
  const std::string& name = settings.optimizer.name;
  if (name == "adamw8bit") return kernels::Storage::map8;
  if (name == "adamw4bit") return kernels::Storage::map4;
  if (name == "adamwfp8") return kernels::Storage::e4m3;
  if (name == "adamw") return std::nullopt;
  throw Error(Error::Kind::usage, "optimizer.name", "the reference has no optimizer '" + name + "'",
              "adamw8bit, adamw4bit, adamwfp8 or adamw");
}

kernels::ParamType param_type_of(const Settings& settings) {
  if (settings.param_dtype == "fp32") return kernels::ParamType::fp32;
  if (settings.param_dtype == "bf16") return kernels::ParamType::bf16;
  throw Error(Error::Kind::usage, "param_dtype",
              "the reference has no parameters of dtype '" + settings.param_dtype + "'",
              "fp32 or bf16");
}

ParameterShard::ParameterShard(std::string name, Shape shape, std::uint32_t ordinal,
                               const Settings& settings, std::uint64_t init_seed, const Mesh& mesh,
                               int rank)
    : name_(std::move(name)),
      shape_(std::move(shape)),
      ordinal_(ordinal),
      type_(param_type_of(settings)),
      moment_type_(kernels::ParamType::fp32),
      placement_(placement_of(settings, name_, mesh)),
      held_(holds(placement_, mesh, rank)),
      box_(box_of(shape_, placement_, mesh, rank)),
      runs_(runs_of(box_, shape_)),
      count_(box_.element_count()),
      whole_(element_count(shape_)),
      block_(settings.optimizer.block),
      has_master_(!settings.master_dtype.empty()),
      moment1_(std::make_shared<Moment>()),
      moment2_(std::make_shared<Moment>()) {
  const std::optional<kernels::Storage> storage = storage_of(settings);
  if (storage) storage_ = *storage;
  quantised_ =
      storage && whole_ >= settings.optimizer.min_quantised_elements && whole_ % block_ == 0;
  if (profile_of(settings.optimizer.profile) != kernels::Profile::canonical) moment_type_ = type_;

  const std::vector<float> weights = initial_weights(!settings.model.kind.empty(), init_seed);
  param_ = typed(weights);
  if (has_master_) master_ = weights;

  if (!quantised_) {
    moment1_->values.resize(static_cast<std::size_t>(count_) * size_of(value_dtype()));
    moment2_->values = moment1_->values;
    return;
  }
  cut_blocks_ = blocks_cut(shape_, placement_, mesh, block_);
  touch_blocks();
  moment1_->codes.resize(static_cast<std::size_t>(count_));
  moment1_->scale.resize(touched_.size());
  *moment2_ = *moment1_;
  if (storage_ == kernels::Storage::e4m3) return;
  moment1_->codebook = kernels::standard_codebook(storage_, true);
  moment2_->codebook = kernels::standard_codebook(storage_, false);
}

Dtype ParameterShard::param_dtype() const {
  return type_ == kernels::ParamType::bf16 ? Dtype::bf16 : Dtype::f32;
}

Dtype ParameterShard::value_dtype() const {
  return moment_type_ == kernels::ParamType::bf16 ? Dtype::bf16 : Dtype::f32;
}

Dtype ParameterShard::code_dtype() const {
  return storage_ == kernels::Storage::e4m3 ? Dtype::f8_e4m3 : Dtype::u8;
}

Bytes ParameterShard::typed(const std::vector<float>& values) const {
  return type_ == kernels::ParamType::bf16 ? bf16_bytes_of(values) : bytes_of(values);
}

// In ascending order, as runs are.
void ParameterShard::touch_blocks() {
  for (const ShardRun& run : runs_) {
    for (std::int64_t block = run.first / block_; block * block_ < run.first + run.count; ++block) {
      if (touched_.empty() || touched_.back() < block) touched_.push_back(block);
    }
  }
}

std::size_t ParameterShard::scale_index(std::int64_t element) const {
  const auto found = std::lower_bound(touched_.begin(), touched_.end(), element / block_);
  return static_cast<std::size_t>(found - touched_.begin());
}

std::vector<Box> ParameterShard::scale_boxes() const {
  std::vector<Box> boxes;
  for (std::size_t begin = 0; begin < touched_.size();) {
    std::size_t end = begin + 1;
    while (end < touched_.size() && touched_[end] == touched_[end - 1] + 1) ++end;
    boxes.push_back(Box({touched_[begin]}, {static_cast<std::int64_t>(end - begin)}));
    begin = end;
  }
  return boxes;
}

template <class Value, class Give>
std::vector<Value> ParameterShard::by_element(const Give& give) const {
  std::vector<Value> values;
  values.reserve(static_cast<std::size_t>(count_));
  for (const ShardRun& run : runs_) {
    for (std::int64_t i = run.first; i < run.first + run.count; ++i) values.push_back(give(i));
  }
  return values;
}

// In a model that computes, biases begin at 0 and the weights of a norm at 1.
std::vector<float> ParameterShard::initial_weights(bool computes, std::uint64_t init_seed) const {
  if (computes && name_.ends_with(".bias")) {
    return std::vector<float>(static_cast<std::size_t>(count_));
  }
  if (computes && name_.ends_with(".norm.weight")) {
    return std::vector<float>(static_cast<std::size_t>(count_), 1.0F);
  }
  return by_element<float>([&](std::int64_t element) {
    return kernels::grid_value(init_seed, kernels::Stream::init, ordinal_, 0,
                               static_cast<std::uint64_t>(element), kWeightExponent);
  });
}

std::vector<float> ParameterShard::of_whole(const std::vector<float>& whole) const {
  return by_element<float>(
      [&](std::int64_t element) { return whole[static_cast<std::size_t>(element)]; });
}

std::vector<float> ParameterShard::forward_values() const {
  std::vector<float> values(static_cast<std::size_t>(count_));
  if (has_master_) {
    std::transform(master_.begin(), master_.end(), values.begin(), [](float master) {
      return kernels::widen_bf16(kernels::round_to_bf16(master));
    });
    return values;
  }
  if (type_ == kernels::ParamType::fp32) {
    if (count_ > 0) std::memcpy(values.data(), param_.data(), param_.size());
    return values;
  }
  std::vector<std::uint16_t> halves(values.size());
  if (count_ > 0) std::memcpy(halves.data(), param_.data(), param_.size());
  std::transform(halves.begin(), halves.end(), values.begin(), kernels::widen_bf16);
  return values;
}

std::vector<float> ParameterShard::injected_gradient(std::uint64_t seed,
                                                     std::int64_t run_step) const {
  return by_element<float>([&](std::int64_t element) {
    return kernels::grid_value(seed, kernels::Stream::gradients, ordinal_,
                               static_cast<std::uint32_t>(run_step),
                               static_cast<std::uint64_t>(element), kGradientExponent);
  });
}

std::vector<std::uint16_t> ParameterShard::rounding_by_element(std::uint64_t seed,
                                                               std::int64_t run_step) const {
  return by_element<std::uint16_t>([&](std::int64_t element) {
    return kernels::rounding_bits(seed, ordinal_, static_cast<std::uint32_t>(run_step),
                                  static_cast<std::uint64_t>(element));
  });
}

kernels::QuantisedRun ParameterShard::quantised_run(const ShardRun& of) {
  const auto codebook = [](const Moment& moment) {
    return moment.codebook.empty() ? nullptr : moment.codebook.data();
  };
  const auto at = static_cast<std::size_t>(of.in_box);
  const std::size_t scale = scale_index(of.first);
  kernels::QuantisedRun run;
  run.first = of.first;
  run.count = of.count;
  run.whole = whole_;
  run.block = block_;
  run.storage = storage_;
  run.type = type_;
  run.param = param_.data() + at * size_of(param_dtype());
  run.grad = grad_.data() + at * size_of(param_dtype());
  run.codes1 = moment1_->codes.data() + at;
  run.codes2 = moment2_->codes.data() + at;
  run.scale1 = moment1_->scale.data() + scale;
  run.scale2 = moment2_->scale.data() + scale;
  run.codebook1 = codebook(*moment1_);
  run.codebook2 = codebook(*moment2_);
  run.rounding = rounding_.empty() ? nullptr : rounding_.data() + at;
  run.master = has_master_ ? master_.data() + at : nullptr;
  return run;
}

kernels::PlainRun ParameterShard::plain_run() {
  kernels::PlainRun run;
  run.count = count_;
  run.type = type_;
  run.moment_type = moment_type_;
  run.param = param_.data();
  run.grad = grad_.data();
  run.moment1 = moment1_->values.data();
  run.moment2 = moment2_->values.data();
  run.rounding = rounding_.empty() ? nullptr : rounding_.data();
  run.master = has_master_ ? master_.data() : nullptr;
  return run;
}

std::vector<kernels::CutBlock> ParameterShard::step(const std::vector<float>& gradient,
                                                    const kernels::AdamWSettings& optimizer,
                                                    std::vector<std::uint16_t> rounding,
                                                    const Arithmetic& arithmetic) {
  step_ += 1;
  grad_ = typed(gradient);
  rounding_ = std::move(rounding);
  const OptimizerStep step = {optimizer, static_cast<std::int64_t>(step_)};
  std::vector<kernels::CutBlock> cuts;
  if (count_ == 0) return cuts;
  if (!quantised_) {
    arithmetic.update(plain_run(), step);
    return cuts;
  }
  run_of_cut_.clear();
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    for (kernels::CutBlock& cut : arithmetic.update(quantised_run(runs_[i]), step)) {
      cuts.push_back(std::move(cut));
      run_of_cut_.push_back(i);
    }
  }
  return cuts;
}

void ParameterShard::finish(const std::vector<kernels::CutBlock>& cuts,
                            const Arithmetic& arithmetic) {
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    arithmetic.finish(quantised_run(runs_[run_of_cut_[i]]), cuts[i]);
  }
  if (scales_in_bf16_) keep_scales_in_bf16();
  grad_.clear();
  rounding_.clear();
}

void ParameterShard::keep_scales_in_bf16() {
  for (Moment* moment : {moment1_.get(), moment2_.get()}) {
    for (float& scale : moment->scale) scale = kernels::widen_bf16(kernels::round_to_bf16(scale));
  }
}

void ParameterShard::cast_moments_to_param_dtype() {
  if (type_ != kernels::ParamType::bf16) return;
  if (quantised_) {
    scales_in_bf16_ = true;
    keep_scales_in_bf16();
    return;
  }
  if (moment_type_ == kernels::ParamType::bf16) return;
  moment_type_ = kernels::ParamType::bf16;
  for (Moment* moment : {moment1_.get(), moment2_.get()}) {
    std::vector<float> values(static_cast<std::size_t>(count_));
    std::memcpy(values.data(), moment->values.data(), moment->values.size());
    moment->values = bf16_bytes_of(values);
  }
}

Bytes ParameterShard::dequantised(const Moment& moment) const {
  std::vector<float> values(static_cast<std::size_t>(count_));
  const float* codebook = moment.codebook.empty() ? nullptr : moment.codebook.data();
  for (const ShardRun& run : runs_) {
    kernels::dequantise(storage_, moment.codes.data() + run.in_box,
                        moment.scale.data() + scale_index(run.first), codebook, run.first,
                        run.count, block_, values.data() + run.in_box, kernels::best_isa());
  }
  return moment_type_ == kernels::ParamType::bf16 ? bf16_bytes_of(values) : bytes_of(values);
}

void ParameterShard::keep_moments_unquantised() {
  if (!quantised_) return;
  for (Moment* moment : {moment1_.get(), moment2_.get()}) {
    moment->values = dequantised(*moment);
    moment->codes.clear();
    moment->scale.clear();
    moment->codebook.clear();
  }
  quantised_ = false;
  cut_blocks_.clear();
}

void ParameterShard::take_from(const ParameterShard& source, bool aliased) {
  param_ = source.param_;
  master_ = source.master_;
  step_ = source.step_;
  moment1_ = aliased ? source.moment1_ : std::make_shared<Moment>(*source.moment1_);
  moment2_ = aliased ? source.moment2_ : std::make_shared<Moment>(*source.moment2_);
}

void ParameterShard::add_moment(std::vector<Piece>& pieces, const std::string& part,
                                const Moment& moment) const {
  const auto add = [&](const std::string& kind, Dtype dtype, Shape global, Box box,
                       std::int64_t block, Bytes bytes) {
    if (box.empty()) return;
    pieces.push_back({{name_, part + "." + kind},
                      dtype,
                      std::move(global),
                      std::move(box),
                      block,
                      std::move(bytes)});
  };
  if (!quantised_) {
    add("values", value_dtype(), shape_, box_, 0, moment.values);
    return;
  }
  add("codes", code_dtype(), shape_, box_, block_, bytes_of(moment.codes));
  std::size_t at = 0;
  for (const Box& box : scale_boxes()) {
    const auto begin = moment.scale.begin() + static_cast<std::ptrdiff_t>(at);
    const std::vector<float> scales(begin, begin + box.element_count());
    add("scale", scales_in_bf16_ ? Dtype::bf16 : Dtype::f32, {blocks()}, box, block_,
        scales_in_bf16_ ? bf16_bytes_of(scales) : bytes_of(scales));
    at += scales.size();
  }
  const auto entries = static_cast<std::int64_t>(moment.codebook.size());
  if (entries == 0) return;
  add("codebook", Dtype::f32, {entries}, Box({0}, {entries}), 0, bytes_of(moment.codebook));
}

std::vector<Piece> ParameterShard::pieces() const {
  std::vector<Piece> pieces;
  if (!held_) return pieces;
  if (count_ > 0) pieces.push_back({{name_, "param"}, param_dtype(), shape_, box_, 0, param_});
  if (has_master_ && count_ > 0) {
    pieces.push_back({{name_, "master"}, Dtype::f32, shape_, box_, 0, bytes_of(master_)});
  }
  add_moment(pieces, "moment1", *moment1_);
  add_moment(pieces, "moment2", *moment2_);
  pieces.push_back(
      {{name_, "step"}, Dtype::f32, {}, Box(), 0, bytes_of(std::vector<float>{step_})});
  return pieces;
}

void ParameterShard::take_moment(const LogicalState& checkpoint, const std::string& part,
                                 Moment& moment, const std::string& where) const {
  const auto source = [&](const std::string& kind, Dtype dtype, const Shape& shape) {
    return Source(checkpoint, {name_, part + "." + kind}, dtype, shape, where);
  };
  if (!quantised_) {
    source("values", value_dtype(), shape_).into(box_, moment.values);
    return;
  }
  source("codes", code_dtype(), shape_).into(box_, moment.codes);
  const Source scale = source("scale", Dtype::f32, {blocks()});
  std::size_t at = 0;
  for (const Box& box : scale_boxes()) {
    std::vector<float> scales(static_cast<std::size_t>(box.element_count()));
    scale.into(box, scales);
    std::copy(scales.begin(), scales.end(), moment.scale.begin() + static_cast<std::ptrdiff_t>(at));
    at += scales.size();
  }
  const auto entries = static_cast<std::int64_t>(moment.codebook.size());
  if (entries == 0) return;
  source("codebook", Dtype::f32, {entries}).into(Box({0}, {entries}), moment.codebook);
}

void ParameterShard::take(const LogicalState& checkpoint, const std::string& where) {
  Source(checkpoint, {name_, "param"}, param_dtype(), shape_, where).into(box_, param_);
  if (has_master_) {
    Source(checkpoint, {name_, "master"}, Dtype::f32, shape_, where).into(box_, master_);
  }
  take_moment(checkpoint, "moment1", *moment1_, where);
  take_moment(checkpoint, "moment2", *moment2_, where);
  std::vector<float> step(1);
  Source(checkpoint, {name_, "step"}, Dtype::f32, {}, where).into(Box(), step);
  step_ = step[0];
}

}  // namespace resumecheck
