#include "harness/adapters/reference/parameter_shard.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "harness/state/error.h"
#include "kernels/float_bits.h"
#include "kernels/philox.h"

namespace resumecheck {
namespace {

constexpr int kWeightExponent = -14;
constexpr int kGradientExponent = -12;

std::int64_t elements_a_row(const Shape& shape) {
  return shape.empty() ? 1 : element_count({shape.begin() + 1, shape.end()});
}

// The blocks that a shard boundary of the mesh goes through: the same list on every rank.
std::vector<std::int64_t> blocks_cut(const Shape& shape, const Mesh& mesh, std::int64_t block) {
  std::vector<std::int64_t> cut;
  if (shape.empty()) return cut;
  const std::int64_t whole = element_count(shape);
  const int shards = mesh.size_of("dp");
  for (int shard = 1; shard < shards; ++shard) {
    const std::int64_t start = chunk(shape[0], shards, shard).first * elements_a_row(shape);
    if (start <= 0 || start >= whole || start % block == 0) continue;
    if (cut.empty() || cut.back() != start / block) cut.push_back(start / block);
  }
  return cut;
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
      box_(parameter_box(shape_, mesh, rank)),
      first_(shape_.empty() ? 0 : box_.offsets()[0] * elements_a_row(shape_)),
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
  cut_blocks_ = blocks_cut(shape_, mesh, block_);
  moment1_->codes.resize(static_cast<std::size_t>(count_));
  moment1_->scale.resize(static_cast<std::size_t>(scale_box().element_count()));
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

Box ParameterShard::scale_box() const {
  if (count_ == 0) return Box({std::min(first_ / block_, blocks())}, {0});
  const std::int64_t last = (first_ + count_ - 1) / block_;
  return Box({first_ / block_}, {last - first_ / block_ + 1});
}

// In a model that computes, biases begin at 0 and the weights of a norm at 1.
std::vector<float> ParameterShard::initial_weights(bool computes, std::uint64_t init_seed) const {
  std::vector<float> weights(static_cast<std::size_t>(count_));
  if (computes && name_.ends_with(".bias")) return weights;
  for (std::int64_t i = 0; i < count_; ++i) {
    weights[static_cast<std::size_t>(i)] =
        computes && name_.ends_with(".norm.weight")
            ? 1.0F
            : kernels::grid_value(init_seed, kernels::Stream::init, ordinal_, 0,
                                  static_cast<std::uint64_t>(first_ + i), kWeightExponent);
  }
  return weights;
}

std::vector<float> ParameterShard::of_whole(const std::vector<float>& whole) const {
  return {whole.begin() + first_, whole.begin() + first_ + count_};
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
  std::vector<float> values(static_cast<std::size_t>(count_));
  for (std::int64_t i = 0; i < count_; ++i) {
    values[static_cast<std::size_t>(i)] = kernels::grid_value(
        seed, kernels::Stream::gradients, ordinal_, static_cast<std::uint32_t>(run_step),
        static_cast<std::uint64_t>(first_ + i), kGradientExponent);
  }
  return values;
}

std::vector<std::uint16_t> ParameterShard::rounding_by_element(std::uint64_t seed,
                                                               std::int64_t run_step) const {
  std::vector<std::uint16_t> bits(static_cast<std::size_t>(count_));
  for (std::int64_t i = 0; i < count_; ++i) {
    bits[static_cast<std::size_t>(i)] =
        kernels::rounding_bits(seed, ordinal_, static_cast<std::uint32_t>(run_step),
                               static_cast<std::uint64_t>(first_ + i));
  }
  return bits;
}

kernels::QuantisedRun ParameterShard::quantised_run() {
  const auto codebook = [](const Moment& moment) {
    return moment.codebook.empty() ? nullptr : moment.codebook.data();
  };
  kernels::QuantisedRun run;
  run.first = first_;
  run.count = count_;
  run.whole = whole_;
  run.block = block_;
  run.storage = storage_;
  run.type = type_;
  run.param = param_.data();
  run.grad = grad_.data();
  run.codes1 = moment1_->codes.data();
  run.codes2 = moment2_->codes.data();
  run.scale1 = moment1_->scale.data();
  run.scale2 = moment2_->scale.data();
  run.codebook1 = codebook(*moment1_);
  run.codebook2 = codebook(*moment2_);
  run.rounding = rounding_.empty() ? nullptr : rounding_.data();
  run.master = has_master_ ? master_.data() : nullptr;
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
  if (quantised_) {
    cuts = arithmetic.update(quantised_run(), step);
  } else {
    arithmetic.update(plain_run(), step);
  }
  return cuts;
}

void ParameterShard::finish(const std::vector<kernels::CutBlock>& cuts,
                            const Arithmetic& arithmetic) {
  for (const kernels::CutBlock& cut : cuts) arithmetic.finish(quantised_run(), cut);
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
  kernels::dequantise(storage_, moment.codes.data(), moment.scale.data(),
                      moment.codebook.empty() ? nullptr : moment.codebook.data(), first_, count_,
                      block_, values.data(), kernels::best_isa());
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
  add("scale", scales_in_bf16_ ? Dtype::bf16 : Dtype::f32, {blocks()}, scale_box(), block_,
      scales_in_bf16_ ? bf16_bytes_of(moment.scale) : bytes_of(moment.scale));
  const auto entries = static_cast<std::int64_t>(moment.codebook.size());
  if (entries == 0) return;
  add("codebook", Dtype::f32, {entries}, Box({0}, {entries}), 0, bytes_of(moment.codebook));
}

std::vector<Piece> ParameterShard::pieces() const {
  std::vector<Piece> pieces;
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
  source("scale", Dtype::f32, {blocks()}).into(scale_box(), moment.scale);
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
