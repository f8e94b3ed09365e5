#include "harness/adapters/reference/sample_streams.h"

#include <cstring>
#include <span>
#include <utility>

#include "harness/scenario/model_schema.h"
#include "harness/state/error.h"
#include "kernels/philox.h"

namespace resumecheck {
namespace {

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32U); }

constexpr auto kDropout = static_cast<std::uint32_t>(kernels::Stream::dropout);

}  // namespace

SampleTensor::SampleTensor(TensorKey key, std::int64_t numbers, Rows samples)
    : key_(std::move(key)),
      numbers_(numbers),
      samples_(samples),
      values_(static_cast<std::size_t>((samples.last - samples.first) * numbers)) {}

std::int64_t& SampleTensor::at(std::int64_t sample, std::int64_t number) {
  return values_.at(static_cast<std::size_t>((sample - samples_.first) * numbers_ + number));
}

std::int64_t SampleTensor::at(std::int64_t sample, std::int64_t number) const {
  return values_.at(static_cast<std::size_t>((sample - samples_.first) * numbers_ + number));
}

Shape SampleTensor::shape() const {
  return numbers_ == 1 ? Shape{logical_samples} : Shape{logical_samples, numbers_};
}

Box SampleTensor::box() const {
  const std::int64_t count = samples_.last - samples_.first;
  return numbers_ == 1 ? Box({samples_.first}, {count})
                       : Box({samples_.first, 0}, {count, numbers_});
}

void SampleTensor::add_to(std::vector<Piece>& pieces) const {
  if (box().empty()) return;
  const auto bytes = std::as_bytes(std::span(values_));
  pieces.push_back({key_, Dtype::i64, shape(), box(), 0, {bytes.begin(), bytes.end()}});
}

void SampleTensor::take(const LogicalState& checkpoint, const std::string& where) {
  const auto found = checkpoint.tensors.find(key_);
  const bool fits = found != checkpoint.tensors.end() && found->second.dtype == Dtype::i64 &&
                    found->second.shape == shape();
  if (!fits) {
    throw Error(Error::Kind::subject, where,
                "holds no " + to_text(key_) + " of I64 " + to_text(shape()),
                "load a checkpoint of the same model and data");
  }
  if (box().empty()) return;
  copy_region(box(), Box::whole(shape()), found->second.bytes, box(),
              std::as_writable_bytes(std::span(values_)), sizeof(std::int64_t));
}

DataPositions::DataPositions(Rows samples) : next_({"data", "data_position"}, 1, samples) {
  for (std::int64_t s = samples.first; s < samples.last; ++s) next_.at(s, 0) = s;
}

void DataPositions::advance() {
  const Rows& samples = next_.samples();
  for (std::int64_t s = samples.first; s < samples.last; ++s) next_.at(s, 0) += logical_samples;
}

DropoutGenerators::DropoutGenerators(std::uint64_t seed, Rows samples)
    : state_({"dropout", "rng"}, 2, samples) {
  for (std::int64_t s = samples.first; s < samples.last; ++s) {
    const auto words = kernels::philox4x32_10({kDropout, 0, static_cast<std::uint32_t>(s), 0},
                                              {low(seed), high(seed)});
    const std::uint64_t key = words[0] | static_cast<std::uint64_t>(words[1]) << 32U;
    std::memcpy(&state_.at(s, 0), &key, sizeof key);
  }
}

float DropoutGenerators::factor(std::int64_t layer, std::int64_t sample,
                                std::int64_t feature) const {
  const auto key = static_cast<std::uint64_t>(state_.at(sample, 0));
  const auto steps = static_cast<std::uint32_t>(state_.at(sample, 1));
  const auto words = kernels::philox4x32_10({kDropout + 256 * static_cast<std::uint32_t>(layer),
                                             steps + 1, static_cast<std::uint32_t>(feature), 0},
                                            {low(key), high(key)});
  return words[0] >> 31U != 0 ? 2.0F : 0.0F;
}

void DropoutGenerators::advance() {
  const Rows& samples = state_.samples();
  for (std::int64_t s = samples.first; s < samples.last; ++s) state_.at(s, 1) += 1;
}

}  // namespace resumecheck
