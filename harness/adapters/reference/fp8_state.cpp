#include "harness/adapters/reference/fp8_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "harness/state/error.h"
#include "kernels/float_bits.h"
#include "kernels/philox.h"
#include "kernels/slow_model_twin.h"

namespace resumecheck {
namespace {

constexpr std::uint64_t index_of_backward = 64;  // of an injected amax, plus the column

kernels::DelayedScaling delayed_scaling(const Settings::Fp8& fp8) {
  if (fp8.recipe != "delayed") {
    throw Error(Error::Kind::usage, "fp8.recipe",
                "the reference has no FP8 recipe '" + fp8.recipe + "'", "delayed");
  }
  return {fp8.update == "fused", fp8.amax_compute_algo == "most_recent", fp8.amax_history_len,
          static_cast<int>(fp8.margin)};
}

std::string recipe_text_of(const Settings::Fp8& fp8) {
  return fmt::format(
      "amax_compute_algo={}, amax_history_len={}, fp8_format={}, margin={}, recipe={}",
      fp8.amax_compute_algo, fp8.amax_history_len, fp8.format, fp8.margin, fp8.recipe);
}

std::vector<float> floats_of(const std::uint32_t* bits, std::int64_t count) {
  std::vector<float> floats(static_cast<std::size_t>(count));
  std::memcpy(floats.data(), bits, floats.size() * sizeof(float));
  return floats;
}

// The slow twin's scaling of one direction, in and out.
void update_by_twin(const kernels::DelayedScaling& recipe, bool is_e5m2,
                    const std::vector<float>& reduced, std::int64_t columns,
                    const kernels::ScalingState& state) {
  slow_twin::Scaling scaling;
  scaling.fused = recipe.fused;
  scaling.most_recent = recipe.most_recent;
  scaling.is_e5m2 = is_e5m2;
  scaling.margin = recipe.margin;
  for (std::int64_t row = 0; row < recipe.history; ++row) {
    scaling.history.emplace_back(state.history + row * columns,
                                 state.history + (row + 1) * columns);
  }
  scaling.scale.assign(state.scale, state.scale + columns);
  scaling.scale_inv.assign(state.scale_inv, state.scale_inv + columns);
  slow_twin::update_scaling(scaling, reduced);
  for (std::int64_t row = 0; row < recipe.history; ++row) {
    std::copy(scaling.history[static_cast<std::size_t>(row)].begin(),
              scaling.history[static_cast<std::size_t>(row)].end(), state.history + row * columns);
  }
  std::copy(scaling.scale.begin(), scaling.scale.end(), state.scale);
  std::copy(scaling.scale_inv.begin(), scaling.scale_inv.end(), state.scale_inv);
}

}  // namespace

Amaxes injected_amaxes(std::uint64_t seed, std::uint32_t layer, std::int64_t run_step, int rank,
                       int world) {
  Amaxes bits = {};
  const auto inject = [&](std::size_t first, std::uint64_t index, int column) {
    float amax = kernels::amax_value(seed, layer, static_cast<std::uint32_t>(run_step),
                                     index + static_cast<std::uint64_t>(column));
    if ((run_step + column) % world != rank) amax /= 2;
    bits[first + static_cast<std::size_t>(column)] = kernels::bits_of(amax);
  };
  for (const int column :
       {kernels::fc1_input, kernels::fc1_weight, kernels::fc2_input, kernels::fc2_weight}) {
    inject(0, 0, column);
  }
  for (const int column : {kernels::fc1_output_gradient, kernels::fc2_output_gradient}) {
    inject(kernels::forward_columns, index_of_backward, column);
  }
  return bits;
}

Fp8State::Fp8State(std::uint32_t layer, const Settings& settings, int rank)
    : module_(fmt::format("layers.{}", layer)),
      name_(settings.fp8.reduce_amax ? module_ : fmt::format("{}@rank{}", module_, rank)),
      recipe_(recipe_text_of(settings.fp8)),
      scaling_(delayed_scaling(settings.fp8)),
      forward_{"forward", kernels::Fp8Format::e4m3, kernels::forward_columns, {}, {}, {}},
      backward_{"backward",
                settings.fp8.format == "e4m3" ? kernels::Fp8Format::e4m3 : kernels::Fp8Format::e5m2,
                kernels::backward_columns,
                {},
                {},
                {}} {
  forget();
}

void Fp8State::forget() {
  for (Direction* direction : {&forward_, &backward_}) {
    direction->history.assign(static_cast<std::size_t>(scaling_.history * direction->columns), 0);
    direction->scale.assign(static_cast<std::size_t>(direction->columns), 1);
    direction->scale_inv = direction->scale;
  }
}

void Fp8State::forget_until_next_step() {
  forget();
  told_ = false;
}

void Fp8State::update(Direction& direction, const std::uint32_t* mine, const std::uint32_t* reduced,
                      const Arithmetic& arithmetic) {
  std::memcpy(direction.history.data(), mine,
              static_cast<std::size_t>(direction.columns) * sizeof(float));  // row 0
  const std::vector<float> maxima = floats_of(reduced, direction.columns);
  const kernels::ScalingState state = {direction.columns, direction.history.data(),
                                       direction.scale.data(), direction.scale_inv.data()};
  if (const kernels::ModelKernels* kernels = arithmetic.model()) {
    kernels->update_scaling(scaling_, direction.format, maxima.data(), state);
  } else {
    update_by_twin(scaling_, direction.format == kernels::Fp8Format::e5m2, maxima,
                   direction.columns, state);
  }
}

void Fp8State::update(const Amaxes& mine, const Amaxes& reduced, const Arithmetic& arithmetic) {
  told_ = true;
  update(forward_, mine.data(), reduced.data(), arithmetic);
  update(backward_, mine.data() + kernels::forward_columns,
         reduced.data() + kernels::forward_columns, arithmetic);
}

kernels::BlockScaling Fp8State::scaling(Amaxes& raised) const {
  kernels::BlockScaling scaling;
  scaling.forward = forward_.format;
  scaling.backward = backward_.format;
  scaling.scale_forward = forward_.scale.data();
  scaling.scale_inv_forward = forward_.scale_inv.data();
  scaling.scale_backward = backward_.scale.data();
  scaling.scale_inv_backward = backward_.scale_inv.data();
  scaling.amax_forward = raised.data();
  scaling.amax_backward = raised.data() + kernels::forward_columns;
  return scaling;
}

std::vector<Fp8State::Field> Fp8State::fields() const {
  std::vector<Field> all;
  for (Direction Fp8State::*direction : {&Fp8State::forward_, &Fp8State::backward_}) {
    const Direction& of = this->*direction;
    const auto add = [&](const char* kind, Shape shape, std::vector<float> Direction::*values) {
      all.push_back({fmt::format("fp8.{}.{}", kind, of.name), std::move(shape), direction, values});
    };
    add("amax_history", {scaling_.history, of.columns}, &Direction::history);
    add("scale", {of.columns}, &Direction::scale);
    add("scale_inv", {of.columns}, &Direction::scale_inv);
  }
  return all;
}

std::vector<Piece> Fp8State::pieces() const {
  std::vector<Piece> pieces;
  if (!told_) return pieces;
  for (const Field& field : fields()) {
    const std::vector<float>& values = (this->*field.direction).*field.values;
    const auto bytes = std::as_bytes(std::span(values));
    pieces.push_back({{name_, field.part},
                      Dtype::f32,
                      field.shape,
                      Box::whole(field.shape),
                      0,
                      {bytes.begin(), bytes.end()}});
  }
  return pieces;
}

void Fp8State::take(const LogicalState& checkpoint, const std::string& where) {
  const std::string cure = "load a checkpoint of the same model and FP8 recipe";
  for (const Field& field : fields()) {
    const TensorKey key = {name_, field.part};
    const auto found = checkpoint.tensors.find(key);
    if (found == checkpoint.tensors.end()) {
      throw Error(Error::Kind::subject, where, "holds no " + to_text(key), cure);
    }
    const LogicalTensor& tensor = found->second;
    if (tensor.dtype != Dtype::f32 || tensor.shape != field.shape) {
      throw Error(
          Error::Kind::subject, where,
          fmt::format("{} is {} {}, this run needs F32 {} (rows of history, columns)", to_text(key),
                      name_of(tensor.dtype), to_text(tensor.shape), to_text(field.shape)),
          cure);
    }
    std::vector<float>& values = (this->*field.direction).*field.values;
    std::memcpy(values.data(), tensor.bytes.data(), tensor.bytes.size());
  }
  const auto found = checkpoint.values.find(recipe_name());
  const std::string recipe = found == checkpoint.values.end() ? "missing" : to_text(found->second);
  if (recipe != recipe_) {
    throw Error(Error::Kind::subject, where,
                fmt::format("{} is {}, this run's is {}", recipe_name(), recipe, recipe_), cure);
  }
}

}  // namespace resumecheck
